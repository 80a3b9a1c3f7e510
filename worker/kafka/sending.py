"""Sends records for commands: in order, counting only those that the broker has acknowledged."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from worker.config import Config
from worker.kafka.settings import broker_errors, compression_type, kafka_python_settings

ANSWER_MS = 10_000
MAX_RECORD_BYTES = 2**25  # The broker's own limit is usually lower.
MAX_PENDING_RECORDS = 2**14
MAX_PENDING_BYTES = 2**25

Headers = Sequence[tuple[str, bytes]]


@contextmanager
def sending(config: Config, linger_ms: int = 5) -> Iterator["Outbox"]:
    """Every replica must acknowledge."""
    import kafka
    import kafka.errors

    with broker_errors(config):
        producer = kafka.KafkaProducer(
            **kafka_python_settings(config),
            acks="all",
            compression_type=compression_type(config),
            linger_ms=linger_ms,
            batch_size=2**17,
            max_request_size=MAX_RECORD_BYTES,
            max_block_ms=ANSWER_MS,
            delivery_timeout_ms=2 * ANSWER_MS,
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
        try:
            yield Outbox(producer)
        except kafka.errors.KafkaError:
            producer._sender.force_close()  # nobody awaits the other records
            raise
        finally:
            producer.close(timeout=1)


class Outbox:
    def __init__(self, producer: Any) -> None:
        self.delivered = 0  # of the first records, without a gap
        self._producer = producer
        self._waiting: deque[tuple[Any, int]] = deque()
        self._bytes = 0
        self._failed = False
        self._ends: dict[int, int] = {}

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers = (),
        at: int | None = None,
    ) -> None:  # fmt: skip
        """Waits while too many records are in flight; raises the error of an earlier one.

        `at` is the record's time in milliseconds; without it, that of its sending.
        """
        self.make_room()
        future = self._producer.send(
            topic, value=value, key=key, headers=list(headers), timestamp_ms=at
        )
        size = len(value or b"") + len(key or b"")
        self._waiting.append((future, size))
        self._bytes += size

    def make_room(self) -> None:
        """Waits while too many records are in flight; raises the error of an earlier one."""
        while self._waiting and self._waiting[0][0].is_done:
            self._await_first(0)
        while len(self._waiting) > MAX_PENDING_RECORDS or self._bytes > MAX_PENDING_BYTES:
            self._await_first(3 * ANSWER_MS)

    def settle(self) -> dict[int, int]:
        """Returns, by partition of a single topic, the offset after what it has."""
        while self._waiting:
            self._await_first(3 * ANSWER_MS)
        return self._ends

    def drain(self, seconds: float) -> int:
        """Waits at most this long; returns the number of records delivered without a gap."""
        from kafka.errors import KafkaError

        ends = time.monotonic() + seconds
        with suppress(KafkaError):
            while self._waiting and not self._failed:
                self._await_first(1000 * max(ends - time.monotonic(), 0))
        return self.delivered

    def _await_first(self, timeout_ms: float) -> None:
        """Waits for the first record; after a failure no later record counts."""
        future, size = self._waiting[0]
        try:
            place = future.get(timeout=timeout_ms / 1000)
        except Exception:
            self._failed = future.is_done
            raise
        self._waiting.popleft()
        self._ends[place.partition] = place.offset + 1
        self._bytes -= size
        self.delivered += 1
