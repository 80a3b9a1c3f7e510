"""Faults of Kubernetes manifests: `python -m tests.deploy.manifests [DIR]`.

Prints a line for each fault of the kustomizations under DIR (default deploy/kubernetes) and exits
with 1; with 0 where there is none. It finds above all what API servers accept in silence. How many
partitions there are is stated once, by `topics.partitions` in the ConfigMap.
"""

import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from newsift.cli.collect import collect
from tests.deploy.objects import FILE, Object, Stack, Workload, at, items, mapping, quantity, title
from worker.config import KEYS, Config
from worker.errors import ConfigError
from worker.process.command import SHUTDOWN_SLACK_S

HERE = Path(__file__).parents[2] / "deploy" / "kubernetes"
# What a whole tree holds, and a kind that each of its parts has.
TREE = {"base": "PodMonitor", "overlays/keda": "ScaledObject", "overlays/gpu": "StatefulSet"}
ENFORCED = "pod-security.kubernetes.io/enforce"
POD = {
    "automountServiceAccountToken": False, "enableServiceLinks": False, "hostNetwork": None,
    # Else each start would make the cache writable by the group, and newsift would refuse it.
    "securityContext.fsGroupChangePolicy": "OnRootMismatch",
}  # fmt: skip
# PodSecurity `restricted` and a read-only root.
RIGHTS = {
    "runAsNonRoot": True, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
    "privileged": None, "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip
LASTING = {"persistentVolumeClaim", "ephemeral", "csi"}  # kinds of volumes
PROBES = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
INSTANCE = "NEWSIFT_KAFKA__INSTANCE_ID"
# Variables that are not keys of config.yaml.
VARIABLES = {
    "NEWSIFT_KAFKA", "NEWSIFT_CONFIG", "NEWSIFT_CACHE", "NEWSIFT_STATE", "NEWSIFT_X_TOKEN",
    "NEWSIFT_MASTODON_TOKEN",
}  # fmt: skip
SECRET, GPU = re.compile(r"PASSWORD|TOKEN|SECRET"), "nvidia.com/gpu"
# What KEDA's Kafka scaler reads of a trigger's metadata and harms nobody.
TRIGGER = {
    "activationLagThreshold", "awsRegion", "bootstrapServers", "consumerGroup", "lagThreshold",
    "limitToPartitionsWithLag", "offsetResetPolicy", "sasl", "tls", "topic", "version",
}  # fmt: skip
WINDOW = "scaleDown.stabilizationWindowSeconds"
QUIET_S = 300  # before workers are taken away


def check_objects(stack: Stack) -> Iterator[str]:
    titles = [title(each) for each in stack.objects]
    for name, item in zip(titles, stack.objects, strict=True):
        kind, place = str(item.get("kind")), at(item, "metadata.namespace")
        if kind != "Namespace" and f"Namespace/{place}" not in titles:
            yield f"{name}: namespace: {place} is not one of these manifests"
        if kind == "Namespace" and item["metadata"].get("labels", {}).get(ENFORCED) != "restricted":
            yield f"{name}: labels: {ENFORCED} is not restricted"
        if check := KINDS.get(kind):
            works = stack.selected(item)
            if not works:
                yield f"{name}: selector: matches no pod"
            yield from (f"{name}: {fault}" for fault in check(mapping(item, "spec"), works))


def check_service(spec: Object, works: list[Workload]) -> Iterator[str]:
    targets = [port.get("targetPort", port.get("port")) for port in items(spec, "ports")]
    if len(works) > 1 or not targets or None in [w.port(t) for w in works for t in targets]:
        yield "targetPort: not all are ports of the pods of one workload"
    if spec.get("type", "ClusterIP") != "ClusterIP":
        yield "type: opens the web server to the outside"


def check_budget(spec: Object, works: list[Workload]) -> Iterator[str]:
    if len(works) > 1 or spec.get("maxUnavailable") in (None, 0, "0", "0%"):
        yield "maxUnavailable: lets no pod go, or those of several workloads; set 1"


def check_policy(spec: Object, _works: list[Workload]) -> Iterator[str]:
    inward, outward, types = items(spec, "ingress"), items(spec, "egress"), spec.get("policyTypes")
    if not types or (inward and "Ingress" not in types) or (outward and "Egress" not in types):
        yield f"policyTypes: {types} do not name each direction that has rules"
    if not all(items(rule, "ports") for rule in inward + outward):
        yield "a rule without ports opens all"
    if not all(items(rule, "from") for rule in inward):
        yield "ingress: a rule without from opens it to everybody"


def check_monitor(spec: Object, works: list[Workload]) -> Iterator[str]:
    ends = items(spec, "podMetricsEndpoints")
    if [end.get("path") for end in ends] != ["/metrics"] or "namespaceSelector" in spec:
        yield "podMetricsEndpoints: is not /metrics of its own namespace"
    if None in [work.port(end.get("port")) for work in works for end in ends]:
        yield "port: names no port of all its pods"


KINDS = {"Service": check_service, "PodDisruptionBudget": check_budget,
         "NetworkPolicy": check_policy, "PodMonitor": check_monitor}  # fmt: skip


def check_rights(work: Workload, _stack: Stack) -> Iterator[str]:
    yield from (f"{path}: is not {due}" for path, due in POD.items() if at(work.pod, path) != due)
    group = at(work.pod, "securityContext.fsGroup")
    for box in items(work.pod, "initContainers") + items(work.pod, "containers"):
        where, image = f"container {box.get('name')}", str(box.get("image"))
        own = mapping(work.pod, "securityContext") | mapping(box, "securityContext")
        yield from (f"{where}: {n}: is not {due}" for n, due in RIGHTS.items() if own.get(n) != due)
        if not own.get("runAsUser") or not group or own.get("runAsGroup") != group:
            yield f"{where}: runAsUser, runAsGroup: is root, or the group is not fsGroup ({group})"
        if "@sha256:" not in image and image.partition(":")[2] in ("", "latest"):
            yield f"{where}: image: {image} names no version"
        for name in ("cpu", "memory"):
            request = quantity(at(box, f"resources.requests.{name}"))
            if not 0 < request <= quantity(at(box, f"resources.limits.{name}")):
                yield f"{where}: requests.{name}, limits.{name}: are not above 0 and in this order"


def check_environment(work: Workload, _stack: Stack) -> Iterator[str]:
    """The command, and variables that mean something."""
    if len(items(work.pod, "containers")) != 1 or not (work.is_worker or work.is_collector):
        yield f"command: {work.command} is neither a worker nor a collector, alone in its pod"
    entries = items(work.main, "env")
    if work.main.get("envFrom") or len(work.variables) < len(entries):
        yield "env: a variable is there twice, or unknown ones are (envFrom)"
    for name, entry in ((str(entry.get("name")), entry) for entry in entries):
        section, _, key = name.removeprefix("NEWSIFT_").lower().partition("__")
        is_key = name in VARIABLES or (name.isupper() and key in KEYS.get(section, {}))
        if name.upper().startswith("NEWSIFT") and not is_key:
            yield f"env: {name} is not a key of the configuration"
        if SECRET.search(name) and "value" in entry:
            yield f"env: {name} is a secret; read it from a Secret"
    sources = [at(e, "valueFrom.fieldRef.fieldPath") for e in entries if e.get("name") == INSTANCE]
    if work.is_worker and (sources != ["metadata.name"] or work.kind != "StatefulSet"):
        yield f"env: {INSTANCE} is not the lasting name of a pod of a StatefulSet"


def check_process(work: Workload, _stack: Stack) -> Iterator[str]:
    """The pod agrees with the configuration, as the product's own reader takes it."""
    config = work.config
    if config.web.host in ("127.0.0.1", "localhost", "::1") or not config.web.port:
        yield "configuration: web.host, web.port: probes cannot reach it; set 0.0.0.0 and a port"
    for probe, path in PROBES.items():
        get = mapping(work.main, f"{probe}.httpGet")
        if get.get("path") != path or work.port(get.get("port")) != config.web.port:
            yield f"{probe}: path, port: is not {path} of web.port ({config.web.port})"
    needed = config.stream.shutdown_s + SHUTDOWN_SLACK_S
    needed += quantity(at(work.main, "lifecycle.preStop.sleep.seconds"))
    if quantity(at(work.pod, "terminationGracePeriodSeconds")) <= needed:
        yield f"terminationGracePeriodSeconds: is not above the {needed:g} s that its end takes"
    gpus, on_gpu = mapping(work.main, "resources.limits").get(GPU), config.model.device == "cuda"
    has_gpu = gpus is not None
    if on_gpu != has_gpu or (has_gpu and "cuda" not in str(work.main.get("image"))):
        yield f"limits: {GPU}, model.device and the image's target (cuda) do not agree"
    requested = mapping(work.main, "resources.requests").get(GPU, gpus)
    if has_gpu and (not re.fullmatch(r"[1-9]\d*", str(gpus)) or str(requested) != str(gpus)):
        yield f"limits: {GPU}: is not a whole number from 1, and the same in requests"


def check_volumes(work: Workload, _stack: Stack) -> Iterator[str]:
    """The cache is on a claim where newsift accepts it, the collector's position on one too."""
    used = {str(mount.get("name")) for mount in items(work.main, "volumeMounts")}
    for name in sorted(used ^ work.volumes.keys()):
        yield f"volumes: {name} is not a volume, or is mounted nowhere"
    if len(items(work.pod, "volumes") + work.claims) > len(work.volumes):
        yield "volumes: one is there twice, or a claim template too"
    for name, volume in work.volumes.items():
        if at(volume, "configMap.name") not in (None, *work.configs) or "hostPath" in volume:
            yield f"volumes: {name}: is of the host, or there is no such ConfigMap"
    what, path = work.kept
    mount, volume = work.volume_at(path)
    if LASTING.isdisjoint(volume):
        yield f"{what}: {path} is on a volume of kind {set(volume) - {'name'}}, not on a claim"
    if work.is_worker and Path(str(path)) == mount:
        yield f"{what}: {path} is the root of its volume, whose group can write; use a folder in it"


def check_collector(work: Workload, _stack: Stack) -> Iterator[str]:
    if not work.is_collector:
        return
    if work.command[2] not in collect.commands:
        yield f"command: {work.command[2]} is not one of {', '.join(collect.commands)}"
    if work.replicas != 1 or work.kind != "StatefulSet":
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
    config = work.config
    for spec in (mapping(item, "spec") for item in stack.of("ScaledObject") if work.is_worker):
        target = mapping(spec, "scaleTargetRef")
        if f"{target.get('kind')}/{target.get('name')}" != title(work.item):
            yield f"scaleTargetRef: {target} is not this worker"
        if "replicas" in mapping(work.item, "spec"):
            yield "replicas: are stated, so each apply sets them back; remove them by a patch"
        least, most = quantity(spec.get("minReplicaCount")), quantity(spec.get("maxReplicaCount"))
        if not 1 <= least <= most <= config.topics.partitions or "idleReplicaCount" in spec:
            yield "minReplicaCount, maxReplicaCount: are not 1 to topics.partitions, in this order"
        behaviour = mapping(spec, "advanced.horizontalPodAutoscalerConfig.behavior")
        if quantity(at(behaviour, WINDOW)) < QUIET_S or at(behaviour, "scaleUp.selectPolicy"):
            yield f"{WINDOW}: is less than {QUIET_S}, or scaleUp has a policy"
        if [each.get("type") for each in items(spec, "triggers")] != ["kafka"]:
            yield "triggers: must be one of type kafka"
        for trigger in items(spec, "triggers"):
            yield from trigger_faults(trigger, config)


def trigger_faults(trigger: Object, config: Config) -> Iterator[str]:
    facts = {"tls": "disable"} | mapping(trigger, "metadata")
    for name in facts.keys() - TRIGGER:
        yield f"{name}: is no key of KEDA's Kafka scaler, or one that hides lag"
    due = {
        "bootstrapServers": config.kafka.bootstrap_servers, "consumerGroup": config.kafka.group,
        "topic": config.topics.posts, "offsetResetPolicy": "earliest",
    }  # fmt: skip
    if "authenticationRef" not in trigger:
        due["tls"] = "enable" if config.kafka.security_protocol.endswith("SSL") else "disable"
        if config.kafka.sasl_mechanism:
            yield "authenticationRef: is missing, and kafka.sasl_mechanism is set"
    yield from (f"{n}: {facts.get(n)} is not {v}" for n, v in due.items() if facts.get(n) != v)
    if not re.fullmatch(r"[1-9]\d*", str(facts.get("lagThreshold"))):
        yield f"lagThreshold: {facts.get('lagThreshold')} is not a number of posts above 0"


RULES = (check_rights, check_environment, check_process, check_volumes, check_collector,
         check_surroundings, check_network, check_scaler)  # fmt: skip


def stack_faults(stack: Stack) -> Iterator[str]:
    """A fault of the configuration hides what rests on it, and is one line."""
    yield from (*stack.faults, *stack.field_faults(), *check_objects(stack))
    if [work.is_worker for work in stack.workloads].count(True) != 1:
        yield "not one workload runs a worker"
    for work, rule in product(stack.workloads, RULES):
        try:
            yield from (f"{title(work.item)}: {fault}" for fault in rule(work, stack))
        except ConfigError as error:
            yield f"{title(work.item)}: configuration: {error}"


def faults(root: Path) -> list[str]:
    """A line for each fault of the kustomizations under this folder, with where it appears."""
    root = root.resolve()
    places: dict[str, list[str]] = {}
    stacks = {file.parent.relative_to(root).as_posix(): Stack.build(file.parent)
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
