"""Feeds that the desk follows, each in a thread; their list is stored for the next start."""

import logging
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import msgspec

from encoder.errors import InputError
from encoder.support.files import read_regular, state_folder, write_atomically
from newsift.collect.feeds import FeedState
from newsift.collect.state import lock_state
from newsift.desk.threads import failure_text
from newsift.operations.feeds import (
    Follower,
    FollowOptions,
    default_feed_state,
    feed_state,
)
from newsift.operations.messages import capture
from newsift.operations.times import now_text, parse_seconds
from newsift.web.client import RequestLimits, parse_web_address
from newsift.web.polite import PoliteWeb
from worker.config import Config
from worker.posts.times import rfc3339
from worker.seeds.record import json_digest, parse_event

MAX_LINES = 20  # The page shows the newest messages and seeds of each feed.
MAX_ADDRESS_CHARS = 2_048
FETCH_INTERVAL_S = 900.0
ARTICLES_PER_ROUND = 20
RETRY_S = 30.0  # Another command may follow the feed meanwhile.
MAX_STOP_S = 5.0
PUBLIC_LIMITS = RequestLimits()
log = logging.getLogger("newsift.desk")
MAX_FEEDS = 50
MAX_FILE_BYTES = 2**20


class FeedSubscription(msgspec.Struct, frozen=True):
    feed: str
    event: str | None
    keep: str  # 14d
    by: str

    def options(self) -> FollowOptions:
        """Raises for a field that is not an address, event name or span of time."""
        if len(self.feed) > MAX_ADDRESS_CHARS:
            raise InputError(f"feed: {len(self.feed)} characters, {MAX_ADDRESS_CHARS} are allowed")
        parse_web_address(self.feed)
        parse_event({"event": self.event})
        keep_ms = round(parse_seconds(self.keep, "keep") * 1000)
        return FollowOptions(self.event or None, keep_ms, ARTICLES_PER_ROUND, FETCH_INTERVAL_S)


class StoppedError(Exception):
    pass


class FollowedFeed:
    def __init__(
        self, subscription: FeedSubscription, config: Config, on_change: Callable[[], None]
    ) -> None:
        self.subscription, self._config, self._on_change = subscription, config, on_change
        self._stop_event = Event()
        self._thread = Thread(target=self._run, name="desk-feed", daemon=True)
        self._feed_state: FeedState | None = None
        self._status, self._why = "starting", ""
        self._messages: deque[tuple[str, str]] = deque(maxlen=MAX_LINES)
        self._seeds: deque[str] = deque(maxlen=MAX_LINES)

    def start(self) -> None:
        self._thread.start()

    def stop(self, wait_s: float = 0.0) -> None:
        """Takes effect at the next pause."""
        self._stop_event.set()
        self._thread.join(wait_s)

    def row(self) -> dict[str, Any]:
        state = self._feed_state
        articles = list(state.articles.values()) if state else []
        return {
            **msgspec.to_builtins(self.subscription),
            "state": self._status,
            "why": self._why,
            "last": rfc3339(state.seen_at) if state and state.seen_at else None,
            "again": rfc3339(state.wait_until) if state and state.wait_until else None,
            "articles": len(articles),
            "seed_articles": sum(article.seed is not None for article in articles),
            "messages": [
                {"at": time_text, "text": text} for time_text, text in list(self._messages)[::-1]
            ],
            "seeds": list(self._seeds)[::-1],
        }

    def _run(self) -> None:
        try:
            while not self._stop_event.is_set():
                self._follow(default_feed_state(self.subscription.feed, self._config))
        except StoppedError:
            self._set_status("stopped")
        except Exception as error:  # noqa: BLE001 - it is logged and shown
            what = f"{self.subscription.feed} is not followed any more"
            self._set_status("ended", failure_text(error, what))

    def _follow(self, file: Path) -> None:
        with ExitStack() as stack:
            try:
                state, store = stack.enter_context(
                    feed_state(self.subscription.feed, file, dry=False)
                )
            except InputError as error:
                self._set_status("elsewhere", str(error))
                self._sleep(RETRY_S)
                return
            self._feed_state = state
            web = PoliteWeb(PUBLIC_LIMITS, sleep=self._sleep)
            options = self.subscription.options()
            follower = Follower(web, state, options, self._config, store, self._seeds.append)
            while True:
                self._set_status("reading")
                with capture() as messages:
                    try:
                        follower.run_once()
                    finally:
                        now = now_text()
                        self._messages.extend((now, line) for line in messages)
                self._set_status("waiting")
                self._sleep(FETCH_INTERVAL_S)

    def _sleep(self, seconds: float) -> None:
        if self._stop_event.wait(seconds):
            raise StoppedError

    def _set_status(self, status: str, why: str = "") -> None:
        self._status, self._why = status, why
        self._on_change()


class FeedList:
    def __init__(self, config: Config, on_change: Callable[[], None]) -> None:
        self._config, self._on_change, self._lock = config, on_change, Lock()
        self._feeds: dict[str, FollowedFeed] = {}
        self.previewing = Lock()  # one feed at a time: its site may take minutes
        identity = [config.kafka.bootstrap_servers, config.topics.seeds]
        self._file = state_folder() / f"desk-feeds-{json_digest(identity)[:12]}.json"

    def start(self) -> None:
        try:
            for subscription in self._read_subscriptions():
                self._begin(subscription)
        except InputError as error:
            log.warning("%s", error)

    def stop(self) -> None:
        """The list stays for the next start."""
        for feed in list(self._feeds.values()):
            feed.stop()

    def rows(self) -> list[dict[str, Any]]:
        with self._lock:
            return [feed.row() for feed in self._feeds.values()]

    def follow(self, subscription: FeedSubscription) -> None:
        subscription.options()  # raises for a wrong field
        with self._lock:
            if subscription.feed in self._feeds:
                raise InputError(f"{subscription.feed}: is followed already; stop that first")
            if len(self._feeds) >= MAX_FEEDS:
                raise InputError(f"{MAX_FEEDS} feeds are followed; stop one first")
            with lock_state(default_feed_state(subscription.feed, self._config)):
                pass  # else another command follows it
            self._save(lambda subscriptions: [*subscriptions, subscription])
            self._begin(subscription)
        self._on_change()

    def end(self, feed: str) -> None:
        """The state file of the feed stays."""
        with self._lock:
            followed_feed = self._feeds.get(feed)
            if followed_feed is None:
                raise InputError(f"{feed}: is not followed")
            self._save(lambda subscriptions: [s for s in subscriptions if s.feed != feed])
            del self._feeds[feed]
        followed_feed.stop(MAX_STOP_S)
        self._on_change()

    def _begin(self, subscription: FeedSubscription) -> None:
        feed = FollowedFeed(subscription, self._config, self._on_change)
        self._feeds[subscription.feed] = feed
        feed.start()

    def _save(self, change: Callable[[list[FeedSubscription]], list[FeedSubscription]]) -> None:
        """Other desks change the file too."""
        with lock_state(self._file):
            subscriptions = change(self._read_subscriptions())
            write_atomically(self._file, msgspec.json.encode(subscriptions), 0o600)

    def _read_subscriptions(self) -> list[FeedSubscription]:
        try:
            content = read_regular(self._file, MAX_FILE_BYTES)
            return msgspec.json.decode(content, type=list[FeedSubscription])[:MAX_FEEDS]
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"{self._file}: is not a list of feeds ({reason}); move it away, and follow the "
                "feeds again"
            ) from None
