"""Rules for a ScaledObject, above all for what KEDA passes over in silence."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from tests.deploy.kustomize import Object
from tests.deploy.pods import Workload, inside, items, mapping
from worker.config import Config

# What KEDA's Kafka scaler (2.21) reads of a trigger's metadata; what it reads from elsewhere alone,
# such as `username`, is passed over here.
KEYS = {
    "activationLagThreshold", "allowIdleConsumers", "awsRegion", "bootstrapServers",
    "consumerGroup", "ensureEvenDistributionOfPartitions", "excludePersistentLag", "fullMetadata",
    "lagThreshold", "limitToPartitionsWithLag", "offsetResetPolicy", "partitionLimitation", "sasl",
    "saslTokenProvider", "scaleToZeroOnInvalidOffset", "tls", "topic", "unsafeSsl", "version",
}  # fmt: skip
FROM_ENV = {"bootstrapServersFromEnv", "consumerGroupFromEnv", "topicFromEnv"}
# Each of these hides lag, or starts workers that get no partition.
HARMFUL = {
    "allowIdleConsumers": "starts workers that get no partition",
    "excludePersistentLag": "hides the lag of a worker that stands still",
    "partitionLimitation": "hides the lag of the other partitions",
    "scaleToZeroOnInvalidOffset": "hides the lag of a new group",
    "unsafeSsl": "trusts any certificate",
}
QUIET_S = 300  # before workers are taken away
PAUSED = "autoscaling.keda.sh/paused"
SASL = {"PLAIN": "plaintext", "SCRAM-SHA-256": "scram_sha256", "SCRAM-SHA-512": "scram_sha512"}


def scaler_faults(item: Object, workloads: Sequence[Workload]) -> Iterator[str]:
    target = mapping(item, "spec", "scaleTargetRef")
    kind = target.get("kind", "Deployment")
    named = (kind, target.get("name"), target.get("apiVersion", "apps/v1"))
    names = [(w.item.get("kind"), w.name, w.item.get("apiVersion")) for w in workloads]
    work = workloads[names.index(named)] if named in names else None
    if work is None:
        yield f"scaleTargetRef: there is no {kind} {target.get('name')} ({named[2]})"
        return
    if not work.is_worker:
        yield f"scaleTargetRef: {work.title} is not a worker; two collectors never share a state"
    if "replicas" in mapping(work.item, "spec"):
        yield f"{work.title} states replicas, so each apply sets them back; remove them by a patch"
    try:
        config = work.config
    except ValueError:
        return  # a fault of the pod
    for rule in (check_replicas, check_quiet, check_triggers):
        yield from rule(item, config)


def check_replicas(item: Object, config: Config) -> Iterator[str]:
    spec, partitions = mapping(item, "spec"), config.topics.partitions
    least, most = spec.get("minReplicaCount"), spec.get("maxReplicaCount")
    if not isinstance(least, int) or least < 1:
        yield f"minReplicaCount: {least} is not at least 1: nobody would read the seeds"
    if "idleReplicaCount" in spec:
        yield "idleReplicaCount: must not be set: nobody would read the seeds"
    if not isinstance(most, int) or most > partitions:
        yield f"maxReplicaCount: {most} is not at most topics.partitions ({partitions})"
    elif isinstance(least, int) and most < least:
        yield f"maxReplicaCount: {most} is less than minReplicaCount"
    notes = mapping(item, "metadata", "annotations")
    yield from (f"annotations: {name}: stops it" for name in notes if str(name).startswith(PAUSED))


def check_quiet(item: Object, _config: Config) -> Iterator[str]:
    where = ("horizontalPodAutoscalerConfig", "behavior", "scaleDown", "stabilizationWindowSeconds")
    window = inside(item, "spec", "advanced", *where)
    if not isinstance(window, int) or window < QUIET_S:
        yield f"advanced.{'.'.join(where)}: {window} is less than {QUIET_S}"
    up = (*where[:2], "scaleUp")
    if inside(item, "spec", "advanced", *up, "selectPolicy") == "Disabled":
        yield f"advanced.{'.'.join(up)}: is disabled"


def check_triggers(item: Object, config: Config) -> Iterator[str]:
    triggers = items(item, "spec", "triggers")
    if [trigger.get("type") for trigger in triggers] != ["kafka"]:
        yield "triggers: must be one of type kafka"
    for trigger in triggers:
        if trigger.get("type") == "kafka":
            yield from (f"triggers: {fault}" for fault in _trigger_faults(trigger, config))


def _trigger_faults(trigger: Object, config: Config) -> Iterator[str]:
    metadata = mapping(trigger, "metadata")
    for name in sorted(set(metadata) - KEYS, key=str):
        close = get_close_matches(str(name), KEYS, n=1)
        remedy = f"; did you mean {close[0]}?" if close else ""
        if name in FROM_ENV:
            remedy = f"; state {str(name).removesuffix('FromEnv')}, which is compared"
        yield f"{name}: KEDA's Kafka scaler reads no such key{remedy}"
    servers = config.kafka.bootstrap_servers
    expected: dict[str, Any] = {
        "bootstrapServers": servers, "consumerGroup": config.kafka.group,
        "topic": config.topics.posts, "offsetResetPolicy": "earliest",
    }  # fmt: skip
    for name, value in expected.items():
        if metadata.get(name) != value:
            yield f"{name}: {metadata.get(name)} is not {value}"
    if not all("." in each.rpartition(":")[0] for each in servers.split(",")):
        yield f"bootstrapServers: {servers} names no namespace, and KEDA is in another one"
    threshold = str(metadata.get("lagThreshold"))
    if not threshold.isdecimal() or int(threshold) < 1:
        yield f"lagThreshold: {metadata.get('lagThreshold')} is not a number of posts above 0"
    for name, harm in HARMFUL.items():
        if str(metadata.get(name, "false")).lower() not in ("false", ""):
            yield f"{name}: {harm}"
    if trigger.get("metricType", "AverageValue") != "AverageValue":
        yield f"metricType: {trigger['metricType']} is not a lag for each worker; leave it out"
    yield from _login_faults(trigger, metadata, config)


def _login_faults(trigger: Object, metadata: Object, config: Config) -> Iterator[str]:
    """KEDA reaches the brokers as the workers do."""
    tls = "enable" if config.kafka.security_protocol.endswith("SSL") else "disable"
    if metadata.get("tls", "disable") != tls and "authenticationRef" not in trigger:
        yield f"tls: must be {tls}, as kafka.security_protocol is {config.kafka.security_protocol}"
    login = SASL.get(config.kafka.sasl_mechanism or "")
    if login and "authenticationRef" not in trigger:
        yield f"authenticationRef: is missing, and kafka.sasl_mechanism needs one ({login})"
