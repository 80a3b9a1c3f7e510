"""The rules for the settings of topics, and the reason for each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from worker.config import Config

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MIN_SAFE_COPIES = 3  # With three, one copy may be lost while another is late.
MIN_IN_SYNC = 2
METADATA_BYTES = 2**18  # A match record may hold this much beside the post.


@dataclass(frozen=True, slots=True)
class ActualTopic:
    partitions: int
    replication: int
    settings: Mapping[str, str]


HIDDEN = ActualTopic(0, 0, {})  # of which the broker does not tell this user whether it exists


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that newsift refuses (serious), or does not recommend."""

    topic: str
    setting: str
    actual: str
    required: str
    why: str
    fix: str
    serious: bool = True


def new_topics(config: Config) -> dict[str, dict[str, Any]]:
    """Arguments of kafka-python's create_topics."""
    topics = config.topics
    copies = -1 if topics.replication is None else topics.replication
    safe = {"min.insync.replicas": str(MIN_IN_SYNC)} if copies >= MIN_SAFE_COPIES else {}

    def new_topic(partitions: int, settings: Mapping[str, str]) -> dict[str, Any]:
        topic = {"num_partitions": partitions, "replication_factor": copies}
        return topic | ({"configs": configs} if (configs := {**settings, **safe}) else {})

    output_settings = {"max.message.bytes": str(max_record_bytes(config))}
    return {
        topics.posts: new_topic(topics.partitions, {}),
        topics.seeds: new_topic(1, {"cleanup.policy": "compact"}),
        topics.matches: new_topic(topics.partitions, output_settings),
        topics.rejected: new_topic(topics.partitions, output_settings),
        topics.labels: new_topic(1, {"cleanup.policy": "compact"}),
    }


def compacted_topics(config: Config) -> dict[str, str]:
    """Their names, and the word for one of their records."""
    return {config.topics.seeds: "seed", config.topics.labels: "label"}


def max_record_bytes(config: Config) -> int:
    """The largest post with its metadata."""
    return config.limits.post_bytes + METADATA_BYTES


Differences = Iterator[Difference]


def differences(
    config: Config, actual: Mapping[str, ActualTopic | None], brokers: int
) -> list[Difference]:
    """Topics that are missing or hidden first."""
    topics = {name: actual.get(name) for name in new_topics(config)}
    absent = [
        _absent_topic(config, name, topic is HIDDEN)
        for name, topic in topics.items()
        if topic is None or topic is HIDDEN
    ]
    present = [(name, topic) for name, topic in topics.items() if topic and topic is not HIDDEN]
    return absent + [
        difference
        for name, topic in present
        for rule in (
            _check_partitions,
            _check_policy,
            _check_limits,
            _check_copies,
            _check_visibility,
        )
        for difference in rule(config, name, topic, brokers)
    ]


def _absent_topic(config: Config, name: str, is_hidden: bool) -> Difference:
    is_labels = name == config.topics.labels
    why = "labelling needs it" if is_labels else "the worker needs it"
    actual, required = "missing", "present"
    fix = f"newsift topics create, or {create_command(config, name)}"
    if is_hidden:
        actual, required = "hidden", "visible"
        why, fix = f"{why}, and it may be missing", _allow_command(config, name, "Describe")
    return Difference(name, "topic", actual, required, why, fix, serious=not is_labels)


def create_command(config: Config, name: str) -> str:
    """Kafka's own command that creates the same topic."""
    new = new_topics(config)[name]
    extra = "".join(f" --config {key}={value}" for key, value in new.get("configs", {}).items())
    copies = new["replication_factor"]
    copies = "" if copies == -1 else f" --replication-factor {copies}"
    partitions = f"--partitions {new['num_partitions']}"
    return f"{_kafka_command(config, 'topics')} --create --topic {name} {partitions}{copies}{extra}"


def _kafka_command(config: Config, name: str) -> str:
    return f"kafka-{name}.sh --bootstrap-server {config.kafka.bootstrap_servers}"


def _allow_command(config: Config, name: str, operation: str) -> str:
    """Kafka's own command that gives this user the right."""
    user = config.kafka.username or "ANONYMOUS"
    return (
        f"{_kafka_command(config, 'acls')} --add --allow-principal User:{user} "
        f"--operation {operation} --topic {name}"
    )


def _set_command(config: Config, name: str, setting: str, value: str) -> str:
    """Kafka's own command that gives a topic this setting."""
    command = _kafka_command(config, "configs")
    change = f"--alter --entity-type topics --entity-name {name} --add-config {setting}={value}"
    return f"{command} {change}"


def _check_partitions(config: Config, name: str, topic: ActualTopic, _brokers: int) -> Differences:
    topics, alter = config.topics, _kafka_command(config, "topics")
    if name == topics.posts and topic.partitions == 1 < topics.partitions:
        yield Difference(
            name, "partitions", "1", str(topics.partitions),
            "as many workers as there are partitions can share the posts: here only one",
            f"{alter} --alter --topic {name} --partitions {topics.partitions}", serious=False,
        )  # fmt: skip
    if (what := compacted_topics(config).get(name)) and topic.partitions != 1:
        yield Difference(
            name, "partitions", str(topic.partitions), "1",
            f"the latest record of a {what} counts, and only one partition has one order; with "
            f"more partitions, the records of a {what} may be in two",
            f"newsift {what}s export {what}s.jsonl; {alter} --delete --topic {name}; "
            f"newsift topics create; newsift {what}s import {what}s.jsonl",
        )  # fmt: skip


def _check_policy(config: Config, name: str, topic: ActualTopic, _brokers: int) -> Differences:
    what = compacted_topics(config).get(name)
    expected = "compact" if what else "delete"
    policy = topic.settings.get("cleanup.policy", expected)
    words = {word.strip() for word in policy.split(",")}
    why = "a compacted topic keeps one record per key, and refuses records without a key"
    if what:
        why = f"the broker deletes old {what}s, and a process that starts later never reads them"
    if words != {"compact"} if what else "compact" in words:
        fix = _set_command(config, name, "cleanup.policy", expected)
        yield Difference(name, "cleanup.policy", policy, expected, why, fix)


def _check_limits(config: Config, name: str, topic: ActualTopic, _brokers: int) -> Differences:
    topics, setting = config.topics, "max.message.bytes"
    limit, record_bytes = int(topic.settings.get(setting, 2**62)), max_record_bytes(config)
    if name in (topics.matches, topics.rejected) and limit < record_bytes:
        why = (
            f"a post may have limits.post_bytes = {config.limits.post_bytes} bytes; the broker "
            "refuses the record of one that is near it"
        )
        fix = _set_command(config, name, setting, str(record_bytes))
        yield Difference(name, setting, str(limit), str(record_bytes), why, fix, serious=False)
    times = {topics.posts: (HOUR_MS, "posts"), topics.rejected: (DAY_MS, "dead letters")}
    least, what = times.get(name, (0, ""))
    retention, setting = int(topic.settings.get("retention.ms", -1)), "retention.ms"
    if 0 <= retention < least:
        why = f"{what} that are not read within {retention / 60_000:g} minutes are gone for good"
        requirement = f"at least {least}"
        fix = _set_command(config, name, setting, str(least))
        yield Difference(name, setting, str(retention), requirement, why, fix, serious=False)


def _check_copies(config: Config, name: str, topic: ActualTopic, brokers: int) -> Differences:
    copies, setting = topic.replication, "min.insync.replicas"
    expected = config.topics.replication or (min(brokers, 3) if brokers > 1 else 1)
    if copies < expected:
        yield Difference(
            name, "replication", str(copies), str(expected),
            "the records are lost with the last copy: with one copy, when one broker is lost",
            "kafka-reassign-partitions.sh (Kafka's manual, \"Increasing replication factor\")",
            serious=False,
        )  # fmt: skip
    least = int(topic.settings.get(setting, 1))
    if least > copies:
        why = "more copies must be in sync than there are: nothing can be written"
        fix = _set_command(config, name, setting, str(copies))
        yield Difference(name, setting, str(least), f"at most {copies}", why, fix)
    elif topic.settings and copies >= MIN_SAFE_COPIES and least < MIN_IN_SYNC:
        why = "a record on one broker alone counts as written, and is lost with that broker"
        fix = _set_command(config, name, setting, str(MIN_IN_SYNC))
        yield Difference(name, setting, str(least), str(MIN_IN_SYNC), why, fix, serious=False)


def _check_visibility(config: Config, name: str, topic: ActualTopic, _brokers: int) -> Differences:
    if not topic.settings:
        fix = _allow_command(config, name, "DescribeConfigs")
        why = "its cleanup and retention are unknown"
        yield Difference(name, "settings", "hidden", "visible", why, fix, serious=False)
