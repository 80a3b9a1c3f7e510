"""The topics of a broker: their settings, their partitions, and the limit on memory."""

import asyncio
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from newsift.broker.batches import CONTROL_BIT, TRANSACTIONAL_BIT, Header, unpacked_batch
from newsift.broker.codes import Code, RequestError, transactions_error
from newsift.broker.log import (
    BATCH_OVERHEAD_BYTES,
    Log,
    MemoryBudget,
    compact,
    needs_compaction,
    read_header,
    read_records,
)

VALID_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
MAX_PARTITIONS = 10_000
MIN_FREED_SHARE = 1 / 64  # of the memory is freed at a time, so that it is freed seldom
MAX_INT64 = 2**63 - 1
DAY_MS = 24 * 60 * 60 * 1000


class SettingType(NamedTuple):
    description: str
    parse: Callable[[str], Any]  # None or a ValueError for an invalid value


def _number(low: int, high: int = MAX_INT64) -> SettingType:
    description = f"a whole number between {low} and {high}"
    return SettingType(description, lambda text: int(text) if low <= int(text) <= high else None)


def _only(word: str) -> SettingType:
    return SettingType(word, lambda text: text if text == word else None)


def _policies(text: str) -> set[str] | None:
    words = {word.strip() for word in text.split(",") if word.strip()}
    return words if words <= {"delete", "compact"} else None


SHARE = SettingType(
    "a number between 0 and 1", lambda text: float(text) if 0 <= float(text) <= 1 else None
)
POLICIES = SettingType("delete, compact, or both", _policies)
# The default and the type by name. Some settings are accepted and have no effect.
SETTINGS: dict[str, tuple[str, SettingType]] = {
    "cleanup.policy": ("delete", POLICIES),
    "compression.type": ("producer", _only("producer")),  # batches are stored unchanged
    "delete.retention.ms": (str(DAY_MS), _number(0)),
    "max.compaction.lag.ms": (str(MAX_INT64), _number(1)),
    "max.message.bytes": ("1048588", _number(0, 2**31 - 1)),
    "message.timestamp.after.max.ms": (str(DAY_MS // 24), _number(0)),
    "message.timestamp.before.max.ms": (str(MAX_INT64), _number(0)),
    "message.timestamp.type": ("CreateTime", _only("CreateTime")),
    "min.cleanable.dirty.ratio": ("0.5", SHARE),
    "min.insync.replicas": ("1", _number(1, 2**31 - 1)),
    "retention.bytes": ("-1", _number(-1)),
    "retention.ms": (str(7 * DAY_MS), _number(-1)),
    "segment.bytes": (str(2**30), _number(14, 2**31 - 1)),
    "segment.ms": (str(7 * DAY_MS), _number(1)),
}


class TopicConfig:
    """Raises RequestError for an unknown name or an invalid value."""

    def __init__(self, overrides: Mapping[str, str | None]) -> None:
        self._values = {name: kind.parse(default) for name, (default, kind) in SETTINGS.items()}
        self._values |= {name: _parse(name, text) for name, text in overrides.items()}
        self.overrides = {name: text for name, text in overrides.items() if text is not None}
        self.is_compacted = "compact" in self["cleanup.policy"]
        self.is_trimmed = "delete" in self["cleanup.policy"]

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def text(self, name: str) -> str:
        return self.overrides.get(name, SETTINGS[name][0])


def _parse(name: str, text: str | None) -> Any:
    if name not in SETTINGS:
        raise RequestError(Code.INVALID_CONFIG, f"Unknown topic config name: {name}")
    if text is None:
        raise RequestError(
            Code.INVALID_CONFIG, f"Null value not supported for topic config: {name}"
        )
    setting_type = SETTINGS[name][1]
    try:
        value = setting_type.parse(text)
    except ValueError:
        value = None
    if value is None:
        message = f"{name}: {text!r} is not {setting_type.description}"
        raise RequestError(Code.INVALID_CONFIG, message)
    return value


@dataclass(slots=True)
class Topic:
    name: str
    logs: list[Log]
    config: TopicConfig
    id: uuid.UUID = field(default_factory=uuid.uuid4)

    def log(self, partition: int) -> Log:
        if not 0 <= partition < len(self.logs):
            raise RequestError(
                Code.UNKNOWN_TOPIC_OR_PARTITION, f"{self.name} has no partition {partition}"
            )
        return self.logs[partition]


class Topics(dict[str, Topic]):
    """All topics by name. Together they stay within the memory budget."""

    def __init__(self, budget: MemoryBudget, partitions: int, clock: Callable[[], int]) -> None:
        super().__init__()
        self.budget = budget
        self.clock = clock
        self.change = asyncio.Event()  # set and replaced by a new one at each change of a log
        self._partitions = partitions

    def __missing__(self, name: str) -> Topic:
        raise RequestError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")

    def create(
        self,
        name: str,
        partitions: int = -1,
        overrides: Mapping[str, str | None] | None = None,
        only_check: bool = False,
    ) -> Topic:
        """-1 partitions stand for the broker's default."""
        self._check_name(name)
        count = self._partitions if partitions == -1 else partitions
        self._check_partitions(count)
        config = TopicConfig(overrides or {})
        topic = Topic(name, [Log(self.budget) for _ in range(count)], config)
        if not only_check:
            self[name] = topic
        return topic

    def grow(self, name: str, partitions: int, only_check: bool = False) -> None:
        """Raises RequestError unless the number of partitions is larger than before."""
        topic = self[name]
        if partitions <= len(topic.logs):
            raise RequestError(
                Code.INVALID_PARTITIONS,
                f"{name} has {len(topic.logs)} partitions, which cannot become {partitions}",
            )
        self._check_partitions(partitions - len(topic.logs))
        if not only_check:
            topic.logs += [Log(self.budget) for _ in range(partitions - len(topic.logs))]

    def delete(self, name: str) -> None:
        topic = self[name]
        del self[name]
        for log in topic.logs:
            log.delete()
        self._notify()

    def append(self, log: Log, data: bytes, header: Header) -> int:
        """Store a checked batch and wake waiting consumers. Returns its offset."""
        if header.producer_id >= 0:
            duplicate = log.sequences.find_duplicate(header)
            if duplicate is not None:
                return duplicate
        self._make_room(len(data) + BATCH_OVERHEAD_BYTES)
        offset = log.append(data, header)
        if header.producer_id >= 0:
            log.sequences.remember(header, offset)
        self._notify()
        return offset

    async def clean(self) -> None:
        for topic in tuple(self.values()):
            for log in topic.logs if topic.config.is_compacted else ():
                if needs_compaction(log, self.clock(), topic.config["min.cleanable.dirty.ratio"]):
                    self._compact(topic, log)
                    await asyncio.sleep(0)  # other requests get a turn

    def _compact(self, topic: Topic, log: Log) -> None:
        compact(log, self.clock(), topic.config["delete.retention.ms"])

    def _notify(self) -> None:
        self.change.set()
        self.change = asyncio.Event()

    def check_batch(self, topic: Topic, data: bytes) -> Header:
        """Raises RequestError unless the batch may be stored. A thread may call it."""
        if len(data) > (limit := topic.config["max.message.bytes"]):
            message = (
                f"a batch of {len(data)} bytes is over max.message.bytes of {topic.name}, {limit}"
            )
            raise RequestError(Code.MESSAGE_TOO_LARGE, message)
        header = read_header(data)
        if header.attributes & TRANSACTIONAL_BIT:
            raise transactions_error()
        if header.attributes & CONTROL_BIT:
            raise RequestError(Code.INVALID_RECORD, "clients may not write control batches")
        self._check_time(topic.config, header)
        if not topic.config.is_compacted:
            unpacked_batch(data)
        elif any(record.key is None for record in read_records(data)):
            message = f"Compacted topic cannot accept message without key in topic {topic.name}"
            raise RequestError(Code.INVALID_RECORD, message)
        return header

    def _check_time(self, config: TopicConfig, header: Header) -> None:
        now = self.clock()
        is_late = header.max_timestamp - now > config["message.timestamp.after.max.ms"]
        is_early = 0 <= header.first_timestamp < now - config["message.timestamp.before.max.ms"]
        if is_late or is_early:
            raise RequestError(
                Code.INVALID_TIMESTAMP,
                f"times {header.first_timestamp} to {header.max_timestamp} are too far from {now}",
            )

    def _make_room(self, size: int) -> None:
        """Delete the oldest batches of the largest logs, or compact, until `size` bytes fit."""
        self.budget.size += size
        try:
            while self.budget.excess > 0:
                self._free(max(self.budget.excess, int(self.budget.limit * MIN_FREED_SHARE)))
        finally:
            self.budget.size -= size

    def _free(self, size: int) -> None:
        logs = (log for topic in self.values() if topic.config.is_trimmed for log in topic.logs)
        largest = max(logs, key=lambda log: log.size, default=None)
        if largest is not None and len(largest):
            largest.drop_bytes(size)
            return
        candidates = ((t, log) for t in self.values() if t.config.is_compacted for log in t.logs)
        topic, dirtiest = max(candidates, key=lambda pair: pair[1].dirty, default=(None, None))
        if topic is None or dirtiest is None or dirtiest.dirty < size:
            raise RequestError(
                Code.KAFKA_STORAGE_ERROR,
                f"full: {self.budget.limit} bytes of records that may not be deleted",
            )
        self._compact(topic, dirtiest)

    def _check_name(self, name: str) -> None:
        if not VALID_NAME.fullmatch(name) or name in {".", ".."}:
            raise RequestError(Code.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {name!r}")
        if name in self:
            raise RequestError(Code.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        for other in self:
            if other.replace(".", "_") == name.replace(".", "_"):
                raise RequestError(
                    Code.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with '{other}'"
                )

    def _check_partitions(self, added: int) -> None:
        if added < 1:
            raise RequestError(
                Code.INVALID_PARTITIONS, "Number of partitions must be larger than 0, or -1"
            )
        if sum(len(topic.logs) for topic in self.values()) + added > MAX_PARTITIONS:
            raise RequestError(
                Code.INVALID_PARTITIONS, f"{added} more are over {MAX_PARTITIONS} partitions"
            )
