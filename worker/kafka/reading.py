"""Reads topics for commands, by a consumer without a group: between two positions, or samples."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from math import ceil, inf
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from worker.config import Config
from worker.errors import AccessError, BrokerError, ConflictError, RunError
from worker.kafka.batches import WholeBatches
from worker.kafka.sending import ANSWER_MS, Headers
from worker.kafka.settings import broker_errors, isolation_level, kafka_python_settings
from worker.kafka.topics import admin_client, topic_exists
from worker.posts.outcome import Unreadable

if TYPE_CHECKING:
    from kafka import TopicPartition

MAX_SILENCE_S = 10.0  # After it the broker is asked for the end offsets.
MAX_STUCK_S = 30.0
POLL_MS = 500

Offsets = dict[int, int]  # by partition


class StoredMessage(Protocol):
    """A record as kafka-python returns it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@contextmanager
def connected(config: Config) -> Iterator["TopicReader"]:
    import kafka

    with broker_errors(config):
        consumer = kafka.KafkaConsumer(
            **kafka_python_settings(config),
            check_crcs=False,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=isolation_level(config),
            allow_auto_create_topics=False,
            fetch_max_wait_ms=POLL_MS,
            max_poll_records=1000,
            metrics_enabled=False,
        )
        try:
            yield TopicReader(consumer, config)
        finally:
            consumer.close(autocommit=False, timeout_ms=1000)


class TopicReader:
    """Reads without a consumer group."""

    def __init__(self, consumer: Any, config: Config) -> None:
        self._consumer, self._config = consumer, config
        self._unreadable = Counter[str]()
        self._fetcher, self._cluster = consumer._fetcher, consumer._client.cluster
        make = self._fetcher.PartitionRecords

        def read_whole(start: int, place: Any, batches: Any, **options: Any) -> Any:
            whole = WholeBatches(batches, place, start, lambda: consumer.highwater(place))
            return make(start, place, whole, **options)

        self._fetcher.PartitionRecords = read_whole  # it stops for ever at a damaged batch

    @property
    def cluster_id(self) -> str:
        """Empty for a broker before 0.10.1."""
        return str(self._cluster.cluster_id or "")

    def unreadable(self, topic: str) -> int:
        """Records skipped so far because their batches could not be read."""
        return self._unreadable[topic]

    def partitions(self, topic: str) -> list[int]:
        """Raises if the topic does not exist, or the user has no right to know."""
        numbers = sorted(self._consumer.partitions_for_topic(topic)) if self.exists(topic) else []
        if not numbers:
            raise self.missing_error(topic)
        return numbers

    def missing_error(self, topic: str) -> AccessError:
        where = self._config.kafka.bootstrap_servers
        return AccessError(f"{where} has no topic {topic!r}; `newsift topics create` makes it")

    def is_visible(self, topic: str) -> bool:
        """Whether it exists, and the user has a right to know."""
        return bool(self._consumer.partitions_for_topic(topic))

    def exists(self, topic: str) -> bool:
        """Raises if the user has no right to know: the topic may be full of records."""
        if self.is_visible(topic):
            return True
        with admin_client(self._config) as admin:
            return topic_exists(admin, topic)

    def identity(self, topic: str) -> object:
        """A topic that is created again has another one; None for a broker before 2.8."""
        return self._cluster.topic_id(topic)

    def refresh_partitions(self, topic: str) -> list[int]:
        """The partitions, after new metadata was requested."""
        self._consumer.topics()
        return self.partitions(topic)

    def positions(self, topic: str) -> Offsets:
        """The positions of `follow`, past markers and gaps."""
        return {place.partition: self._consumer.position(place) for place in self._places(topic)}

    def beginnings(self, topic: str) -> Offsets:
        return _by_partition(self._consumer.beginning_offsets(self._places(topic)))

    def ends(self, topic: str) -> Offsets:
        return _by_partition(self._consumer.end_offsets(self._places(topic)))

    def offsets_at(self, topic: str, since: int) -> Offsets:
        """The first offset of each partition at or after a time in milliseconds."""
        ends = self.ends(topic)  # read first: later messages must not count as earlier ones
        offsets = self._consumer.offsets_for_times(
            dict.fromkeys(self._places(topic), max(since, 0))
        )
        later = {place: hit.offset for place, hit in offsets.items() if hit is not None}
        return ends | _by_partition(later)

    def read(
        self, topic: str, start: Offsets | None = None, end: Offsets | None = None,
        until: float = inf,
    ) -> Iterator[list[StoredMessage]]:  # fmt: skip
        """The records from the start to the end offsets, batch by batch.

        Stops early when the monotonic clock reaches `until`.
        """
        start = self.beginnings(topic) if start is None else start
        end = self.ends(topic) if end is None else end
        places = self._places(topic)
        left = {p for p in places if start.get(p.partition, 0) < end.get(p.partition, 0)}
        batches = self.follow(topic, start)
        last_record, identity = time.monotonic(), self.identity(topic)
        while left and time.monotonic() < until:
            batch = next(batches)
            if batch:
                last_record = time.monotonic()
            elif time.monotonic() - last_record > MAX_STUCK_S:
                raise self._stuck(topic, left, identity)
            if within := [
                record for record in batch if record.offset < end.get(record.partition, 0)
            ]:
                yield within
            left = {p for p in left if self._consumer.position(p) < end[p.partition]}
            self._consumer.pause(*left.symmetric_difference(places))  # what lies past the end

    def follow(self, topic: str, start: Offsets) -> Iterator[list[StoredMessage]]:
        """Records from the start offsets on, batch by batch; some batches are empty."""
        places = self._places(topic)
        # What kafka-python put by for a paused partition would keep it from being read again.
        self._fetcher.close()
        self._consumer.assign(places)
        self._consumer.resume(*places)  # else a partition that is assigned again stays paused
        for place in places:
            self._consumer.seek(place, start.get(place.partition, 0))
        last_answer = time.monotonic()
        while True:
            batches = self._consumer.poll(timeout_ms=POLL_MS)
            yield [r for records in batches.values() for r in records if not self._skips(r)]
            if batches:
                last_answer = time.monotonic()
            elif time.monotonic() - last_answer > MAX_SILENCE_S:
                self._consumer.end_offsets(places, timeout_ms=ANSWER_MS)  # or raises
                last_answer = time.monotonic()

    def _skips(self, record: Any) -> bool:
        """Whether the record stands for a batch that cannot be read."""
        message = record.checksum
        if not isinstance(message, Unreadable):
            return False
        self._unreadable[message.topic] += message.count
        sys.stderr.write(f"newsift: {message}\n")
        return True

    def _places(self, topic: str) -> list["TopicPartition"]:
        from kafka import TopicPartition

        return [TopicPartition(topic, partition) for partition in self.partitions(topic)]

    def _stuck(self, topic: str, left: Iterable["TopicPartition"], identity: object) -> RunError:
        self.refresh_partitions(topic)
        if self.identity(topic) != identity:
            return ConflictError(f"{topic}: was recreated while it was read; try again")
        where = self._config.kafka.bootstrap_servers
        waiting = ", ".join(str(place.partition) for place in left)
        return BrokerError(
            f"broker {where}: sends nothing of {topic!r}, partition {waiting}, although there is "
            "more; see the broker's log"
        )


def records_between(start: Offsets, end: Offsets) -> int:
    """An upper bound: compaction and markers leave gaps."""
    return sum(max(end[partition] - start.get(partition, 0), 0) for partition in end)


def _by_partition(offsets: Mapping["TopicPartition", int]) -> Offsets:
    return {place.partition: offset for place, offset in offsets.items()}


def sample_spans(
    begins: Offsets, ends: Offsets, most: int, windows: int, random: Random
) -> Iterator[tuple[Offsets, Offsets]]:
    """Spans with about `most` messages in all. Each has at most one window of every partition.

    A partition has at most one window more than `windows`.
    """
    share = most / max(sum(ends[n] - begins[n] for n in ends), 1)
    by_partition = [
        [
            (number, *window)
            for window in sample_windows(begins[number], ends[number], share, windows, random)
        ]
        for number in ends
    ]
    for span in zip_longest(*by_partition):
        start, end = dict(ends), dict(ends)  # empty for a partition without further windows
        for number, first, after in filter(None, span):
            start[number], end[number] = first, after
        yield start, end


def sample_windows(
    begin: int, end: int, share: float, most: int, random: Random
) -> Iterator[tuple[int, int]]:
    """Windows with this share of a partition, evenly spaced from a random offset on."""
    size = end - begin
    step = max(1, ceil(size / most), ceil(1 / share)) if share < 1 else max(1, size)
    width = max(1, round(step * min(share, 1)))
    shift = random.randrange(step) if width < step else step
    for start in range(begin + shift - step, end, step):
        low, high = max(start, begin), min(start + width, end)
        if low < high:
            yield low, high
