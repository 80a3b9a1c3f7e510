"""A feed that is followed: round after round, with what is known of it kept in a file."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from encoder.errors import InputError
from encoder.support.files import read_regular, state_folder, write_atomically
from worker.actions.seeds.polite import StatusError, for_now
from worker.actions.seeds.round import Follower
from worker.actions.told import say, tallied
from worker.config import Config
from worker.errors import RunError
from worker.seeds.record import digest
from worker.sources.followed import Followed, read_followed
from worker.sources.state import locked

LARGEST_STATE = 2**27
LONGEST_BACKOFF = 6 * 3600.0
MOST_FAILURES = 16  # that still lengthen the pause
GONE = 410


@dataclass(slots=True)
class Tour:
    """Round after round, or one; a feed or a broker that is away is told of and tried again."""

    follower: Follower
    every: float
    once: bool
    _begun: bool = False  # the feed has answered
    _told: set[str] = field(default_factory=set)  # what failed, for as long as it is the same

    def go(self) -> None:
        """Go on until somebody ends it."""
        self.round()
        while not self.once:
            time.sleep(self.every)
            self.round()

    def round(self) -> None:
        """Ask the feed if it is time, and read the articles that are due."""
        followed = self.follower.followed
        if (left := followed.wait_until / 1000 - time.time()) <= 0:
            self._look(followed)
        elif self.once:
            say(f"the feed is not asked now: it wants to be left alone for {left:,.0f} s more")
        try:
            if found := self.follower.read():
                say(tallied(found))
                self._told.clear()
        except RunError as error:
            if self.once:
                raise
            self._tell(str(error))

    def _look(self, followed: Followed) -> None:
        try:
            self.follower.look()
        except InputError as error:
            self._failed(error, followed)
        else:
            if followed.failures:
                say("the feed answers again")
                self._told.clear()
            followed.failures, self._begun = 0, True
            followed.wait_until = round((time.time() + followed.interval) * 1000)
        self.follower.store()

    def _failed(self, error: InputError, followed: Followed) -> None:
        """Tell of a feed that cannot be read, and stay away for longer each time."""
        wait = error.wait if isinstance(error, StatusError) else 0.0
        if not self.once:
            wait = max(wait, min(self.every * 2**followed.failures, LONGEST_BACKOFF))
        followed.failures = min(followed.failures + 1, MOST_FAILURES)
        followed.wait_until = round((time.time() + wait) * 1000)
        if isinstance(error, StatusError) and error.status == GONE:
            raise RunError(f"{error}: the feed is gone for good; follow another") from error
        if not for_now(error) and (self.once or not self._begun):
            raise error
        if self.once:
            self.follower.store()
            raise RunError(str(error)) from error
        self._tell(str(error))

    def _tell(self, said: str) -> None:
        if said not in self._told:
            self._told.add(said)
            say(f"{said}; tried again")


@contextmanager
def stored(feed: str, file: Path, dry: bool) -> Iterator[tuple[Followed, Callable[[], None]]]:
    """What is known of a feed, and what keeps it; nobody else follows it by this file meanwhile."""
    lock = -1 if dry else locked(file)
    try:
        followed = _read(feed, file)
        yield followed, lambda: None if dry else _write(file, followed)
    finally:
        if lock >= 0:
            os.close(lock)


def _read(feed: str, file: Path) -> Followed:
    try:
        content = read_regular(file, LARGEST_STATE)
    except FileNotFoundError:
        return Followed(feed, feed)
    except OSError as error:
        raise InputError(f"--state: {file} cannot be read ({error.strerror})") from error
    found = read_followed(content, f"--state: {file}")
    if found.feed != feed:
        raise InputError(f"--state: {file} is of {found.feed}; give each feed a file of its own")
    return found


def _write(file: Path, followed: Followed) -> None:
    write_atomically(file, msgspec.json.encode(followed), 0o600)


def default_state_of(feed: str, config: Config) -> Path:
    """A file for this feed and this control topic."""
    told = [feed, config.kafka.bootstrap_servers, config.topics.seeds]
    return state_folder() / f"follow-{urlsplit(feed).hostname}-{digest(told)[:12]}.json"
