"""Where frames go: to the topic of posts, or, to look at them, to standard output."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import BinaryIO, Protocol

from worker.config import Config
from worker.kafka.delivery import Delivery
from worker.kafka.producer import KafkaProducer, Letter
from worker.kafka.settings import aiokafka_producer_settings
from worker.sources.counts import Counts
from worker.sources.frame import Frame

log = logging.getLogger("newsift.collect")


class Outlet(Protocol):
    """Takes frames, and says when they are safe."""

    async def deliver(self, frames: Sequence[Frame]) -> None:
        """Return once all are acknowledged."""
        ...


class TopicOutlet:
    """The topic of posts: each frame a record, its key the platform's id of the post."""

    def __init__(self, config: Config, counts: Counts, stalled: Callable[[bool], None]) -> None:
        self._topic, self._counts = config.topics.posts, counts
        self._delivery = Delivery(
            lambda: KafkaProducer(aiokafka_producer_settings(config)), (self._topic,),
            config.stream.produce_deadline_s, stalled,
        )  # fmt: skip

    async def start(self) -> None:
        """Connect, and see that the topic answers."""
        await self._delivery.start()

    async def stop(self) -> None:
        """Disconnect; what is not acknowledged by now is left."""
        await self._delivery.stop()

    async def deliver(self, frames: Sequence[Frame]) -> None:
        """Return once the broker has acknowledged all, however long it is away."""
        letters = [
            Letter(self._topic, frame.key, frame.value, (), number)
            for number, frame in enumerate(frames)
            if frame.value
        ]
        await self._delivery.deliver(letters, self._without_value)

    def _without_value(self, letter: Letter) -> Letter | None:
        """A record that stands for a frame too large for the topic: the worker refuses it.

        So it becomes a dead letter that names the post, instead of keeping all others waiting.
        """
        if letter.value is None:
            return None
        size = len(letter.value)
        log.error("frame %r has %d bytes, more than %s takes; sent without its value",
                  letter.key, size, self._topic)  # fmt: skip
        self._counts.unsendable()
        said = f"{size} bytes, more than the topic takes".encode()
        headers = (("reason", b"record_too_large"), ("detail", said))
        return replace(letter, value=None, headers=headers)


class PrintOutlet:
    """Bytes that get each frame on a line of its own, for `--dry-run`; none wait in a buffer."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    async def deliver(self, frames: Sequence[Frame]) -> None:
        """Print all."""
        lines = [b" ".join(frame.value.splitlines()) for frame in frames if frame.value]
        left = memoryview(b"".join(line + b"\n" for line in lines))
        while left:
            left = left[self._stream.write(left) :]
