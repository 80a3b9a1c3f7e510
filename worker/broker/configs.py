"""The settings a topic can have: Kafka's names, defaults and ranges."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from worker.broker.codes import Code, Refused

LONGEST = 2**63 - 1
DAY_MS = 24 * 60 * 60 * 1000

Check = Callable[[str], str | None]


def _number(low: int, high: int = LONGEST) -> Check:
    def check(value: str) -> str | None:
        try:
            return None if low <= int(value) <= high else f"is not between {low} and {high}"
        except ValueError:
            return "is not a whole number"

    return check


def _share(value: str) -> str | None:
    try:
        return None if 0 <= float(value) <= 1 else "is not between 0 and 1"
    except ValueError:
        return "is not a number"


def _one_of(*words: str) -> Check:
    return lambda value: None if value in words else f"is none of {', '.join(words)}"


def _policy(value: str) -> str | None:
    return None if policies(value) <= {"delete", "compact"} else "is neither delete nor compact"


def _as_it_comes(value: str) -> str | None:
    return None if value == "producer" else "is not producer; batches are kept as they come"


def policies(value: str) -> set[str]:
    """The words of a cleanup policy."""
    return {word.strip() for word in value.split(",") if word.strip()}


# name: (default, what refuses a value). Those that nothing reads are taken for what they say.
SETTINGS: dict[str, tuple[str, Check]] = {
    "cleanup.policy": ("delete", _policy),
    "compression.type": ("producer", _as_it_comes),
    "delete.retention.ms": (str(DAY_MS), _number(0)),
    "file.delete.delay.ms": ("60000", _number(0)),
    "flush.messages": (str(LONGEST), _number(1)),
    "flush.ms": (str(LONGEST), _number(0)),
    "index.interval.bytes": ("4096", _number(0)),
    "max.compaction.lag.ms": (str(LONGEST), _number(1)),
    "max.message.bytes": ("1048588", _number(0, 2**31 - 1)),
    "message.timestamp.after.max.ms": (str(DAY_MS // 24), _number(0)),
    "message.timestamp.before.max.ms": (str(LONGEST), _number(0)),
    "message.timestamp.type": ("CreateTime", _one_of("CreateTime", "LogAppendTime")),
    "min.cleanable.dirty.ratio": ("0.5", _share),
    "min.compaction.lag.ms": ("0", _number(0)),
    "min.insync.replicas": ("1", _number(1, 2**31 - 1)),
    "preallocate": ("false", _one_of("true", "false")),
    "retention.bytes": ("-1", _number(-1)),
    "retention.ms": (str(7 * DAY_MS), _number(-1)),
    "segment.bytes": (str(2**30), _number(14, 2**31 - 1)),
    "segment.index.bytes": ("10485760", _number(4, 2**31 - 1)),
    "segment.jitter.ms": ("0", _number(0)),
    "segment.ms": (str(7 * DAY_MS), _number(1)),
    "unclean.leader.election.enable": ("false", _one_of("true", "false")),
}


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings of one topic: what was set, and the values that the broker works with."""

    given: Mapping[str, str]
    is_compacted: bool
    is_trimmed: bool
    is_append_time: bool
    max_message_bytes: int
    min_in_sync: int
    retention_bytes: int
    retention_ms: int
    delete_retention_ms: int
    compaction_lag_ms: int
    dirty_ratio: float
    after_max_ms: int
    before_max_ms: int

    @classmethod
    def of(cls, given: Mapping[str, str | None]) -> Self:
        """The settings with these values set; an unknown name or a bad value is refused."""
        values = {name: _checked(name, value) for name, value in given.items()}
        now = {name: values.get(name, default) for name, (default, _) in SETTINGS.items()}
        words = policies(now["cleanup.policy"])
        return cls(
            given=values,
            is_compacted="compact" in words,
            is_trimmed="delete" in words,
            is_append_time=now["message.timestamp.type"] == "LogAppendTime",
            max_message_bytes=int(now["max.message.bytes"]),
            min_in_sync=int(now["min.insync.replicas"]),
            retention_bytes=int(now["retention.bytes"]),
            retention_ms=int(now["retention.ms"]),
            delete_retention_ms=int(now["delete.retention.ms"]),
            compaction_lag_ms=int(now["min.compaction.lag.ms"]),
            dirty_ratio=float(now["min.cleanable.dirty.ratio"]),
            after_max_ms=int(now["message.timestamp.after.max.ms"]),
            before_max_ms=int(now["message.timestamp.before.max.ms"]),
        )

    def value(self, name: str) -> str:
        """What a setting is, set or by default."""
        return self.given.get(name, SETTINGS[name][0])


def _checked(name: str, value: str | None) -> str:
    if name not in SETTINGS:
        raise Refused(Code.INVALID_CONFIG, f"Unknown topic config name: {name}")
    if value is None:
        raise Refused(Code.INVALID_CONFIG, f"Null value not supported for topic config: {name}")
    complaint = SETTINGS[name][1](value)
    if complaint:
        raise Refused(Code.INVALID_CONFIG, f"{name}: {value!r} {complaint}")
    return value
