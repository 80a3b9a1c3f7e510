"""Kafka for the commands: clients without a group that fail fast and say where and why."""

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeAlias

from worker.config import Config
from worker.errors import AccessError, BrokerError
from worker.kafka.settings import broker_error, isolation_level, kafka_python_settings, uses_tls

KNOCK_S = 2.0
ANSWER_MS = 10_000
SILENCE_S = 10.0  # without a record the broker is asked whether it is still there
POLL_MS = 500
LARGEST_RECORD = 2**25  # the broker's own limit is usually lower, and decides
UNDER_WAY = 2**14  # records sent and not yet acknowledged
BYTES_UNDER_WAY = 2**25

Headers: TypeAlias = Sequence[tuple[str, bytes]]
Offsets: TypeAlias = dict[int, int]  # partition: offset


class Message(Protocol):
    """A record of a topic as kafka-python hands it out."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@contextmanager
def speaking(config: Config) -> Iterator[None]:
    """Turn what a client raises into one line that names the broker and the remedy."""
    import kafka.errors

    if os.environ.get("NEWSIFT_DEBUG") != "1":
        logging.getLogger("kafka").addHandler(logging.NullHandler())
        logging.getLogger("kafka").propagate = False
    try:
        if not uses_tls(config):  # a handshake that is cut short would stand in the broker's log
            _knock(config)
        yield
    except kafka.errors.KafkaError as error:
        raise broker_error(error, config) from error


def _knock(config: Config) -> None:
    """Fail at once where nobody listens: a client would go on trying for seconds."""
    import kafka.errors

    failed: OSError | None = None
    for address in config.kafka.bootstrap_servers.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()
            return
        except OSError as error:
            failed = error
    raise kafka.errors.KafkaConnectionError(str(failed)) from failed


@contextmanager
def connected(config: Config) -> Iterator["Cluster"]:
    """A cluster to read from; closed at the end."""
    import kafka

    from worker.kafka.batches.fetched import opening

    with speaking(config):
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
            yield Cluster(opening(consumer, config.limits.batch_bytes), config)
        finally:
            consumer.close(autocommit=False, timeout_ms=1000)


@contextmanager
def sending(config: Config) -> Iterator["Outbox"]:
    """An outbox whose records every replica has to acknowledge; closed at the end."""
    import kafka

    with speaking(config):
        producer = kafka.KafkaProducer(
            **kafka_python_settings(config),
            acks="all",
            linger_ms=5,
            batch_size=2**17,
            max_request_size=LARGEST_RECORD,
            max_block_ms=ANSWER_MS,
            delivery_timeout_ms=2 * ANSWER_MS,
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
        try:
            yield Outbox(producer)
        finally:
            producer.close(timeout=1)


@contextmanager
def administering(config: Config) -> Iterator[Any]:
    """A KafkaAdminClient; closed at the end."""
    import kafka

    with speaking(config):
        admin = kafka.KafkaAdminClient(**kafka_python_settings(config))
        try:
            yield admin
        finally:
            admin.close()


class Cluster:
    """Topics to be read from any point, by a consumer that belongs to no group."""

    def __init__(self, consumer: Any, config: Config) -> None:
        self._consumer = consumer
        self._config = config

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic, which has to exist."""
        found = sorted(self._consumer.partitions_for_topic(topic))
        if not found:
            where = self._config.kafka.bootstrap_servers
            raise AccessError(
                f"{where} has no topic {topic!r}; make it with `newsift topics create`"
            )
        return found

    def exists(self, topic: str) -> bool:
        """Whether the broker has a topic of this name and lets us see it."""
        return bool(self._consumer.partitions_for_topic(topic))

    def beginnings(self, topic: str) -> Offsets:
        """The first offset of each partition that is still there."""
        return self._plain(self._consumer.beginning_offsets(self._named(topic)))

    def ends(self, topic: str) -> Offsets:
        """The offset after the last of each partition."""
        return self._plain(self._consumer.end_offsets(self._named(topic)))

    def at(self, topic: str, since: int) -> Offsets:
        """The first offset of each partition from a time on, in milliseconds."""
        named = self._named(topic)
        found = self._consumer.offsets_for_times(dict.fromkeys(named, max(since, 0)))
        ends = self.ends(topic)
        return {
            partition.partition: ends[partition.partition] if hit is None else hit.offset
            for partition, hit in found.items()
        }

    def read(
        self, topic: str, start: Offsets | None = None, end: Offsets | None = None
    ) -> Iterator[list[Message]]:
        """The records from the start to the end offsets as they are now, batch by batch."""
        start = self.beginnings(topic) if start is None else start
        end = self.ends(topic) if end is None else end
        self._seek(topic, start)
        left = {p: stop for p, stop in end.items() if start.get(p, 0) < stop}
        self._pause_others(topic, left)
        polled = self._polled(topic)
        moved = time.monotonic()
        while left:
            batch = next(polled)
            if batch:
                moved = time.monotonic()
            elif time.monotonic() - moved > 3 * SILENCE_S:
                raise self._stuck(topic, left)
            if within := [found for found in batch if found.offset < end.get(found.partition, 0)]:
                yield within
            left = {p: stop for p, stop in left.items() if self._position(topic, p) < stop}
            self._pause_others(topic, left)

    def follow(self, topic: str, start: Offsets) -> Iterator[list[Message]]:
        """The records from the start offsets on, for as long as they are asked for."""
        self._seek(topic, start)
        yield from self._polled(topic)

    def _polled(self, topic: str) -> Iterator[list[Message]]:
        """What arrives, batch by batch; an empty one now and then while nothing does."""
        heard = time.monotonic()
        while True:
            yield (batch := self._poll())
            if batch:
                heard = time.monotonic()
            elif time.monotonic() - heard > SILENCE_S:
                self._consumer.end_offsets(self._named(topic), timeout_ms=ANSWER_MS)  # or raises
                heard = time.monotonic()

    def _poll(self) -> list[Message]:
        found = self._consumer.poll(timeout_ms=POLL_MS)
        return [record for records in found.values() for record in records]

    def _seek(self, topic: str, start: Offsets) -> None:
        named = self._named(topic)
        self._consumer.assign(named)
        self._consumer.resume(*named)  # assigned anew, a partition would stay paused
        for partition in named:
            self._consumer.seek(partition, start.get(partition.partition, 0))

    def _pause_others(self, topic: str, wanted: Mapping[int, int]) -> None:
        """Fetch no more of what lies past the end."""
        done = [named for named in self._named(topic) if named.partition not in wanted]
        self._consumer.pause(*done)

    def _position(self, topic: str, partition: int) -> int:
        from kafka import TopicPartition

        return int(self._consumer.position(TopicPartition(topic, partition)))

    def _named(self, topic: str) -> list[Any]:
        from kafka import TopicPartition

        return [TopicPartition(topic, partition) for partition in self.partitions(topic)]

    def _stuck(self, topic: str, left: Mapping[int, int]) -> BrokerError:
        where = self._config.kafka.bootstrap_servers
        waiting = ", ".join(map(str, left))
        return BrokerError(
            f"broker {where}: sends nothing of {topic!r}, partition {waiting}, although there is "
            "more; see the broker's log"
        )

    @staticmethod
    def _plain(offsets: Mapping[Any, int]) -> Offsets:
        return {named.partition: offset for named, offset in offsets.items()}


class Outbox:
    """Sends records in order, so many at a time, and counts those that were acknowledged."""

    def __init__(self, producer: Any) -> None:
        self.delivered = 0  # of the first records, without a gap
        self._producer = producer
        self._waiting: deque[tuple[Any, int]] = deque()
        self._bytes = 0
        self._failed = False

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers = ()
    ) -> None:
        """Send a record; waits while too many are under way, raises what an earlier one met."""
        sent = self._producer.send(topic, value=value, key=key, headers=list(headers))
        size = len(value or b"") + len(key or b"")
        self._waiting.append((sent, size))
        self._bytes += size
        while self._waiting and self._waiting[0][0].is_done:
            self._take(0)
        while len(self._waiting) > UNDER_WAY or self._bytes > BYTES_UNDER_WAY:
            self._take(3 * ANSWER_MS)

    def settle(self) -> None:
        """Wait until the broker has acknowledged every record."""
        while self._waiting:
            self._take(3 * ANSWER_MS)

    def drained(self, seconds: float) -> int:
        """Wait so long for what is under way, and count what was delivered without a gap."""
        from kafka.errors import KafkaError

        ends = time.monotonic() + seconds
        with suppress(KafkaError):
            while self._waiting and not self._failed:
                self._take(1000 * max(ends - time.monotonic(), 0))
        return self.delivered

    def _take(self, timeout_ms: float) -> None:
        """Wait for the first record; once one has failed, no later one counts."""
        sent, size = self._waiting[0]
        try:
            sent.get(timeout=timeout_ms / 1000)
        except Exception:
            self._failed = sent.is_done
            raise
        self._waiting.popleft()
        self._bytes -= size
        self.delivered += 1
