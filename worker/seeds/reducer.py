"""The state of a topic in which the latest record of each key counts."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

# After such a pause a compacted topic may lack tombstones: Kafka holds them for a day by default.
MAX_READ_PAUSE_S = 12 * 3600.0


class TopicRecord(Protocol):
    """A record as any of the Kafka clients returns it."""

    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


class TopicState(Protocol):
    """A topic at one moment; immutable."""

    @property
    def offsets(self) -> Mapping[int, int]: ...
    @property
    def version(self) -> str: ...


StateT = TypeVar("StateT", bound=TopicState)


class TopicReducer(ABC, Generic[StateT]):
    """Applies records in the order of their offsets; the cost of a record is constant."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}  # offsets by partition
        self._left_out = self._unreadable = 0
        self._complete = False
        self._last: StateT | None = None

    def apply(self, records: Iterable[TopicRecord]) -> None:
        """A record that was applied before has no effect."""
        for record in records:
            if record.offset >= self._next.get(record.partition, 0):
                self._next[record.partition] = record.offset + 1
                self._put(record)
                self._last = None

    def skip(self, records: int) -> None:
        """Counts the records of an unreadable batch."""
        self._unreadable += records
        self._last = None

    def finish(self) -> None:
        """The topic was read to the end that it had at the start."""
        if not self._complete:
            self._complete, self._last = True, None

    def snapshot(self) -> StateT:
        """The same object until a record changes the state."""
        if self._last is None:
            self._last = self._state(MappingProxyType(self._next.copy()))
        return self._last

    @abstractmethod
    def _put(self, record: TopicRecord) -> None: ...

    @abstractmethod
    def _state(self, offsets: Mapping[int, int]) -> StateT: ...
