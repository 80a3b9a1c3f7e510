"""The settings a topic can have: Kafka's names, defaults and ranges."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from worker.broker.codes import Code, Refused

LONGEST = 2**63 - 1
DAY_MS = 24 * 60 * 60 * 1000


class Kind(NamedTuple):
    """What a setting may be: in words, and as a value out of a text; None for what it may not."""

    says: str
    parse: Callable[[str], Any]


def _number(low: int, high: int = LONGEST) -> Kind:
    says = f"a whole number between {low} and {high}"
    return Kind(says, lambda text: int(text) if low <= int(text) <= high else None)


def _only(word: str) -> Kind:
    return Kind(word, lambda text: text if text == word else None)


def _policies(text: str) -> set[str] | None:
    found = {word.strip() for word in text.split(",") if word.strip()}
    return found if found <= {"delete", "compact"} else None


SHARE = Kind(
    "a number between 0 and 1", lambda text: float(text) if 0 <= float(text) <= 1 else None
)
POLICIES = Kind("delete, compact, or both", _policies)
# name: (default, what it may be). Those that nothing reads are taken for what they say.
SETTINGS: dict[str, tuple[str, Kind]] = {
    "cleanup.policy": ("delete", POLICIES),
    "compression.type": ("producer", _only("producer")),  # batches are kept as they come
    "delete.retention.ms": (str(DAY_MS), _number(0)),
    "max.compaction.lag.ms": (str(LONGEST), _number(1)),
    "max.message.bytes": ("1048588", _number(0, 2**31 - 1)),
    "message.timestamp.after.max.ms": (str(DAY_MS // 24), _number(0)),
    "message.timestamp.before.max.ms": (str(LONGEST), _number(0)),
    "message.timestamp.type": ("CreateTime", _only("CreateTime")),
    "min.cleanable.dirty.ratio": ("0.5", SHARE),
    "min.insync.replicas": ("1", _number(1, 2**31 - 1)),
    "retention.bytes": ("-1", _number(-1)),
    "retention.ms": (str(7 * DAY_MS), _number(-1)),
    "segment.bytes": (str(2**30), _number(14, 2**31 - 1)),
    "segment.ms": (str(7 * DAY_MS), _number(1)),
}


class TopicConfig:
    """The settings of one topic; an unknown name or a bad value is refused."""

    def __init__(self, given: Mapping[str, str | None]) -> None:
        self._values = {name: kind.parse(default) for name, (default, kind) in SETTINGS.items()}
        self._values |= {name: _parsed(name, text) for name, text in given.items()}
        self.given = {name: text for name, text in given.items() if text is not None}
        self.is_compacted = "compact" in self["cleanup.policy"]
        self.is_trimmed = "delete" in self["cleanup.policy"]

    def __getitem__(self, name: str) -> Any:
        """The value that the broker works with."""
        return self._values[name]

    def text(self, name: str) -> str:
        """What a setting is, set or by default, as it was written."""
        return self.given.get(name, SETTINGS[name][0])


def _parsed(name: str, text: str | None) -> Any:
    if name not in SETTINGS:
        raise Refused(Code.INVALID_CONFIG, f"Unknown topic config name: {name}")
    if text is None:
        raise Refused(Code.INVALID_CONFIG, f"Null value not supported for topic config: {name}")
    kind = SETTINGS[name][1]
    try:
        value = kind.parse(text)
    except ValueError:
        value = None
    if value is None:
        raise Refused(Code.INVALID_CONFIG, f"{name}: {text!r} is not {kind.says}")
    return value
