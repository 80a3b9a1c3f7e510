"""In-memory mirrors of the topics of seeds, labels and matches, and the thread that follows one."""

import logging
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread
from typing import Generic, NamedTuple, Protocol

from newsift.desk.matches import MatchMirror
from newsift.desk.period import Period
from newsift.desk.threads import PATIENCE_S, failure_text
from newsift.statistics.labels import LabelReducer, LabelState
from worker.config import Config
from worker.errors import BrokerError
from worker.kafka.reading import Offsets, StoredMessage, TopicReader, connected
from worker.seeds.reducer import MAX_READ_PAUSE_S, StateT, TopicReducer
from worker.seeds.state import ControlReducer, ControlState

NOT_READ = "it is not read yet"
NOT_CAUGHT_UP = "its newest records are not read yet; try again"
RETRY_S = 1.0
POLL_S = 0.005
PARTITIONS_CHECK_S = 30.0
MAX_CONTROL_BYTES = 2**28
log = logging.getLogger("newsift.desk")


class TopicConsumer(Protocol):
    def begin(self, cluster: TopicReader) -> Offsets:
        """Forgets everything; returns the offsets to start from."""

    def take(self, batch: Sequence[StoredMessage]) -> None: ...

    def finish(self) -> None:
        """The topic was read to the end that it had at the start."""


class FollowTimes(NamedTuple):
    """In seconds."""

    retry: float = RETRY_S
    partitions: float = PARTITIONS_CHECK_S
    max_pause: float = MAX_READ_PAUSE_S


DEFAULT_TIMES = FollowTimes()


class TopicFollower:
    """Reads a topic for a consumer; `error` is the reason if it cannot."""

    def __init__(
        self, config: Config, topic: str, consumer: TopicConsumer, on_change: Callable[[], None],
        times: FollowTimes = DEFAULT_TIMES,
    ) -> None:  # fmt: skip
        """`on_change` is called after new records, and when `error` or `ready` changes."""
        self._config, self._topic = config, topic
        self._consumer, self._on_change = consumer, on_change
        self._times, self._read_at = times, 0.0
        self._offsets: Offsets = {}
        self._identity: object = None  # of the topic that was read to these offsets
        self._stop_event = Event()
        self.ready = Event()  # all records that were there at the start are read
        self.error, self.missing = NOT_READ, False
        self._thread = Thread(target=self._run, name=f"desk-{topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """May be called without `start`."""
        self._stop_event.set()

    def has_read(self, end: Offsets) -> bool:
        """Whether the consumer has all records before these offsets, and those of the start."""
        return self.ready.is_set() and all(
            self._offsets.get(partition, 0) >= offset for partition, offset in end.items()
        )

    def wait_until(self, end: Offsets) -> None:
        """Raises if the consumer does not have them in time."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.has_read(end):
            if time.monotonic() > deadline or self._stop_event.is_set():
                raise BrokerError(f"{self._topic}: {self.error or NOT_CAUGHT_UP}")
            time.sleep(POLL_S)

    def _run(self) -> None:
        while not self._stop_event.is_set():
            try:
                with connected(self._config) as cluster:
                    self._follow(cluster)
            except Exception as error:  # noqa: BLE001 - it is logged and shown
                self.missing = False
                self._set_error(failure_text(error, f"{self._topic} is not followed"))
            self._stop_event.wait(self._times.retry)

    def _follow(self, cluster: TopicReader) -> None:
        while not cluster.exists(self._topic):
            self.missing = True
            self._set_error(str(cluster.missing_error(self._topic)))
            if self._stop_event.wait(self._times.retry):
                return
        self.missing = False
        first, end = cluster.beginnings(self._topic), cluster.ends(self._topic)
        is_same = cluster.identity(self._topic) == self._identity
        is_recent = not self._has_paused()
        if not (
            self._offsets and is_same and is_recent and _lies_within(self._offsets, first, end)
        ):
            self.ready.clear()
            self._identity = cluster.identity(self._topic)
            self._offsets = self._consumer.begin(cluster)
        self._offsets = first | self._offsets  # a partition may have been added
        self._read_at, checked_at = time.time(), time.monotonic()
        for batch in cluster.follow(self._topic, self._offsets):
            if self._has_paused():
                return
            self._read_at = time.time()
            if self._stop_event.is_set() or not self._take(batch, cluster, end):
                return
            if time.monotonic() - checked_at > self._times.partitions:
                checked_at = time.monotonic()
                if cluster.refresh_partitions(self._topic) != sorted(self._offsets):
                    return
                if cluster.identity(self._topic) != self._identity:
                    return

    def _has_paused(self) -> bool:
        """The monotonic clock of Linux stands still while the machine sleeps."""
        return time.time() - self._read_at > self._times.max_pause

    def _take(self, batch: Sequence[StoredMessage], cluster: TopicReader, end: Offsets) -> bool:
        """False if the topic was deleted and created again."""
        if batch:
            self._consumer.take(batch)
        positions = cluster.positions(self._topic)
        if any(positions[partition] < offset for partition, offset in self._offsets.items()):
            self._offsets = {}
            return False
        self._offsets = positions
        is_news = bool(batch or self.error)
        self.error = ""
        if not self.ready.is_set() and all(
            positions[partition] >= offset for partition, offset in end.items()
        ):
            self._consumer.finish()
            self.ready.set()
            is_news = True
        if is_news:
            self._on_change()
        return True

    def _set_error(self, why: str) -> None:
        if self.error != why:
            is_expected = self.missing and self._topic == self._config.topics.labels
            if not is_expected:  # the first label makes that topic
                log.warning("%s: %s", self._topic, why)
            self.error = why
            self._on_change()


def _lies_within(offsets: Offsets, first: Offsets, end: Offsets) -> bool:
    """Whether the topic may be the same that was read to these offsets."""
    return offsets.keys() <= end.keys() and all(first[p] <= offsets[p] <= end[p] for p in offsets)


class TopicMirror(Generic[StateT]):
    """Thread-safe."""

    def __init__(self, topic: str, reducer: Callable[[], TopicReducer[StateT]]) -> None:
        self._topic, self._new_reducer, self._lock = topic, reducer, Lock()
        self._reducer = reducer()

    def begin(self, cluster: TopicReader) -> Offsets:
        with self._lock:
            self._reducer = self._new_reducer()
        return cluster.beginnings(self._topic)

    def take(self, batch: Sequence[StoredMessage]) -> None:
        with self._lock:
            self._reducer.apply(batch)

    def finish(self) -> None:
        with self._lock:
            self._reducer.finish()

    def state(self) -> StateT:
        """The same object until another record takes effect."""
        with self._lock:
            return self._reducer.snapshot()


class TopicMirrors:
    def __init__(self, config: Config, period: Period, on_change: Callable[..., None]) -> None:
        """`on_change` is called with the parts of the desk that have changed."""
        self._topics, limits = config.topics, config.limits
        seeds, labels = self._topics.seeds, self._topics.labels
        self._control = TopicMirror(seeds, lambda: ControlReducer(limits, MAX_CONTROL_BYTES))
        self._labels = TopicMirror(labels, lambda: LabelReducer(limits))
        # a post that is deleted is no more asked about
        self.matches = MatchMirror(config, period, lambda: on_change("labels"))

        def follower(topic: str, consumer: TopicConsumer, *parts: str) -> TopicFollower:
            return TopicFollower(config, topic, consumer, lambda: on_change(*parts))

        self.seeds_follower = follower(seeds, self._control, "seeds", "events")
        self.labels_follower = follower(labels, self._labels, "labels")
        self.matches_follower = follower(self._topics.matches, self.matches, "matches")

    @property
    def control(self) -> ControlState:
        return self._control.state()

    @property
    def labels(self) -> LabelState:
        return self._labels.state()

    def has_matches(self) -> bool:
        """Whether those of the day, or of the whole file, are read; raises if they cannot be."""
        follower = self.matches_follower
        if follower.error not in ("", NOT_READ):
            raise BrokerError(follower.error)
        return follower.has_read(self.matches.period.matches_end)

    def unread(self) -> dict[str, str]:
        """The topics that cannot be read, and why."""
        labels = self.labels_follower
        errors = {
            self._topics.matches: self.matches_follower.error,
            self._topics.seeds: self.seeds_follower.error,
            self._topics.labels: "" if labels.missing else labels.error,  # the first label makes it
        }
        return {topic: error for topic, error in errors.items() if error not in ("", NOT_READ)}

    def catch_up(self, cluster: TopicReader) -> None:
        """Returns once the states of seeds and labels hold what the topics hold now."""
        for follower, topic in (
            (self.seeds_follower, self._topics.seeds),
            (self.labels_follower, self._topics.labels),
        ):
            if follower is self.seeds_follower or cluster.exists(topic):
                cluster.partitions(topic)
                follower.wait_until(cluster.ends(topic))

    def require_current(self) -> None:
        """Raises if a topic cannot be read; the topic of labels may be missing."""
        if why := self.seeds_follower.error:
            raise BrokerError(why)
        if (why := self.labels_follower.error) and not self.labels_follower.missing:
            raise BrokerError(why)

    def start(self) -> None:
        for follower in (self.seeds_follower, self.labels_follower, self.matches_follower):
            follower.start()

    def stop(self) -> None:
        for follower in (self.seeds_follower, self.labels_follower, self.matches_follower):
            follower.stop()
