"""A feed that a desk follows by a thread of its own, as `newsift seeds follow` does."""

import logging
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec

from encoder.errors import InputError, NewsiftError
from worker.actions.offline import present
from worker.actions.seeds.fetch import Bounds, web_address
from worker.actions.seeds.polite import PoliteWeb
from worker.actions.seeds.round import Follower, Plan
from worker.actions.seeds.tour import Tour, default_state_of, stored
from worker.actions.times import seconds
from worker.actions.told import listening
from worker.config import Config
from worker.posts.times import rfc3339
from worker.seeds.values import event_in
from worker.sources.followed import Followed

TOLD = 20  # lines, and seeds, that are kept of each
LONGEST = 2_048  # characters of an address
EVERY_S = 900.0
ARTICLES = 20  # that are read at a time
AGAIN_S = 30.0  # before a feed that another command follows is tried again
STOP_S = 5.0  # that whoever stops a feed waits for it
OPEN = Bounds()
log = logging.getLogger("newsift.desk")


class Wish(msgspec.Struct, frozen=True):
    """A feed that somebody wants followed."""

    feed: str
    event: str | None
    keep: str  # 14d
    by: str

    def plan(self) -> Plan:
        """What is wanted of it; refused where that is no address, no event's name or no span."""
        if len(self.feed) > LONGEST:
            raise InputError(f"feed: {len(self.feed)} characters, {LONGEST} are allowed")
        web_address(self.feed)
        event_in({"event": self.event})
        return Plan(self.event or None, round(seconds(self.keep, "keep") * 1000), ARTICLES)


class OverError(Exception):
    """The feed is not to be followed any more."""


class FollowedFeed:
    """One feed, its thread, and what came of it."""

    def __init__(self, wish: Wish, config: Config, moved: Callable[[], None]) -> None:
        self.wish, self._config, self._moved = wish, config, moved
        self._over = Event()
        self._thread = Thread(target=self._run, name="desk-feed", daemon=True)
        self._followed: Followed | None = None
        self._state, self._why = "begins", ""
        self._told: deque[tuple[str, str]] = deque(maxlen=TOLD)
        self._seeds: deque[str] = deque(maxlen=TOLD)

    def start(self) -> None:
        """Begin to follow it."""
        self._thread.start()

    def stop(self) -> None:
        """Follow it no more; what is under way ends at its next step."""
        self._over.set()

    def wait(self) -> None:
        """Wait a little until it has ended."""
        self._thread.join(STOP_S)

    def row(self) -> dict[str, Any]:
        """What is shown of it."""
        known = self._followed
        articles = list(known.articles.values()) if known else []
        return {
            **msgspec.to_builtins(self.wish),
            "state": self._state,
            "why": self._why,
            "last": rfc3339(known.seen) if known and known.seen else None,
            "again": rfc3339(known.wait_until) if known and known.wait_until else None,
            "articles": len(articles),
            "of_them_seeds": sum(each.seed is not None for each in articles),
            "told": [{"at": at, "said": said} for at, said in list(self._told)[::-1]],
            "seeds": list(self._seeds)[::-1],
        }

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._follow(default_state_of(self.wish.feed, self._config))
        except OverError:
            self._now("stopped")
        except NewsiftError as error:
            self._now("ended", str(error))
        except Exception as error:
            log.exception("%s is not followed any more", self.wish.feed)
            self._now("ended", f"{type(error).__name__}: {error}")

    def _follow(self, file: Path) -> None:
        with ExitStack() as held:
            try:
                followed, store = held.enter_context(stored(self.wish.feed, file, dry=False))
            except InputError as error:
                self._now("elsewhere", str(error))
                self._sleep(AGAIN_S)
                return
            self._followed = followed
            web = PoliteWeb(OPEN, sleep=self._sleep)
            plan = self.wish.plan()
            follower = Follower(web, followed, plan, self._config, store, self._seeds.append)
            self._go(Tour(follower, EVERY_S, once=False))

    def _go(self, tour: Tour) -> None:
        while True:
            self._now("asking")
            with listening() as told:
                try:
                    tour.round()
                finally:
                    now = present()
                    self._told.extend((now, line) for line in told)
            self._now("waiting")
            self._sleep(EVERY_S)

    def _sleep(self, seconds: float) -> None:
        if self._over.wait(seconds):
            raise OverError

    def _now(self, state: str, why: str = "") -> None:
        self._state, self._why = state, why
        self._moved()
