"""The feeds that a desk follows: remembered, so that they go on when it is opened again."""

import logging
import os
from collections.abc import Callable
from threading import Lock
from typing import Any

import msgspec

from encoder.errors import InputError
from encoder.support.files import read_regular, state_folder, write_atomically
from worker.actions.seeds.tour import default_state_of
from worker.config import Config
from worker.desk.keeping.feed import FollowedFeed, Wish
from worker.seeds.record import digest
from worker.sources.state import locked

MOST = 50  # feeds
LARGEST = 2**20  # bytes of the file that names them
log = logging.getLogger("newsift.desk")


class Feeds:
    """All feeds that are followed; they are remembered, and go on when the desk is opened again."""

    def __init__(self, config: Config, moved: Callable[[], None]) -> None:
        self._config, self._moved, self._lock = config, moved, Lock()
        self._feeds: dict[str, FollowedFeed] = {}
        self.looking = Lock()  # at one that is not followed: its site may take minutes
        told = [config.kafka.bootstrap_servers, config.topics.seeds]
        self._file = state_folder() / f"desk-feeds-{digest(told)[:12]}.json"

    def start(self) -> None:
        """Go on with those that are remembered."""
        try:
            for wish in self._remembered():
                self._begin(wish)
        except InputError as error:
            log.warning("%s", error)

    def stop(self) -> None:
        """Follow none any more, till the desk is opened again."""
        for feed in list(self._feeds.values()):
            feed.stop()

    def rows(self) -> list[dict[str, Any]]:
        """What is shown of them."""
        with self._lock:
            return [feed.row() for feed in self._feeds.values()]

    def follow(self, wish: Wish) -> None:
        """Follow one more, from now on."""
        wish.plan()
        with self._lock:
            if wish.feed in self._feeds:
                raise InputError(f"{wish.feed}: is followed already; stop that first")
            if len(self._feeds) >= MOST:
                raise InputError(f"{MOST} feeds are followed; stop one first")
            os.close(locked(default_state_of(wish.feed, self._config)))
            self._remember(lambda known: [*known, wish])
            self._begin(wish)
        self._moved()

    def end(self, feed: str) -> None:
        """Follow one no more, and forget that it was; what is known of it stays in its file."""
        with self._lock:
            found = self._feeds.get(feed)
            if found is None:
                raise InputError(f"{feed}: is not followed")
            self._remember(lambda known: [wish for wish in known if wish.feed != feed])
            del self._feeds[feed]
        found.stop()
        found.wait()
        self._moved()

    def _begin(self, wish: Wish) -> None:
        self._feeds[wish.feed] = FollowedFeed(wish, self._config, self._moved)
        self._feeds[wish.feed].start()

    def _remember(self, change: Callable[[list[Wish]], list[Wish]]) -> None:
        """Change what is remembered, of which another desk may remember more."""
        lock = locked(self._file)
        try:
            wishes = change(self._remembered())
            write_atomically(self._file, msgspec.json.encode(wishes), 0o600)
        finally:
            os.close(lock)

    def _remembered(self) -> list[Wish]:
        try:
            content = read_regular(self._file, LARGEST)
            return msgspec.json.decode(content, type=list[Wish])[:MOST]
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            said = getattr(error, "strerror", None) or error
            raise InputError(
                f"{self._file}: names no feeds ({said}); move it away, and follow them anew"
            ) from None
