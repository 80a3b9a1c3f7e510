"""What is exported at a time: one file for each user and few for all, and what was counted."""

import io
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import BoundedSemaphore, Lock
from typing import IO

from encoder.errors import InputError
from worker.config import Config
from worker.desk.export.asked import Asked
from worker.desk.export.tally import Tally, tallied_event
from worker.kafka.reading import Offsets, TopicReader

MOST_FILES = 2
MOST_COUNTS = 2  # that are under way or waited for: whoever counts keeps one of the desk's hands
KEPT = 8  # tallies
FRESH_S = 30.0  # for so long a page's figures are of one count, whatever comes meanwhile


@dataclass(frozen=True, slots=True)
class Counted:
    """A tally, and of what: it holds while the topic stands, and for a moment in any case."""

    tally: Tally
    span: tuple[Offsets, Offsets]
    at: float

    def holds(self, span: tuple[Offsets, Offsets]) -> bool:
        """Whether it can be shown for what the topic holds now."""
        return span == self.span or time.monotonic() - self.at < FRESH_S


class Exports:
    """Turns at files, and the latest tallies, so that a page's figures are counted once."""

    def __init__(self) -> None:
        self._lock, self._counting = Lock(), Lock()
        self._users: set[str] = set()
        self._counts = BoundedSemaphore(MOST_COUNTS)
        self._kept: OrderedDict[Asked, Counted] = OrderedDict()

    def file(self, by: str, make: Callable[[], IO[bytes]]) -> IO[bytes]:
        """A file that somebody asked for, as long as he has no other under way."""
        with self._lock:
            if by in self._users:
                raise InputError("export: one is under way for you; wait for its end")
            if len(self._users) >= MOST_FILES:
                raise InputError(f"export: {MOST_FILES} are under way; wait for the end of one")
            self._users.add(by)
        try:
            return _Lent(make(), lambda: self._given_back(by))
        except BaseException:
            self._given_back(by)
            raise

    def tally(self, cluster: TopicReader, config: Config, asked: Asked) -> Tally:
        """The matches that are meant, counted; anew only if the topic has changed."""
        cluster.partitions(config.topics.matches)
        span = asked.span(cluster, config.topics.matches)
        if found := self._known(asked, span):
            return found
        if not self._counts.acquire(blocking=False):
            raise InputError("export: other events are being counted; try again in a moment")
        try:
            with self._counting:
                return self._known(asked, span) or self._counted(cluster, config, asked, span)
        finally:
            self._counts.release()

    def _known(self, asked: Asked, span: tuple[Offsets, Offsets]) -> Tally | None:
        found = self._kept.get(asked)
        return found.tally if found and found.holds(span) else None

    def _counted(
        self, cluster: TopicReader, config: Config, asked: Asked, span: tuple[Offsets, Offsets]
    ) -> Tally:
        tally = tallied_event(cluster, config, asked)
        with self._lock:
            self._kept.pop(asked, None)
            self._kept[asked] = Counted(tally, span, time.monotonic())
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return tally

    def _given_back(self, by: str) -> None:
        with self._lock:
            self._users.discard(by)


class _Lent(io.BufferedReader):
    """A file that tells when it is closed."""

    def __init__(self, content: IO[bytes], closed: Callable[[], None]) -> None:
        super().__init__(io.FileIO(content.fileno(), closefd=False))
        self._content, self._told = content, closed

    def close(self) -> None:
        """Close it, and say so."""
        super().close()
        self._content.close()
        self._told()
