"""What the four topics should be like, and why it matters where they are not. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from worker.config import Config

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
COPIES = 3  # from so many on, one may be lost and one be late at the same time:
IN_SYNC = 2  # so many have to have a record before it counts as written
MARGIN = 2**18  # bytes that a record of ours may hold beside the post


@dataclass(frozen=True, slots=True)
class Actual:
    """A topic as the broker has it."""

    partitions: int
    replication: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """Something about a topic that is not as newsift needs it (serious), or would advise."""

    topic: str
    setting: str
    found: str
    wanted: str
    why: str
    fix: str
    serious: bool = True


def new_topics(config: Config) -> dict[str, dict[str, Any]]:
    """How each topic is made, in the form of kafka-python's create_topics."""
    topics = config.topics
    copies = -1 if topics.replication is None else topics.replication
    safe = {"min.insync.replicas": str(IN_SYNC)} if copies >= COPIES else {}

    def made(partitions: int, settings: Mapping[str, str]) -> dict[str, Any]:
        found = {"num_partitions": partitions, "replication_factor": copies}
        return found | ({"configs": given} if (given := {**settings, **safe}) else {})

    ours = {"max.message.bytes": str(roomy(config))}
    return {
        topics.posts: made(topics.partitions, {}),
        topics.seeds: made(1, {"cleanup.policy": "compact"}),
        topics.matches: made(topics.partitions, ours),
        topics.rejected: made(topics.partitions, ours),
    }


def roomy(config: Config) -> int:
    """The largest record that newsift writes: a post of the largest size, and what goes with it."""
    return config.limits.post_bytes + MARGIN


def differences(
    config: Config, found: Mapping[str, Actual | None], brokers: int
) -> list[Difference]:
    """Where the topics are not as they should be, the missing ones first."""
    wanted = new_topics(config)
    missing = [_missing(config, name) for name in wanted if found.get(name) is None]
    return missing + [
        difference
        for name in wanted
        if (topic := found.get(name)) is not None
        for rule in _rules(config, name)
        for difference in rule(config, name, topic, brokers)
    ]


Check = Callable[[Config, str, Actual, int], Iterator[Difference]]


def _rules(config: Config, name: str) -> tuple[Check, ...]:
    topics = config.topics
    by_topic: dict[str, tuple[Check, ...]] = {
        topics.posts: (_several, _kept, _retained),
        topics.seeds: (_one_partition, _compacted),
        topics.matches: (_kept, _large),
        topics.rejected: (_kept, _large, _retained),
    }
    return (*by_topic[name], _replicated, _in_sync, _visible)


def _missing(config: Config, name: str) -> Difference:
    why = "the worker needs all four; a user without the right to Describe does not see them"
    fix = f"newsift topics create, or {kafka_topics(config, name)}"
    return Difference(name, "topic", "missing", "present", why, fix)


def kafka_topics(config: Config, name: str) -> str:
    """Kafka's own command that makes a topic as newsift would."""
    new = new_topics(config)[name]
    extra = "".join(f" --config {key}={value}" for key, value in new.get("configs", {}).items())
    copies = new["replication_factor"]
    copies = "" if copies == -1 else f" --replication-factor {copies}"
    partitions = f"--partitions {new['num_partitions']}"
    return f"{_tool(config, 'topics')} --create --topic {name} {partitions}{copies}{extra}"


def _tool(config: Config, name: str) -> str:
    return f"kafka-{name}.sh --bootstrap-server {config.kafka.bootstrap_servers}"


def _alter(config: Config, name: str, setting: str, value: str) -> str:
    command = f"{_tool(config, 'configs')} --alter --entity-type topics"
    return f"{command} --entity-name {name} --add-config {setting}={value}"


def _several(config: Config, name: str, topic: Actual, _brokers: int) -> Iterator[Difference]:
    if topic.partitions == 1 and config.topics.partitions > 1:
        yield Difference(
            name, "partitions", "1", str(config.topics.partitions),
            "as many workers as there are partitions can share the posts: here only one",
            f"{_tool(config, 'topics')} --alter --topic {name} "
            f"--partitions {config.topics.partitions}", serious=False,
        )  # fmt: skip


def _one_partition(config: Config, name: str, topic: Actual, _brokers: int) -> Iterator[Difference]:
    if topic.partitions != 1:
        yield Difference(
            name, "partitions", str(topic.partitions), "1",
            "what a seed is is its latest record, and only one partition has one order; were "
            "partitions added, a seed's records would stand in two",
            f"newsift seeds export seeds.jsonl; {_tool(config, 'topics')} --delete --topic {name}; "
            "newsift topics create; newsift seeds import seeds.jsonl",
        )  # fmt: skip


def _compacted(config: Config, name: str, topic: Actual, _brokers: int) -> Iterator[Difference]:
    policy = topic.settings.get("cleanup.policy", "compact")
    if _words(policy) != {"compact"}:
        yield Difference(
            name, "cleanup.policy", policy, "compact",
            "the broker deletes seeds when they grow old, and workers that start then miss them",
            _alter(config, name, "cleanup.policy", "compact"),
        )  # fmt: skip


def _kept(config: Config, name: str, topic: Actual, _brokers: int) -> Iterator[Difference]:
    policy = topic.settings.get("cleanup.policy", "delete")
    if "compact" in _words(policy):
        yield Difference(
            name, "cleanup.policy", policy, "delete",
            "a compacted topic keeps one record per key, and refuses records without a key",
            _alter(config, name, "cleanup.policy", "delete"),
        )  # fmt: skip


def _large(config: Config, name: str, topic: Actual, _brokers: int) -> Iterator[Difference]:
    limit = int(topic.settings.get("max.message.bytes", 2**62))
    if limit < roomy(config):
        yield Difference(
            name, "max.message.bytes", str(limit), str(roomy(config)),
            f"a post may have limits.post_bytes = {config.limits.post_bytes} bytes; the broker "
            "refuses the record of one that is near it",
            _alter(config, name, "max.message.bytes", str(roomy(config))), serious=False,
        )  # fmt: skip


def _retained(config: Config, name: str, topic: Actual, _brokers: int) -> Iterator[Difference]:
    least, what = (HOUR_MS, "posts") if name == config.topics.posts else (DAY_MS, "dead letters")
    kept = int(topic.settings.get("retention.ms", -1))
    if 0 <= kept < least:
        yield Difference(
            name, "retention.ms", str(kept), f"at least {least}",
            f"{what} that are not read within {kept / 60_000:g} minutes are gone for good",
            _alter(config, name, "retention.ms", str(least)), serious=False,
        )  # fmt: skip


def _visible(config: Config, name: str, topic: Actual, _brokers: int) -> Iterator[Difference]:
    if not topic.settings:
        user = config.kafka.username or "ANONYMOUS"
        yield Difference(
            name, "settings", "hidden", "visible",
            "nobody can tell whether it is compacted, or how long it keeps its records",
            f"{_tool(config, 'acls')} --add --allow-principal User:{user} "
            f"--operation DescribeConfigs --topic {name}", serious=False,
        )  # fmt: skip


def _replicated(config: Config, name: str, topic: Actual, brokers: int) -> Iterator[Difference]:
    wanted = config.topics.replication or (min(brokers, 3) if brokers > 1 else 1)
    if topic.replication < wanted:
        yield Difference(
            name, "replication", str(topic.replication), str(wanted),
            "the copies that are lost before what they hold is lost: with one, none may be",
            "kafka-reassign-partitions.sh (Kafka's manual, \"Increasing replication factor\")",
            serious=False,
        )  # fmt: skip


def _in_sync(config: Config, name: str, topic: Actual, _brokers: int) -> Iterator[Difference]:
    least = int(topic.settings.get("min.insync.replicas", 1))
    if least > topic.replication:
        yield Difference(
            name, "min.insync.replicas", str(least), f"at most {topic.replication}",
            "more copies have to be in sync than there are: nothing can be written",
            _alter(config, name, "min.insync.replicas", str(topic.replication)),
        )  # fmt: skip
    elif topic.settings and topic.replication >= COPIES and least < IN_SYNC:
        yield Difference(
            name, "min.insync.replicas", str(least), str(IN_SYNC),
            "a record that one broker alone has counts as written, and is lost with that broker",
            _alter(config, name, "min.insync.replicas", str(IN_SYNC)), serious=False,
        )  # fmt: skip


def _words(policy: str) -> set[str]:
    return {word.strip() for word in policy.split(",") if word.strip()}
