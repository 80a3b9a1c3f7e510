"""Feeds that the desk follows, each by a thread, remembered for when it is opened again."""

import logging
import os
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import msgspec

from encoder.errors import InputError, NewsiftError
from encoder.support.files import read_regular, state_folder, write_atomically
from newsift.collect.feeds import Followed
from newsift.collect.state import lock_state
from newsift.operations.feeds import (
    Follower,
    FollowLoop,
    FollowOptions,
    default_feed_state,
    feed_state,
)
from newsift.operations.messages import capture
from newsift.operations.times import present, seconds
from newsift.web.client import Bounds, web_address
from newsift.web.polite import PoliteWeb
from worker.config import Config
from worker.posts.times import rfc3339
from worker.seeds.record import digest, event_in

MOST_LINES = 20  # lines, and seeds, that are kept of each
LONGEST = 2_048  # characters of an address
EVERY_S = 900.0
ARTICLES = 20  # that are read at a time
AGAIN_S = 30.0  # before a feed that another command follows is tried again
STOP_S = 5.0  # that whoever stops a feed waits for it
OPEN = Bounds()
log = logging.getLogger("newsift.desk")
MOST = 50  # feeds
LARGEST = 2**20  # bytes of the file that names them


class FeedSubscription(msgspec.Struct, frozen=True):
    """A feed that somebody wants followed."""

    feed: str
    event: str | None
    keep: str  # 14d
    by: str

    def plan(self) -> FollowOptions:
        """What is wanted of it; refused where that is no address, no event's name or no span."""
        if len(self.feed) > LONGEST:
            raise InputError(f"feed: {len(self.feed)} characters, {LONGEST} are allowed")
        web_address(self.feed)
        event_in({"event": self.event})
        return FollowOptions(self.event or None, round(seconds(self.keep, "keep") * 1000), ARTICLES)


class OverError(Exception):
    """The feed is not to be followed any more."""


class FollowedFeed:
    """One feed, its thread, and what came of it."""

    def __init__(
        self, subscription: FeedSubscription, config: Config, moved: Callable[[], None]
    ) -> None:
        self.subscription, self._config, self._moved = subscription, config, moved
        self._over = Event()
        self._thread = Thread(target=self._run, name="desk-feed", daemon=True)
        self._followed: Followed | None = None
        self._state, self._why = "begins", ""
        self._messages: deque[tuple[str, str]] = deque(maxlen=MOST_LINES)
        self._seeds: deque[str] = deque(maxlen=MOST_LINES)

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
        followed = self._followed
        articles = list(followed.articles.values()) if followed else []
        return {
            **msgspec.to_builtins(self.subscription),
            "state": self._state,
            "why": self._why,
            "last": rfc3339(followed.seen) if followed and followed.seen else None,
            "again": rfc3339(followed.wait_until) if followed and followed.wait_until else None,
            "articles": len(articles),
            "of_them_seeds": sum(each.seed is not None for each in articles),
            "told": [{"at": at, "said": text} for at, text in list(self._messages)[::-1]],
            "seeds": list(self._seeds)[::-1],
        }

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._follow(default_feed_state(self.subscription.feed, self._config))
        except OverError:
            self._now("stopped")
        except NewsiftError as error:
            self._now("ended", str(error))
        except Exception as error:
            log.exception("%s is not followed any more", self.subscription.feed)
            self._now("ended", f"{type(error).__name__}: {error}")

    def _follow(self, file: Path) -> None:
        with ExitStack() as held:
            try:
                followed, store = held.enter_context(
                    feed_state(self.subscription.feed, file, dry=False)
                )
            except InputError as error:
                self._now("elsewhere", str(error))
                self._sleep(AGAIN_S)
                return
            self._followed = followed
            web = PoliteWeb(OPEN, sleep=self._sleep)
            plan = self.subscription.plan()
            follower = Follower(web, followed, plan, self._config, store, self._seeds.append)
            self._go(FollowLoop(follower, EVERY_S, once=False))

    def _go(self, tour: FollowLoop) -> None:
        while True:
            self._now("asking")
            with capture() as messages:
                try:
                    tour.round()
                finally:
                    now = present()
                    self._messages.extend((now, line) for line in messages)
            self._now("waiting")
            self._sleep(EVERY_S)

    def _sleep(self, seconds: float) -> None:
        if self._over.wait(seconds):
            raise OverError

    def _now(self, state: str, why: str = "") -> None:
        self._state, self._why = state, why
        self._moved()


class Feeds:
    """All feeds that are followed; they are remembered, and go on when the desk is opened again."""

    def __init__(self, config: Config, moved: Callable[[], None]) -> None:
        self._config, self._moved, self._lock = config, moved, Lock()
        self._feeds: dict[str, FollowedFeed] = {}
        self.looking = Lock()  # at one that is not followed: its site may take minutes
        identity = [config.kafka.bootstrap_servers, config.topics.seeds]
        self._file = state_folder() / f"desk-feeds-{digest(identity)[:12]}.json"

    def start(self) -> None:
        """Go on with those that are remembered."""
        try:
            for subscription in self._remembered():
                self._begin(subscription)
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

    def follow(self, subscription: FeedSubscription) -> None:
        """Follow one more, from now on."""
        subscription.plan()
        with self._lock:
            if subscription.feed in self._feeds:
                raise InputError(f"{subscription.feed}: is followed already; stop that first")
            if len(self._feeds) >= MOST:
                raise InputError(f"{MOST} feeds are followed; stop one first")
            os.close(lock_state(default_feed_state(subscription.feed, self._config)))
            self._remember(lambda subscriptions: [*subscriptions, subscription])
            self._begin(subscription)
        self._moved()

    def end(self, feed: str) -> None:
        """Follow one no more, and forget that it was; what is known of it stays in its file."""
        with self._lock:
            followed = self._feeds.get(feed)
            if followed is None:
                raise InputError(f"{feed}: is not followed")
            self._remember(
                lambda subscriptions: [
                    subscription for subscription in subscriptions if subscription.feed != feed
                ]
            )
            del self._feeds[feed]
        followed.stop()
        followed.wait()
        self._moved()

    def _begin(self, subscription: FeedSubscription) -> None:
        self._feeds[subscription.feed] = FollowedFeed(subscription, self._config, self._moved)
        self._feeds[subscription.feed].start()

    def _remember(self, change: Callable[[list[FeedSubscription]], list[FeedSubscription]]) -> None:
        """Change what is remembered, of which another desk may remember more."""
        lock = lock_state(self._file)
        try:
            subscriptions = change(self._remembered())
            write_atomically(self._file, msgspec.json.encode(subscriptions), 0o600)
        finally:
            os.close(lock)

    def _remembered(self) -> list[FeedSubscription]:
        try:
            content = read_regular(self._file, LARGEST)
            return msgspec.json.decode(content, type=list[FeedSubscription])[:MOST]
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"{self._file}: names no feeds ({reason}); move it away, and follow them anew"
            ) from None
