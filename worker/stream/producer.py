"""Letters to topics, and the producer of aiokafka that takes them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    BrokerResponseError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NotEnoughReplicasError,
    UnknownTopicOrPartitionError,
    kafka_errors,
)
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.protocol.admin import DescribeConfigsRequest

import worker.kafka.metadata  # noqa: F401 - no producer makes a topic

PARCEL_BYTES = 2**18
TOPIC = 2  # what kind of thing settings are asked of
SIZE = "max.message.bytes"
IN_SYNC = "min.insync.replicas"


class InvalidRecordError(BrokerResponseError):  # type: ignore[misc]
    """The broker refuses what a record holds: one without a key in a compacted topic, say."""

    errno = 87
    message = "INVALID_RECORD"
    description = "The broker refuses a record; a compacted topic takes none without a key."


kafka_errors[InvalidRecordError.errno] = InvalidRecordError  # aiokafka has no name for it


@dataclass(frozen=True, slots=True)
class Letter:
    """A record with its topic, ready to be sent."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]
    source: int  # which message of the batch it comes from
    timestamp: int | None = None  # milliseconds; without one that of its sending


@dataclass(frozen=True, slots=True)
class Parcel:
    """Letters to one partition that travel together."""

    topic: str
    partition: int
    letters: list[Letter]
    packed: Any
    fits: bool  # as far as the broker has told what the topic takes


class Producer(Protocol):
    """As much of aiokafka's producer as is used, and whether the broker answers it."""

    async def start(self) -> None:
        """Connect."""

    async def stop(self) -> None:
        """Send what is left and disconnect."""

    async def partitions_for(self, topic: str) -> set[int]:
        """The partitions of a topic."""

    def new_batch(self, size: int) -> Any:
        """An empty batch to fill, of so many bytes, or of one record."""

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Awaitable[Any]:
        """Hand over a batch; what comes back is done when it is acknowledged."""

    async def ready(self, topics: Sequence[str]) -> None:
        """Ask the broker what would keep a record from these topics, and raise it."""

    async def limits(self, topics: Sequence[str]) -> dict[str, int]:
        """How many bytes a batch may have, by topic, where the broker tells."""


class KafkaProducer(AIOKafkaProducer):  # type: ignore[misc]
    """aiokafka's idempotent producer."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(
            **settings, acks="all", enable_idempotence=True, max_batch_size=PARCEL_BYTES
        )
        self._in_sync: dict[str, int] = {}  # of a topic's replicas, as many as it must have

    async def ready(self, topics: Sequence[str]) -> None:
        """Ask the broker what would keep a record from these topics, and raise it."""
        if not await self.client.force_metadata_update():
            raise KafkaTimeoutError("no broker answers")
        for topic in topics:
            self._check(topic)

    def _check(self, topic: str) -> None:
        """A topic must be there, each partition with a leader and with enough replicas."""
        known, wanted = self.client.cluster, self._in_sync.get(topic, 1)
        numbers = known.partitions_for_topic(topic)
        if not numbers:
            raise UnknownTopicOrPartitionError(topic)
        if bare := sorted(numbers - known.available_partitions_for_topic(topic)):
            raise LeaderNotAvailableError(f"no leader for {topic}, partition {bare[0]}")
        for number in sorted(numbers):
            isr = len(known._partitions[topic][number].isr)
            if isr < wanted:
                raise NotEnoughReplicasError(
                    f"{topic}, partition {number}: {isr} in sync, {IN_SYNC} is {wanted}"
                )

    def new_batch(self, size: int) -> BatchBuilder:
        """An empty batch to fill, of so many bytes, or of one record.

        The bytes are those that the broker compares with max.message.bytes: header included.
        """
        return BatchBuilder(size, 0)

    async def limits(self, topics: Sequence[str]) -> dict[str, int]:
        """How many bytes a batch may have, by topic, where the broker tells."""
        asked = DescribeConfigsRequest([(TOPIC, topic, [SIZE, IN_SYNC]) for topic in topics])
        said = await self.client.send(self.client.get_random_node(), asked)
        told = {
            (name, topic): int(value)
            for _, _, _, topic, settings in said.resources
            for name, value, *_ in settings
        }
        self._in_sync |= {topic: n for (name, topic), n in told.items() if name == IN_SYNC}
        return {topic: n for (name, topic), n in told.items() if name == SIZE}


OpenProducer = Callable[[], Producer]
