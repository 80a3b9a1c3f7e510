"""A topic that the desk follows: a thread of its own, through outages, till the desk is closed."""

import logging
import time
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import Protocol

from encoder.errors import NewsiftError
from worker.config import Config
from worker.kafka.reading import Offsets, StoredMessage, TopicReader, connected

NOT_READ = "it is not read yet"
AGAIN_S = 1.0  # after an outage, before the broker is asked again
LOOK_S = 30.0  # after which the broker is asked whether the topic has more partitions now
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
        self.away, self.missing = NOT_READ, False
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
        if not self._awaited(cluster):
            return
        first, end = cluster.beginnings(self._topic), cluster.ends(self._topic)
        if not self._at or not _lies_within(self._at, first, end):
            self.ready.clear()
            self._at = self._follower.begin(cluster)
        self._at = first | self._at  # a partition may have been added
        looked = time.monotonic()
        for batch in cluster.follow(self._topic, self._at):
            if self._ended.is_set() or not self._taken(batch, cluster, end):
                return
            if time.monotonic() - looked > LOOK_S:
                looked = time.monotonic()
                if cluster.look_again(self._topic) != sorted(self._at):
                    return

    def _taken(self, batch: Sequence[StoredMessage], cluster: TopicReader, end: Offsets) -> bool:
        """Keep what came; False where it is of a topic that was made again meanwhile."""
        if batch:
            self._follower.take(batch)
        now = cluster.positions(self._topic)
        if any(now[part] < at for part, at in self._at.items()):
            self._at = {}
            return False
        self._at = now
        news = bool(batch or self.away)
        self.away = ""
        if not self.ready.is_set() and all(now[part] >= end[part] for part in end):
            self.ready.set()
            news = True
        if news:
            self._moved()
        return True

    def _awaited(self, cluster: TopicReader) -> bool:
        """Wait until there is such a topic; False where the desk is closed before."""
        while not cluster.exists(self._topic):
            self.missing = True
            self._tell(str(cluster.missing(self._topic)))
            if self._ended.wait(AGAIN_S):
                return False
        self.missing = False
        return True

    def _tell(self, why: str) -> None:
        if self.away != why:
            log.warning("%s: %s", self._topic, why)
            self.away = why
            self._moved()


def _lies_within(at: Offsets, first: Offsets, end: Offsets) -> bool:
    """Whether the topic still is the one that was read so far."""
    return at.keys() <= end.keys() and all(first[p] <= at[p] <= end[p] for p in at)
