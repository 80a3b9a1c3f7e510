"""The topics of a broker, their partitions, and what keeps them within its memory."""

import asyncio
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from worker.broker.batch import read_header, read_records, unpacked_batch
from worker.broker.codes import Code, Refused, refuse_transactions
from worker.broker.compaction import compact, is_due
from worker.broker.configs import TopicConfig
from worker.broker.log import OVERHEAD, Budget, Log
from worker.kafka.batches.header import CONTROL, TRANSACTIONAL, Header

LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}")
MOST_PARTITIONS = 10_000
FREED_AT_ONCE = 64  # one part in this many is freed at a time, so that it is seldom done


@dataclass(slots=True)
class Topic:
    """A named list of partitions with their settings."""

    name: str
    logs: list[Log]
    config: TopicConfig
    id: uuid.UUID = field(default_factory=uuid.uuid4)

    def log(self, partition: int) -> Log:
        """The log of a partition."""
        if not 0 <= partition < len(self.logs):
            raise Refused(
                Code.UNKNOWN_TOPIC_OR_PARTITION, f"{self.name} has no partition {partition}"
            )
        return self.logs[partition]


class Topics(dict[str, Topic]):
    """All topics by name; appending to them, and forgetting what is over the limits."""

    def __init__(self, budget: Budget, partitions: int, clock: Callable[[], int]) -> None:
        super().__init__()
        self.budget = budget
        self.clock = clock
        self.changed = asyncio.Event()  # set, and replaced by another, at each change of a log
        self._partitions = partitions

    def __missing__(self, name: str) -> Topic:
        raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")

    def create(
        self,
        name: str,
        partitions: int = -1,
        given: Mapping[str, str | None] | None = None,
        only_check: bool = False,
    ) -> Topic:
        """A new topic, or what is wrong with it; -1 partitions are the broker's default."""
        self._check_name(name)
        wanted = self._partitions if partitions == -1 else partitions
        self._check_room(wanted)
        config = TopicConfig(given or {})
        topic = Topic(name, [Log(self.budget) for _ in range(wanted)], config)
        if not only_check:
            self[name] = topic
        return topic

    def grow(self, name: str, partitions: int, only_check: bool = False) -> None:
        """Give a topic more partitions; fewer, or as many, are refused."""
        topic = self[name]
        if partitions <= len(topic.logs):
            raise Refused(
                Code.INVALID_PARTITIONS,
                f"{name} has {len(topic.logs)} partitions, which cannot become {partitions}",
            )
        self._check_room(partitions - len(topic.logs))
        if not only_check:
            topic.logs += [Log(self.budget) for _ in range(partitions - len(topic.logs))]

    def delete(self, name: str) -> None:
        """Forget a topic with all it holds."""
        topic = self[name]
        del self[name]
        for log in topic.logs:
            log.delete()
        self._tell()

    def append(self, topic: Topic, log: Log, data: bytes, header: Header) -> int:
        """Store one batch that was checked, and wake who waits for any; the offset it got."""
        if header.producer_id >= 0:
            stored = log.sequences.duplicate_of(header)
            if stored is not None:
                return stored
        self._make_room(len(data) + OVERHEAD)
        offset = log.append(data, header)
        if header.producer_id >= 0:
            log.sequences.remember(header, offset)
        self._tell()
        return offset

    async def clean(self) -> None:
        """Compact what is dirty enough; what every broker does now and then."""
        for topic in tuple(self.values()):
            for log in topic.logs if topic.config.is_compacted else ():
                if is_due(log, self.clock(), topic.config["min.cleanable.dirty.ratio"]):
                    self._compact(topic, log)
                    await asyncio.sleep(0)  # whoever waits for the broker gets a turn

    def _compact(self, topic: Topic, log: Log) -> None:
        compact(log, self.clock(), topic.config["delete.retention.ms"])

    def _tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def checked(self, topic: Topic, data: bytes) -> Header:
        """The header of a batch that may be stored; changes nothing, so that a thread can do it."""
        if len(data) > (most := topic.config["max.message.bytes"]):
            said = f"a batch of {len(data)} bytes is over max.message.bytes of {topic.name}, {most}"
            raise Refused(Code.MESSAGE_TOO_LARGE, said)
        header = read_header(data)
        if header.attributes & TRANSACTIONAL:
            raise refuse_transactions()
        if header.attributes & CONTROL:
            raise Refused(Code.INVALID_RECORD, "clients may not write control batches")
        self._check_time(topic.config, header)
        if not topic.config.is_compacted:
            unpacked_batch(data)
        elif any(record.key is None for record in read_records(data)):
            said = f"Compacted topic cannot accept message without key in topic {topic.name}"
            raise Refused(Code.INVALID_RECORD, said)
        return header

    def _check_time(self, config: TopicConfig, header: Header) -> None:
        now = self.clock()
        late = header.max_timestamp - now > config["message.timestamp.after.max.ms"]
        early = 0 <= header.first_timestamp < now - config["message.timestamp.before.max.ms"]
        if late or early:
            raise Refused(
                Code.INVALID_TIMESTAMP,
                f"times {header.first_timestamp} to {header.max_timestamp} are too far from {now}",
            )

    def _make_room(self, size: int) -> None:
        """Forget the oldest batches of the fullest logs, or thin out, until this much fits."""
        self.budget.used += size
        try:
            while self.budget.over > 0:
                self._free(max(self.budget.over, self.budget.limit // FREED_AT_ONCE))
        finally:
            self.budget.used -= size

    def _free(self, size: int) -> None:
        trimmed = (log for topic in self.values() if topic.config.is_trimmed for log in topic.logs)
        fullest = max(trimmed, key=lambda log: log.size, default=None)
        if fullest is not None and len(fullest):
            fullest.drop_bytes(size)
            return
        compacted = ((t, log) for t in self.values() if t.config.is_compacted for log in t.logs)
        topic, dirtiest = max(compacted, key=lambda pair: pair[1].dirty, default=(None, None))
        if topic is None or dirtiest is None or dirtiest.dirty < size:
            raise Refused(
                Code.KAFKA_STORAGE_ERROR,
                f"full: {self.budget.limit} bytes of records that may not be forgotten",
            )
        self._compact(topic, dirtiest)

    def _check_name(self, name: str) -> None:
        if not LEGAL.fullmatch(name) or name in {".", ".."}:
            raise Refused(Code.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {name!r}")
        if name in self:
            raise Refused(Code.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        for other in self:
            if other.replace(".", "_") == name.replace(".", "_"):
                raise Refused(
                    Code.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with '{other}'"
                )

    def _check_room(self, wanted: int) -> None:
        if wanted < 1:
            raise Refused(
                Code.INVALID_PARTITIONS, "Number of partitions must be larger than 0, or -1"
            )
        if sum(len(topic.logs) for topic in self.values()) + wanted > MOST_PARTITIONS:
            raise Refused(
                Code.INVALID_PARTITIONS, f"{wanted} more are over {MOST_PARTITIONS} partitions"
            )
