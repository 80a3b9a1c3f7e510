"""Faults of Kubernetes manifests: `python -m tests.deploy.manifests [DIR]`.

Prints a line for each fault of the kustomizations under DIR (default deploy/kubernetes) and exits
with 1; with 0 where there is none. It finds above all what API servers accept in silence. How many
partitions there are is stated once, by `topics.partitions` in the ConfigMap.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.deploy import pods
from tests.deploy.fields import field_faults, read_fields
from tests.deploy.keda import scaler_faults
from tests.deploy.kustomize import CLUSTER_WIDE, Object, build, identity, kustomizations, title
from tests.deploy.pods import WORKLOADS, Workload, inside, items, mapping
from worker.errors import ConfigError

HERE = Path(__file__).parents[2] / "deploy" / "kubernetes"
ENFORCED = "pod-security.kubernetes.io/enforce"
DNS, HTTPS = 53, 443
# What a whole tree holds, and a kind that each of its parts has.
TREE = {"base": "PodMonitor", "overlays/keda": "ScaledObject", "overlays/gpu": "StatefulSet"}
WORKER_NEEDS = ("Service", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor")


def selects(selector: Any, labels: Object) -> bool:
    """Whether a LabelSelector matches; an empty one matches all."""
    pairs = mapping(selector, "matchLabels").items()
    return all(labels.get(name) == value for name, value in pairs)


@dataclass(frozen=True)
class Stack:
    """The objects of one kustomization."""

    objects: list[Object]

    def of(self, *kinds: str) -> list[Object]:
        return [item for item in self.objects if identity(item)[1] in kinds]

    @cached_property
    def workloads(self) -> list[Workload]:
        configs = {identity(item)[2]: item for item in self.of("ConfigMap")}
        return [Workload(item, configs) for item in self.of(*WORKLOADS)]

    def selected(self, item: Object) -> list[Workload]:
        """The workloads whose pods a Service, budget, policy or monitor is about."""
        selector: Any = inside(item, "spec", "selector")
        if item.get("kind") == "Service":
            selector = {"matchLabels": selector}
        if item.get("kind") == "NetworkPolicy":
            selector = inside(item, "spec", "podSelector")
        if not isinstance(selector, dict) or None in selector.values():
            return []
        return [work for work in self.workloads if selects(selector, work.labels)]

    def policies(self, work: Workload, direction: str) -> list[Object]:
        return [
            item for item in self.of("NetworkPolicy")
            if work in self.selected(item) and direction in _directions(item)
        ]  # fmt: skip

    def admits(self, work: Workload, direction: str, port: int, protocol: str = "TCP") -> bool:
        """Whether a policy lets this port in or out."""
        return any(
            not rule.get("ports")
            or any(_is_port(each, port, protocol, work) for each in items(rule, "ports"))
            for item in self.policies(work, direction)
            for rule in items(item, "spec", direction.lower())
        )


def _directions(item: Object) -> list[str]:
    types = inside(item, "spec", "policyTypes")
    return [str(name) for name in types] if isinstance(types, list) else []


def _is_port(rule: Any, port: int, protocol: str, work: Workload) -> bool:
    number_or_name = inside(rule, "port")
    if (inside(rule, "protocol") or "TCP") != protocol:
        return False
    number = work.port(number_or_name) if isinstance(number_or_name, str) else number_or_name
    last = inside(rule, "endPort") or number
    if isinstance(number, int) and isinstance(last, int):
        return number <= port <= last
    return number_or_name is None


def check_fields(stack: Stack) -> Iterator[str]:
    types = read_fields()
    for item in stack.objects:
        api, kind, _ = identity(item)
        if (own := types.get(f"{api}/{kind}")) is None:
            yield f"{title(item)}: {api} {kind} is not a kind that this check has the fields of"
        else:
            yield from (f"{title(item)}: {fault}" for fault in field_faults(item, own, types))


def check_names(stack: Stack) -> Iterator[str]:
    names = [identity(item) for item in stack.objects]
    for item in stack.objects:
        if names.count(identity(item)) > 1:
            yield f"{title(item)}: is there twice"
        if not inside(item, "metadata", "name"):
            yield f"{title(item)}: metadata.name: is missing"


def check_namespace(stack: Stack) -> Iterator[str]:
    """All is in one namespace of ours, in which the server enforces `restricted`."""
    own = {identity(item)[2]: item for item in stack.of("Namespace")}
    for name, item in own.items():
        if mapping(item, "metadata", "labels").get(ENFORCED) != "restricted":
            yield f"Namespace/{name}: labels: {ENFORCED} is not restricted"
    for item in stack.objects:
        place = inside(item, "metadata", "namespace")
        if identity(item)[1] not in CLUSTER_WIDE and str(place) not in own:
            yield f"{title(item)}: namespace: {place} is not one of these manifests"


def check_pods(stack: Stack) -> Iterator[str]:
    for work in stack.workloads:
        yield from (f"{work.title}: {fault}" for rule in pods.RULES for fault in rule(work))
        spec = mapping(work.item, "spec")
        own = [each for each in stack.workloads if selects(spec.get("selector"), each.labels)]
        if own != [work]:
            yield f"{work.title}: selector: does not match its own pods alone"
        for rule in items(work.pod, "topologySpreadConstraints"):
            if not selects(rule.get("labelSelector"), work.labels):
                yield f"{work.title}: topologySpreadConstraints: labelSelector matches other pods"
        heads = [
            identity(item)[2]
            for item in stack.of("Service")
            if stack.selected(item) == [work] and inside(item, "spec", "clusterIP") == "None"
        ]
        if work.item.get("kind") == "StatefulSet" and spec.get("serviceName") not in heads:
            yield (
                f"{work.title}: serviceName: {spec.get('serviceName')} is not a Service of its "
                "pods with clusterIP None"
            )


def check_workers(stack: Stack) -> Iterator[str]:
    """There is one worker and one collector, with all that has to stand around them."""
    workers = [work for work in stack.workloads if work.is_worker]
    collectors = [work for work in stack.workloads if work.is_collector]
    if len(workers) != 1:
        yield f"{len(workers)} workloads run a worker, and one is expected"
    if not collectors:
        yield "no workload runs a collector"
    for work in workers:
        for kind in WORKER_NEEDS:
            if not any(work in stack.selected(item) for item in stack.of(kind)):
                yield f"{work.title}: no {kind} selects its pods"
        replicas = mapping(work.item, "spec").get("replicas", 1)
        partitions = _partitions(work)
        if not isinstance(replicas, int) or not 1 <= replicas <= partitions:
            yield f"{work.title}: replicas: {replicas} is not 1 to topics.partitions ({partitions})"
    for work in collectors:
        for kind in ("NetworkPolicy", "PodMonitor"):
            if not any(work in stack.selected(item) for item in stack.of(kind)):
                yield f"{work.title}: no {kind} selects its pods"


def check_selectors(stack: Stack) -> Iterator[str]:
    for item in stack.of("Service", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor"):
        pods = stack.selected(item)
        if not pods:
            yield f"{title(item)}: selector: matches no pod"
        if len(pods) > 1 and item.get("kind") in ("Service", "PodDisruptionBudget"):
            yield f"{title(item)}: selector: matches the pods of {len(pods)} workloads"


def check_services(stack: Stack) -> Iterator[str]:
    for item in stack.of("Service"):
        if not items(item, "spec", "ports"):
            yield f"{title(item)}: ports: is empty"
        for port in items(item, "spec", "ports"):
            target = port.get("targetPort", port.get("port"))
            for work in stack.selected(item):
                if work.port(target) is None:
                    yield f"{title(item)}: targetPort: {work.title} has no port {target}"
        if inside(item, "spec", "type") not in (None, "ClusterIP"):
            yield f"{title(item)}: type: opens the web server to the outside"


def check_budgets(stack: Stack) -> Iterator[str]:
    for item in stack.of("PodDisruptionBudget"):
        least, most = (inside(item, "spec", name) for name in ("minAvailable", "maxUnavailable"))
        if (least is None) == (most is None):
            yield f"{title(item)}: needs either minAvailable or maxUnavailable"
        if most in (0, "0", "0%") or least == "100%":
            yield f"{title(item)}: lets no pod go, so no node can be drained"
        for work in stack.selected(item):
            replicas = mapping(work.item, "spec").get("replicas", 1)
            if isinstance(least, int) and isinstance(replicas, int) and least >= replicas:
                yield f"{title(item)}: lets no pod of {replicas} go, so no node can be drained"


def check_policies(stack: Stack) -> Iterator[str]:
    for work in stack.workloads:
        try:
            config = work.config
        except ConfigError:
            continue
        ports = {int(each.rpartition(":")[2]) for each in config.kafka.bootstrap_servers.split(",")}
        egress = [(port, "TCP", "Kafka") for port in sorted(ports)] + [(DNS, "UDP", "DNS")]
        if work.is_collector:
            egress.append((HTTPS, "TCP", "the platform"))
        for port, protocol, what in egress:
            if not stack.admits(work, "Egress", port, protocol):
                yield f"{work.title}: no NetworkPolicy lets it reach {what} ({protocol} {port})"
        if config.web.port and not stack.admits(work, "Ingress", config.web.port):
            yield f"{work.title}: no NetworkPolicy lets Prometheus reach port {config.web.port}"
        for direction in ("Ingress", "Egress"):
            if not stack.policies(work, direction):
                yield f"{work.title}: no NetworkPolicy restricts its {direction}"


def check_openings(stack: Stack) -> Iterator[str]:
    """A policy opens what it names, and no more."""
    for item in stack.of("NetworkPolicy"):
        if not _directions(item):
            yield f"{title(item)}: policyTypes: is empty"
        for direction in ("Ingress", "Egress"):
            rules = items(item, "spec", direction.lower())
            if rules and direction not in _directions(item):
                yield f"{title(item)}: policyTypes: {direction} is missing"
            if not all(items(rule, "ports") for rule in rules):
                yield f"{title(item)}: {direction.lower()}: a rule without ports opens all"
            if direction == "Ingress" and not all(items(rule, "from") for rule in rules):
                yield f"{title(item)}: ingress: a rule without from opens it to everybody"


def check_monitors(stack: Stack) -> Iterator[str]:
    for item in stack.of("PodMonitor"):
        endpoints = items(item, "spec", "podMetricsEndpoints")
        if not endpoints:
            yield f"{title(item)}: podMetricsEndpoints: is empty"
        for end in endpoints:
            if end.get("path") != "/metrics":
                yield f"{title(item)}: path: {end.get('path')} is not /metrics"
            for work in stack.selected(item):
                if end.get("port") not in [port.get("name") for port in items(work.main, "ports")]:
                    yield f"{title(item)}: port: {work.title} names no port {end.get('port')}"
        if inside(item, "spec", "namespaceSelector"):
            yield f"{title(item)}: namespaceSelector: the pods are in its own namespace"


def check_scalers(stack: Stack) -> Iterator[str]:
    for item in stack.of("ScaledObject"):
        yield from (f"{title(item)}: {fault}" for fault in scaler_faults(item, stack.workloads))


def _partitions(work: Workload) -> int:
    try:
        return work.config.topics.partitions
    except ConfigError:
        return 1


RULES: tuple[Callable[[Stack], Iterator[str]], ...] = (
    check_fields, check_names, check_namespace, check_pods, check_workers, check_selectors,
    check_services, check_budgets, check_policies, check_openings, check_monitors, check_scalers,
)  # fmt: skip


def tree_faults(root: Path, used: set[Path]) -> Iterator[tuple[str, str]]:
    """Files that no kustomization reads, and kustomizations that a whole tree lacks."""
    for file in sorted([*root.rglob("*.yaml"), *root.rglob("*.yml")]):
        if file.resolve() not in used:
            yield file.relative_to(root).as_posix(), "is part of no kustomization"
    if not list(kustomizations(root)):
        yield str(root), "no kustomization.yaml"
    elif (root / "base").exists():
        for name in TREE:
            if not (root / name / "kustomization.yaml").exists():
                yield name, "has no kustomization.yaml"


def faults(root: Path) -> list[str]:
    """A line for each fault of the kustomizations under this folder, with where it appears."""
    lines: list[tuple[str, str]] = []
    used: set[Path] = set()
    for folder in kustomizations(root):
        name, result = folder.relative_to(root).as_posix(), build(folder)
        used |= result.files
        lines += [(name, fault) for fault in result.faults]
        lines += [(name, fault) for rule in RULES for fault in rule(Stack(result.objects))]
        if (kind := TREE.get(name)) and not Stack(result.objects).of(kind):
            lines.append((name, f"has no {kind}"))
    lines += tree_faults(root, used)
    places: dict[str, list[str]] = {}
    for name, fault in dict.fromkeys(lines):
        places.setdefault(fault, []).append(name)
    return [f"{fault} ({', '.join(names)})" for fault, names in places.items()]


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else HERE
    lines = faults(root)
    for line in lines:
        print(line)  # noqa: T201
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
