"""What is known of people's doing: seeds and profiles, and labels, as the topics have them now."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from types import MappingProxyType

from worker.actions.events.event import Values, values_of
from worker.actions.keyed import Latest, later
from worker.config import Config
from worker.desk.following import Following
from worker.judge.labels import Label, LabelBook, RefusedLabel
from worker.kafka.reading import Offsets, StoredMessage, TopicReader
from worker.seeds.set import SeedBook

ROOM = 2**28  # bytes that the records of the control topic may take together
OVERHEAD = 512  # of them for a record beside its own


@dataclass(frozen=True)
class Control:
    """The control topic at one moment; the version differs whenever the records do."""

    version: int
    latest: Latest
    book: SeedBook
    left_out: int  # records that there was no room for

    @cached_property
    def values(self) -> Values:
        """The values of the latest records that delete nothing."""
        return MappingProxyType(dict(values_of(self.latest)))


@dataclass(frozen=True)
class Judged:
    """The topic of labels at one moment; the version differs whenever the labels do."""

    version: int
    book: LabelBook

    @cached_property
    def by_event(self) -> Mapping[str, tuple[Label, ...]]:
        """The labels of each event, by its name."""
        return MappingProxyType(self.book.by_event())

    @cached_property
    def refused(self) -> tuple[RefusedLabel, ...]:
        """The labels that cannot be used."""
        return self.book.refused

    def of(self, event: str) -> tuple[Label, ...]:
        """The labels on the posts of an event."""
        return self.by_event.get(event, ())


class ControlRecords:
    """Follows the control topic."""

    def __init__(self, config: Config, room: int = ROOM) -> None:
        self._config, self._most, self._lock = config, room, Lock()
        self._version = 0
        self._made: Control | None = None
        self._forget()

    def begin(self, cluster: TopicReader) -> Offsets:
        """Forget everything, and read from the start."""
        with self._lock:
            self._forget()
        return cluster.beginnings(self._config.topics.seeds)

    def take(self, batch: Sequence[StoredMessage]) -> None:
        """Let records take effect, the later of each key."""
        with self._lock:
            for record in batch:
                self._take(record)
            self._version += 1

    def now(self) -> Control:
        """All that is known at this moment."""
        with self._lock:
            if self._made is None or self._made.version != self._version:
                told = dict(self._latest), self._book.copied(), self._left_out
                self._made = Control(self._version, *told)
            return self._made

    def _take(self, record: StoredMessage) -> None:
        old = self._latest.get(record.key)
        if old is not None and not later(record, old):
            return
        self._latest.pop(record.key, None)
        self._room += _size(old)
        fits = _size(record) <= self._room
        self._book.apply(record.key, record.value if fits else None)
        if not fits:
            self._left_out += 1
            return
        self._room -= _size(record)
        self._latest[record.key] = record

    def _forget(self) -> None:
        self._latest: Latest = {}
        self._book = SeedBook(self._config.limits)
        self._room, self._left_out = self._most, 0
        self._version += 1


class LabelRecords:
    """Follows the topic of labels."""

    def __init__(self, config: Config) -> None:
        self._config, self._lock = config, Lock()
        self._version = 0
        self._made: Judged | None = None
        self._forget()

    def begin(self, cluster: TopicReader) -> Offsets:
        """Forget everything, and read from the start."""
        with self._lock:
            self._forget()
        return cluster.beginnings(self._config.topics.labels)

    def take(self, batch: Sequence[StoredMessage]) -> None:
        """Let labels take effect."""
        with self._lock:
            for record in batch:
                self._book.apply(record.key, record.value)
            self._version += 1

    def now(self) -> Judged:
        """All that is known at this moment."""
        with self._lock:
            if self._made is None or self._made.version != self._version:
                self._made = Judged(self._version, self._book.copied())
            return self._made

    def _forget(self) -> None:
        self._book = LabelBook(self._config.limits)
        self._version += 1


class Known:
    """Both topics, followed while the desk is open; what it gives never changes any more."""

    def __init__(self, config: Config, moved: Callable[..., None]) -> None:
        """`moved` is told which parts of the desk have changed."""
        self._control, self._labels = ControlRecords(config), LabelRecords(config)
        topics = config.topics
        self.of_seeds = Following(
            config, topics.seeds, self._control, lambda: moved("seeds", "events")
        )
        self.of_labels = Following(config, topics.labels, self._labels, lambda: moved("labels"))

    @property
    def control(self) -> Control:
        """The control topic as it is now."""
        return self._control.now()

    @property
    def labels(self) -> Judged:
        """The labels as they are now."""
        return self._labels.now()

    def start(self) -> None:
        """Begin to follow."""
        self.of_seeds.start()
        self.of_labels.start()

    def stop(self) -> None:
        """Follow no more; harmless if it never began."""
        self.of_seeds.stop()
        self.of_labels.stop()


def _size(record: StoredMessage | None) -> int:
    if record is None:
        return 0
    return OVERHEAD + len(record.key or b"") + len(record.value or b"")
