"""Faults of Kubernetes manifests: `python -m tests.deploy.manifests [DIR]`.

Prints a line for each fault of the kustomizations under DIR (default deploy/kubernetes) and exits
with 1; with 0 where there is none. It finds above all what API servers accept in silence: what one
object must hold is in fields.json and rules.yaml, what several must agree on is here.
"""

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from newsift.cli.collect import collect
from tests.deploy.objects import FILE, Object, Stack, Workload, at, items, mapping, quantity, title
from worker.config import KEYS
from worker.errors import ConfigError
from worker.process.command import SHUTDOWN_SLACK_S

HERE = Path(__file__).parents[2] / "deploy" / "kubernetes"
# What a whole tree holds, and a kind that each of its parts has.
TREE = {"base": "PodMonitor", "overlays/keda": "ScaledObject", "overlays/gpu": "StatefulSet"}
SELECTING = ("Service", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor")
LASTING = {"persistentVolumeClaim", "ephemeral", "csi"}  # kinds of volumes
INSTANCE, GPU = "NEWSIFT_KAFKA__INSTANCE_ID", "nvidia.com/gpu"
# Variables that are not keys of config.yaml.
VARIABLES = {
    "NEWSIFT_KAFKA", "NEWSIFT_CONFIG", "NEWSIFT_CACHE", "NEWSIFT_STATE", "NEWSIFT_X_TOKEN",
    "NEWSIFT_MASTODON_TOKEN",
}  # fmt: skip


def schema(kind: Any) -> Object:
    """The JSON Schema of a type of fields.json.

    A type is the name of a scalar, `#Name`, [type] for a list, {"*": type} for a map, or a map from
    field to type. The fields are those of Kubernetes 1.37, KEDA 2.21 and the Prometheus operator
    0.85; any may be null.
    """
    if isinstance(kind, list):
        return {"type": ["array", "null"], "items": schema(kind[0])}
    if isinstance(kind, dict):
        fields = {name: schema(inner) for name, inner in kind.items() if name != "*"}
        others = schema(kind["*"]) if "*" in kind else False
        return {
            "type": ["object", "null"], "properties": fields, "additionalProperties": others,
        }  # fmt: skip
    if kind.startswith("#"):
        return {"$ref": f"#/$defs/{kind[1:]}"}
    types = {"any": {}, "scalar": {"type": ["string", "number", "null"]}}
    return types.get(kind, {"type": [kind, "null"]})


@cache
def validators() -> dict[str, Draft202012Validator]:
    """Of objects by apiVersion and kind."""
    here = Path(__file__)
    fields: Object = json.loads(here.with_name("fields.json").read_text("utf-8"))
    rules: Object = yaml.safe_load(here.with_name("rules.yaml").read_text("utf-8"))
    definitions = {
        name: {"allOf": [schema(kind), rules.get(name, {})]} for name, kind in fields.items()
    }
    return {
        name: Draft202012Validator({**definition, "$defs": definitions})
        for name, definition in definitions.items() if "/" in name
    }  # fmt: skip


def check_objects(stack: Stack) -> Iterator[str]:
    titles = [title(each) for each in stack.objects]
    for name, item in zip(titles, stack.objects, strict=True):
        kind, space = f"{item.get('apiVersion')}/{item.get('kind')}", at(item, "metadata.namespace")
        if titles.count(name) > 1 or kind not in validators():
            yield f"{name}: is there twice, or of no kind that this check has the fields of"
            continue
        for error in validators()[kind].iter_errors(item):
            yield f"{name}: {error.json_path}: {error.message}"
        if item.get("kind") != "Namespace" and f"Namespace/{space}" not in titles:
            yield f"{name}: namespace: {space} is not one of these manifests"
        if item.get("kind") in SELECTING:
            yield from (f"{name}: {fault}" for fault in check_selection(item, stack))


def check_selection(item: Object, stack: Stack) -> Iterator[str]:
    works, kind = stack.selected(item), item.get("kind")
    if not works or (kind in ("Service", "PodDisruptionBudget") and len(works) > 1):
        yield "selector: matches no pod, or those of several workloads"
    ports = [end.get("targetPort", end.get("port")) for end in items(item, "spec.ports")]
    ports += [end.get("port") for end in items(item, "spec.podMetricsEndpoints")]
    if None in [work.port(port) for work in works for port in ports]:
        yield "port, targetPort: is no port of its pods"


def check_boxes(work: Workload, _stack: Stack) -> Iterator[str]:
    security = mapping(work.pod, "securityContext")
    if security.get("runAsGroup") != security.get("fsGroup"):
        yield "runAsGroup, fsGroup: are not the same"
    for box in items(work.pod, "initContainers") + items(work.pod, "containers"):
        for name in ("cpu", "memory"):
            request = quantity(at(box, f"resources.requests.{name}"))
            if not 0 < request <= quantity(at(box, f"resources.limits.{name}")):
                yield f"requests.{name}, limits.{name}: are not above 0 and in this order"


def check_environment(work: Workload, _stack: Stack) -> Iterator[str]:
    """The command, and variables that mean something."""
    if work.is_worker == work.is_collector:
        yield f"command: {work.command} is neither a worker nor a collector"
    entries = items(work.main, "env")
    if len(work.variables) < len(entries):
        yield "env: a variable is there twice"
    for name in work.variables:
        section, _, key = name.removeprefix("NEWSIFT_").lower().partition("__")
        is_key = name in VARIABLES or (name.isupper() and key in KEYS.get(section, {}))
        if name.upper().startswith("NEWSIFT") and not is_key:
            yield f"env: {name} is not a key of the configuration"
    sources = [at(e, "valueFrom.fieldRef.fieldPath") for e in entries if e.get("name") == INSTANCE]
    if work.is_worker and (sources, work.item["kind"]) != (["metadata.name"], "StatefulSet"):
        yield f"env: {INSTANCE} is not the lasting name of a pod of a StatefulSet"


def check_process(work: Workload, _stack: Stack) -> Iterator[str]:
    """The pod agrees with the configuration, as the product's own reader takes it."""
    config, limits = work.config, mapping(work.main, "resources.limits")
    if config.web.host in ("127.0.0.1", "localhost", "::1") or not config.web.port:
        yield "configuration: web.host, web.port: probes cannot reach it; set 0.0.0.0 and a port"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if work.port(at(work.main, f"{probe}.httpGet.port")) != config.web.port:
            yield f"{probe}: port: is not web.port ({config.web.port})"
    needed = config.stream.shutdown_s + SHUTDOWN_SLACK_S
    needed += quantity(at(work.main, "lifecycle.preStop.sleep.seconds"))
    if quantity(at(work.pod, "terminationGracePeriodSeconds")) <= needed:
        yield f"terminationGracePeriodSeconds: is not above the {needed:g} s that its end takes"
    has_gpu = GPU in limits
    if has_gpu != (config.model.device == "cuda") or (
        has_gpu and "cuda" not in str(work.main.get("image"))
    ):
        yield f"limits: {GPU}, model.device and the image's target (cuda) do not agree"
    if str(at(work.main, "resources.requests").get(GPU, limits.get(GPU))) != str(limits.get(GPU)):
        yield f"requests: {GPU}: is not that of the limits"


def check_volumes(work: Workload, _stack: Stack) -> Iterator[str]:
    """The cache is on a claim where newsift accepts it, the collector's position on one too."""
    used = {str(mount.get("name")) for mount in items(work.main, "volumeMounts")}
    for name in sorted(used ^ work.volumes.keys()):
        yield f"volumes: {name} is not a volume, or is mounted nowhere"
    if len(items(work.pod, "volumes") + work.claims) > len(work.volumes):
        yield "volumes: one is there twice, or a claim template too"
    for name, volume in work.volumes.items():
        if at(volume, "configMap.name") not in (None, *work.configs):
            yield f"volumes: {name}: there is no such ConfigMap"
    what, path = "cache", work.variables.get("NEWSIFT_CACHE")
    if not work.is_worker:
        option = work.command.index("--state") if "--state" in work.command[:-1] else None
        path = work.command[option + 1] if option else work.variables.get("NEWSIFT_STATE")
        what = "state"
    mount, volume = work.volume_at(path)
    if LASTING.isdisjoint(volume):
        yield f"{what}: {path} is on a volume of kind {set(volume) - {'name'}}, not on a claim"
    if work.is_worker and Path(str(path)) == mount:
        yield f"{what}: {path} is the root of its volume, whose group can write; use a folder in it"
    for box in items(work.pod, "initContainers"):
        if f"/{Path(str(path)).name} " not in str(box.get("command")):
            yield f"{what}: {box.get('name')} does not copy to the folder {Path(str(path)).name}"


def check_collector(work: Workload, _stack: Stack) -> Iterator[str]:
    if not work.is_collector:
        return
    if work.command[2] not in collect.commands:
        yield f"command: {work.command[2]} is not one of {', '.join(collect.commands)}"
    if (work.replicas, work.item["kind"]) != (1, "StatefulSet"):
        yield "replicas: is not 1 of a StatefulSet: two collectors never share a state"
    if "Delete" in mapping(work.item, "spec.persistentVolumeClaimRetentionPolicy").values():
        yield "persistentVolumeClaimRetentionPolicy: deletes how far the collector came"


def check_surroundings(work: Workload, stack: Stack) -> Iterator[str]:
    """What stands around a workload selects its pods."""
    for kind in ("NetworkPolicy", "PodMonitor", *(["PodDisruptionBudget"] * work.is_worker)):
        if not any(work in stack.selected(item) for item in stack.of(kind)):
            yield f"no {kind} selects its pods"
    labels = mapping(work.item, "spec.selector.matchLabels")
    if not labels or [each for each in stack.workloads if each.has(labels)] != [work]:
        yield "selector: does not match its own pods alone"
    services = [each for each in stack.of("Service") if stack.selected(each) == [work]]
    heads = [at(each, "metadata.name") for each in services if at(each, "spec.clusterIP") == "None"]
    if (name := at(work.item, "spec.serviceName")) not in heads:
        yield f"serviceName: {name} is not a Service of its pods with clusterIP None"
    partitions = work.config.topics.partitions
    if not isinstance(work.replicas, int) or not 1 <= work.replicas <= partitions:
        yield f"replicas: {work.replicas} is not 1 to topics.partitions ({partitions})"


def check_network(work: Workload, stack: Stack) -> Iterator[str]:
    """Policies let pass what it needs."""
    config = work.config
    brokers = [int(each.rpartition(":")[2]) for each in config.kafka.bootstrap_servers.split(",")]
    needed = {("egress", port, "TCP") for port in brokers}
    needed |= {("egress", 53, "UDP"), ("ingress", config.web.port or 0, "TCP")}
    needed |= {("egress", 443, "TCP")} if work.is_collector else set()
    open_ports = {
        (direction, work.port(port.get("port")) or port.get("port"), port.get("protocol", "TCP"))
        for policy in stack.of("NetworkPolicy") if work in stack.selected(policy)
        for direction in ("ingress", "egress") for rule in items(policy, f"spec.{direction}")
        for port in items(rule, "ports")
    }  # fmt: skip
    for direction, number, protocol in sorted(needed - open_ports):
        yield f"no NetworkPolicy lets {protocol} {number} pass ({direction})"


def check_scaler(work: Workload, stack: Stack) -> Iterator[str]:
    """The ScaledObject of a worker, above all what KEDA passes over in silence."""
    kafka, topics = work.config.kafka, work.config.topics
    due = {
        "bootstrapServers": kafka.bootstrap_servers, "consumerGroup": kafka.group,
        "topic": topics.posts,
    }  # fmt: skip
    for spec in (mapping(item, "spec") for item in stack.of("ScaledObject") if work.is_worker):
        target = mapping(spec, "scaleTargetRef")
        if f"{target.get('kind')}/{target.get('name')}" != title(work.item):
            yield f"scaleTargetRef: {target} is not this worker"
        if "replicas" in mapping(work.item, "spec"):
            yield "replicas: are stated, so each apply sets them back; remove them by a patch"
        least, most = quantity(spec.get("minReplicaCount")), quantity(spec.get("maxReplicaCount"))
        if not 1 <= least <= most <= topics.partitions:
            yield "minReplicaCount, maxReplicaCount: are not 1 to topics.partitions, in this order"
        for trigger in items(spec, "triggers"):
            facts = {"tls": "disable"} | mapping(trigger, "metadata")
            if "authenticationRef" not in trigger:
                is_tls = kafka.security_protocol.endswith("SSL")
                due["tls"] = "enable" if is_tls else "disable"
                if kafka.sasl_mechanism:
                    yield "authenticationRef: is missing, and kafka.sasl_mechanism is set"
            for name, value in due.items():
                if facts.get(name) != value:
                    yield f"{name}: {facts.get(name)} is not {value}"


RULES = (check_boxes, check_environment, check_process, check_volumes, check_collector,
         check_surroundings, check_network, check_scaler)  # fmt: skip


def stack_faults(stack: Stack) -> Iterator[str]:
    """A fault of the configuration hides what rests on it, and is one line."""
    yield from stack.faults
    recipe = validators()["kustomize.config.k8s.io/v1beta1/Kustomization"]
    for error in (error for each in stack.recipes for error in recipe.iter_errors(each)):
        yield f"{FILE}: {error.json_path}: {error.message}"
    yield from check_objects(stack)
    if [work.is_worker for work in stack.workloads].count(True) != 1:
        yield "not one workload runs a worker"
    for work in stack.workloads:
        try:
            for rule in RULES:
                yield from (f"{title(work.item)}: {fault}" for fault in rule(work, stack))
        except ConfigError as error:
            yield f"{title(work.item)}: configuration: {error}"


def faults(root: Path) -> list[str]:
    """A line for each fault of the kustomizations under this folder, with where it appears."""
    root = root.resolve()
    places: dict[str, list[str]] = {}
    stacks = {file.parent.relative_to(root).as_posix(): Stack().build(file.parent)
              for file in sorted(root.rglob(FILE))}  # fmt: skip
    for name, stack in stacks.items():
        for fault in dict.fromkeys(stack_faults(stack)):
            places.setdefault(fault, []).append(name)
    for name, kind in TREE.items() if "base" in stacks else ():
        if not stacks.get(name, Stack()).of(kind):
            places.setdefault(f"has no {kind}", []).append(name)
    used = set[Path]().union(*(stack.files for stack in stacks.values()))
    for file in {*root.rglob("*.yaml"), *root.rglob("*.yml")} - used:
        places.setdefault("is part of no kustomization", []).append(str(file.relative_to(root)))
    lines = [f"{fault} ({', '.join(where)})" for fault, where in places.items()]
    return lines if stacks else [f"{root}: has no {FILE}"]


def main(arguments: list[str]) -> int:
    lines = faults(Path(arguments[0]) if arguments else HERE)
    print(*lines, sep="\n", end="\n" * bool(lines))  # noqa: T201
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
