"""A topic that the desk follows: a thread of its own, through outages, till the desk is closed."""

import logging
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import Protocol

from encoder.errors import NewsiftError
from worker.config import Config
from worker.kafka.reading import Offsets, StoredMessage, TopicReader, connected

AGAIN_S = 1.0  # after an outage, before the broker is asked again
log = logging.getLogger("newsift.desk")


class Follower(Protocol):
    """What keeps what is in a topic, for others to look at."""

    def begin(self, cluster: TopicReader) -> Offsets:
        """Forget everything; where to read from, by partition."""

    def take(self, batch: Sequence[StoredMessage]) -> None:
        """Keep what came."""


class Following:
    """A topic on its way to a follower; `away` says why it stands still, if it does."""

    def __init__(
        self, config: Config, topic: str, follower: Follower, moved: Callable[[], None]
    ) -> None:
        """`moved` is told whenever the follower, or whether it is away, has changed."""
        self._config, self._topic, self._follower, self._moved = config, topic, follower, moved
        self._at: Offsets = {}
        self._ended = Event()
        self.ready = Event()  # all that was there at the start is kept
        self.away = "it is not read yet"
        self._thread = Thread(target=self._run, name=f"desk-{topic}", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """Follow no more; harmless if it never began."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with connected(self._config) as cluster:
                    self._follow(cluster)
            except NewsiftError as error:
                self._tell(str(error))
            except Exception as error:
                log.exception("%s is not followed", self._topic)
                self._tell(f"{type(error).__name__}: {error}")
            self._ended.wait(AGAIN_S)

    def _follow(self, cluster: TopicReader) -> None:
        end = cluster.ends(self._topic)
        if not self._at or not _lies_within(self._at, cluster.beginnings(self._topic), end):
            self.ready.clear()
            self._at = self._follower.begin(cluster)
        for batch in cluster.follow(self._topic, self._at):
            if self._ended.is_set():
                return
            if batch:
                self._follower.take(batch)
                self._at |= {found.partition: found.offset + 1 for found in batch}
            if batch or self.away:
                self._moved()
            self.away = ""
            if not self.ready.is_set() and all(self._at.get(p, 0) >= end[p] for p in end):
                self.ready.set()
                self._moved()

    def _tell(self, why: str) -> None:
        if self.away != why:
            log.warning("%s: %s", self._topic, why)
            self.away = why
            self._moved()


def _lies_within(at: Offsets, first: Offsets, end: Offsets) -> bool:
    """Whether the topic still is the one that was read so far."""
    return at.keys() == end.keys() and all(first[p] <= at[p] <= end[p] for p in end)
