"""aiokafka's consumer, reading whatever a stranger may have written."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.protocol.fetch import FetchRequest

from worker.kafka.batches.compiled import fast_walk
from worker.kafka.batches.opener import Opener

NoteBatch = Callable[[str, int, int, int, int], None]


class OpeningConsumer(AIOKafkaConsumer):  # type: ignore[misc]
    """aiokafka's consumer, with a bound on what a batch unpacks to.

    A batch that cannot be read, or has more than `batch_bytes` once unpacked, comes as one
    `Unreadable` message in its place. `note` is told topic, partition, first and last offset, and
    unpacked bytes of each batch that can be read, by the thread that unpacks it.
    """

    def __init__(
        self, batch_bytes: int, note: NoteBatch = lambda *_: None, **settings: Any
    ) -> None:
        super().__init__(check_crcs=False, **settings)  # the opener does
        self._opener, self._note = Opener(batch_bytes, fast_walk), note
        self._send = self._client.send
        self._client.send = self._sent

    async def getmany(
        self, *places: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Any]]:
        """What has arrived, each batch that is not read as one message."""
        found = await super().getmany(*places, timeout_ms=timeout_ms, max_records=max_records)
        if not self._opener.has_marked:
            return dict(found)
        seen = self._opener.seen
        return {place: [seen(row) or row for row in rows] for place, rows in found.items()}

    async def _sent(self, node: Any, request: Any, **group: Any) -> Any:
        """Ask a broker; what it answers to a fetch is opened in a thread, before aiokafka sees it.

        aiokafka itself would unpack without a bound, in the event loop.
        """
        answer = await self._send(node, request, **group)
        if isinstance(request, FetchRequest) and any(
            part[-1] for _, parts in answer.topics for part in parts
        ):
            await asyncio.to_thread(_open, answer, request, self._opener, self._note)
        return answer


def _open(answer: Any, request: FetchRequest, opener: Opener, note: NoteBatch) -> None:
    """Put opened batches in the place of those that came; they stand last in each partition."""
    room = opener.room()
    starts = {
        (topic, partition): offset
        for topic, parts in request.topics
        for partition, offset, _ in parts
    }

    def opened(topic: str, part: tuple[Any, ...]) -> tuple[Any, ...]:
        start, end = starts[topic, part[0]], part[2]
        noted = partial(note, topic, part[0])
        return (*part[:-1], opener.opened(part[-1] or b"", start, end, room, noted))

    answer.topics = [
        (topic, [opened(topic, part) for part in parts]) for topic, parts in answer.topics
    ]
