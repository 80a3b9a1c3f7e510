"""What is exported at a time: one file for each user and few for all, and what was counted."""

import io
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import IO

from encoder.errors import InputError
from worker.config import Config
from worker.desk.export.asked import Asked
from worker.desk.export.tally import Tally, tallied_event
from worker.kafka.reading import TopicReader

MOST_FILES = 3
KEPT = 4  # tallies


class Exports:
    """Turns at files, and the latest tallies, so that a page's figures are counted once."""

    def __init__(self) -> None:
        self._lock, self._counting = Lock(), Lock()
        self._users: set[str] = set()
        self._kept: OrderedDict[tuple[Asked, str], Tally] = OrderedDict()

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
        with self._counting:
            key = asked, str(asked.span(cluster, config.topics.matches))
            found = self._kept.pop(key, None) or tallied_event(cluster, config, asked)
            self._kept[key] = found
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return found

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
