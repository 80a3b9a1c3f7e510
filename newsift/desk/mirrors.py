"""In-memory mirrors of the control and label topics, and the thread that follows a topic."""

import logging
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread
from typing import Generic, Protocol, TypeVar

from encoder.errors import NewsiftError
from newsift.desk.threads import PATIENCE_S
from newsift.operations.keyed_topic import Reducer, TopicState
from newsift.statistics.labels import LabelReducer, LabelState
from worker.config import Config
from worker.errors import BrokerError
from worker.kafka.reading import Offsets, StoredMessage, TopicReader, connected
from worker.seeds.state import ControlReducer, ControlState

NOT_READ = "it is not read yet"
AGAIN_S = 1.0  # after an outage, before the broker is asked again
BEHIND = "its newest records are not read yet; try again"
POLL_S = 0.005
LOOK_S = 30.0  # after which the broker is asked whether the topic has more partitions now
log = logging.getLogger("newsift.desk")
ROOM = 2**28  # bytes that the records of the control topic may take together
S = TypeVar("S", bound=TopicState)


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

    def wait_until(self, end: Offsets) -> None:
        """Wait until the follower has all records before these offsets, or refuse."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.ready.is_set() or any(
            self._at.get(part, 0) < at for part, at in end.items()
        ):
            if time.monotonic() > deadline or self._ended.is_set():
                raise BrokerError(f"{self._topic}: {self.away or BEHIND}")
            time.sleep(POLL_S)

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


class TopicMirror(Generic[S]):
    """What a topic says, as far as it was read; from several threads."""

    def __init__(self, topic: str, reducer: Callable[[], Reducer[S]]) -> None:
        self._topic, self._new, self._lock = topic, reducer, Lock()
        self._reducer = reducer()

    def begin(self, cluster: TopicReader) -> Offsets:
        """Forget everything, and read from the start."""
        with self._lock:
            self._reducer = self._new()
        return cluster.beginnings(self._topic)

    def take(self, batch: Sequence[StoredMessage]) -> None:
        """Let records take effect."""
        with self._lock:
            self._reducer.apply(batch)

    def finish(self) -> None:
        """All that was there at the beginning is read."""
        with self._lock:
            self._reducer.finish()

    def state(self) -> S:
        """What the topic says; the same object until another record takes effect."""
        with self._lock:
            return self._reducer.snapshot()


class TopicMirrors:
    """Both topics, followed while the desk is open."""

    def __init__(self, config: Config, moved: Callable[..., None]) -> None:
        """`moved` is told which parts of the desk have changed."""
        self._topics = topics = config.topics
        limits = config.limits
        self._control = TopicMirror(topics.seeds, lambda: ControlReducer(limits, ROOM))
        self._labels = TopicMirror(topics.labels, lambda: LabelReducer(limits))

        def control_moved() -> None:
            if self.of_seeds.ready.is_set():
                self._control.finish()
            moved("seeds", "events")

        def labels_moved() -> None:
            if self.of_labels.ready.is_set():
                self._labels.finish()
            moved("labels")

        self.of_seeds = Following(config, topics.seeds, self._control, control_moved)
        self.of_labels = Following(config, topics.labels, self._labels, labels_moved)

    @property
    def control(self) -> ControlState:
        """The control topic as it is now."""
        return self._control.state()

    @property
    def labels(self) -> LabelState:
        """The labels as they are now."""
        return self._labels.state()

    def catch_up(self, cluster: TopicReader) -> None:
        """Wait until both states hold what is on the topics now; labels may have no topic yet."""
        for mirrored, topic in (
            (self.of_seeds, self._topics.seeds),
            (self.of_labels, self._topics.labels),
        ):
            if mirrored is self.of_seeds or cluster.exists(topic):
                cluster.partitions(topic)
                mirrored.wait_until(cluster.ends(topic))

    def require_current(self) -> None:
        """Refuse to decide by topics that are not followed just now; labels may have none yet."""
        for mirrored in (self.of_seeds, self.of_labels):
            if mirrored.away and not (mirrored is self.of_labels and mirrored.missing):
                raise BrokerError(mirrored.away)

    def start(self) -> None:
        """Begin to follow."""
        self.of_seeds.start()
        self.of_labels.start()

    def stop(self) -> None:
        """Follow no more; harmless if it never began."""
        self.of_seeds.stop()
        self.of_labels.stop()
