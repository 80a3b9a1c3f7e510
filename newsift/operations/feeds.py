"""Seeds that follow a news feed: each new article becomes a seed."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from encoder.errors import InputError
from encoder.support.files import read_regular, state_folder, write_atomically
from newsift.collect.feeds import (
    FeedState,
    FollowedArticle,
    NewsFeed,
    clean_link,
    link_identity,
    parse_feed_state,
    read_feed,
)
from newsift.collect.state import lock_state
from newsift.files.articles import WebPage, extract_article
from newsift.files.subprocesses import run_in_subprocess
from newsift.operations.messages import format_counts, notify, notify_version
from newsift.operations.seed_drafts import (
    SeedDraft,
    parse_record_object,
    parse_seed,
    seed_id,
    too_many_seeds,
)
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import now_ms
from newsift.web.client import PAGE_HEADERS, PAGE_TYPES
from newsift.web.polite import PoliteWeb, StatusError, is_temporary
from worker.config import Config
from worker.errors import RunError
from worker.kafka.reading import connected
from worker.posts.times import DAY_MS, rfc3339
from worker.seeds.record import PROFILE_PREFIX, Seed, json_digest
from worker.seeds.state import ControlState, table_key
from worker.text import one_line

FEED_MEDIA_TYPES = (
    "application/atom+xml, application/rss+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5"
)
NEW, CORRECTED, UNCHANGED = "new", "corrected", "unchanged"
ALREADY_THERE, REFUSED = "there already", "refused"
MIN_LINGER_MS = 14 * DAY_MS  # Older posts may arrive after a seed has expired.
MAX_REFUSAL_CHARS = 300
MAX_STATE_BYTES = 2**27
MAX_BACKOFF_S = 6 * 3600.0
MAX_BACKOFF_FAILURES = 16
HTTP_GONE = 410

cached_identity = lru_cache(2**17)(link_identity)


class ArticleIndex:
    """The ids, links and versions of seeds; refused ones count, profiles do not."""

    def __init__(self) -> None:
        self.links: set[str] = set()
        self.versions: set[str] = set()
        self._state = ControlState({}, {}, {}, {})
        self._drafts: dict[str, Seed] = {}
        self._refusals: set[bytes] = set()  # keys of seeds

    def __contains__(self, name: str) -> bool:
        if name in self._state.seeds or name in self._drafts:
            return True
        return table_key(name.encode()) in self._refusals

    def __len__(self) -> int:
        return len(self._state.seeds.keys() | self._drafts.keys()) + len(self._refusals)

    def update(self, state: ControlState) -> None:
        if state is self._state:
            return
        self._state, self.links, self.versions = state, set(), set()
        refusals = state.refused.items()
        self._refusals = {key for key, seed in refusals if not seed.id.startswith(PROFILE_PREFIX)}
        for seed in (*state.seeds.values(), *self._drafts.values()):
            self._enter(seed)

    def add(self, seed: Seed) -> None:
        """Adds an article without publishing it, for a dry run."""
        self._drafts[seed.id] = seed
        self._enter(seed)

    def version(self, name: str) -> str | None:
        """None without a valid seed."""
        seed = self._drafts.get(name) or self._state.seeds.get(name)
        return seed.version if seed else None

    def has_ended(self, name: str, before: int) -> bool:
        """Whether the seed had expired by then, and no profile replaces it."""
        seed = self._state.seeds.get(name)
        if seed is None or seed.expires_at is None or seed.expires_at > before:
            return False
        return not any(name in profile.seeds for profile in self._state.profiles.values())

    def _enter(self, seed: Seed) -> None:
        self.versions.add(seed.version)
        if seed.url:
            self.links.add(cached_identity(seed.url))


@dataclass(frozen=True, slots=True)
class FollowOptions:
    event: str | None
    keep: int  # milliseconds that a seed lives from its publication on
    most: int  # new articles a round
    every: float  # seconds between two rounds
    once: bool = False
    dry: bool = False


@dataclass(slots=True)
class Follower:
    """Follows one feed; its state is stored after each article.

    A failure is reported once and tried again.
    """

    web: PoliteWeb
    feed: FeedState
    options: FollowOptions
    config: Config
    store: Callable[[], None]
    show: Callable[[str], object]  # is called with a line for each published seed
    show_refusal: Callable[[str], object] = notify  # with the reason, once for each article
    names_versions: bool = False  # report the version of the control topic after publishing
    index: ArticleIndex = field(default_factory=ArticleIndex)
    _state_published_on: ControlState | None = None  # that the last publication changed
    _topic: SeedTopic | None = None
    _has_answered: bool = False
    _failures: set[str] = field(default_factory=set)  # reported, until something works again

    def run(self) -> None:
        self.run_once()
        while not self.options.once:
            time.sleep(self.options.every)
            self.run_once()

    def run_once(self) -> None:
        if (left := self.feed.wait_until / 1000 - time.time()) <= 0:
            self._try_feed()
        elif self.options.once:
            notify(f"the feed is not read now: it asks for a pause of {left:,.0f} s more")
        try:
            if outcomes := self.read_due_articles():
                notify(f"articles: {format_counts(outcomes)}")
                self._failures.clear()
            if self._state_published_on and self.names_versions:
                notify_version(self._state_published_on)
            self._state_published_on = None
        except RunError as error:
            if self.options.once:
                raise
            self._report_once(str(error))

    def _try_feed(self) -> None:
        try:
            self.fetch_feed()
        except InputError as error:
            self._back_off(error)
        else:
            if self.feed.failures:
                notify("the feed answers again")
                self._failures.clear()
            self.feed.failures, self._has_answered = 0, True
            self.feed.wait_until = round((time.time() + self.feed.interval) * 1000)
        self.store()

    def _back_off(self, error: InputError) -> None:
        """Each failure makes the pause longer."""
        feed, once = self.feed, self.options.once
        wait = error.wait if isinstance(error, StatusError) else 0.0
        if not once:
            wait = max(wait, min(self.options.every * 2**feed.failures, MAX_BACKOFF_S))
        feed.failures = min(feed.failures + 1, MAX_BACKOFF_FAILURES)
        feed.wait_until = round((time.time() + wait) * 1000)
        if isinstance(error, StatusError) and error.status == HTTP_GONE:
            raise RunError(f"{error}: the feed is gone for good; follow another") from error
        if not is_temporary(error) and (once or not self._has_answered):
            raise error
        if once:
            self.store()
            raise RunError(str(error)) from error
        self._report_once(str(error))

    def _report_once(self, message: str) -> None:
        if message not in self._failures:
            self._failures.add(message)
            notify(f"{message}; tried again")

    def fetch_feed(self) -> None:
        conditions = {"If-None-Match": self.feed.etag, "If-Modified-Since": self.feed.last_modified}
        headers = {name: value for name, value in conditions.items() if value is not None}
        answer = self.web.get(
            self.feed.address, PAGE_HEADERS | {"Accept": FEED_MEDIA_TYPES} | headers
        )
        if answer.status != 304:
            kind = answer.headers.get("Content-Type", "")
            content = run_in_subprocess(read_feed, answer.body, answer.url, kind)
            page = msgspec.json.decode(content, type=NewsFeed)
            new = self.feed.note(page.entries, now_ms(), self.options.keep)
            self.feed.etag = answer.headers.get("ETag")
            self.feed.last_modified = answer.headers.get("Last-Modified")
            self.feed.interval = page.interval
            if page.without_link and new:
                notify(f"entries without an address that can be read: {page.without_link:,}")
        if answer.permanent_url != self.feed.address:
            notify(f"the feed has moved for good, to {answer.permanent_url}")
            self.feed.address = answer.permanent_url

    def read_due_articles(self) -> Counter[str]:
        """Publishes them; returns counts of the outcomes."""
        outcomes = Counter[str]()
        due = self.feed.due_articles(now_ms(), self.options.keep, self.options.most)
        before = now_ms() - max(self.options.keep, MIN_LINGER_MS)
        old = self.feed.ended_articles(before, self.options.keep)
        if not (due or old):
            return outcomes
        with connected(self.config) as cluster:
            cluster.partitions(self.config.topics.seeds)
            topic = self._topic = self._topic or SeedTopic(cluster, self.config)
            topic.cluster = cluster
            state = topic.state()
            self.index.update(state)
            self._delete(old, before, topic, state)
            most = self.config.limits.seeds
            if due and len(self.index) >= most:
                raise RunError(too_many_seeds(self.config))
            for article in due:
                if len(self.index) >= most:
                    notify(too_many_seeds(self.config))
                    break
                if not self.web.is_closed(article.link):
                    outcomes[self._read_article(article, topic)] += 1
                    self.store()
        return outcomes

    def _delete(
        self, old: list[FollowedArticle], before: int, topic: SeedTopic, state: ControlState
    ) -> None:
        for article in old:
            if not self._is_ours(article):
                article.leave()
        to_delete = [a for a in old if a.seed and self.index.has_ended(a.seed, before)]
        if self.options.dry or not to_delete:
            return
        keys = [(article.seed or "").encode() for article in to_delete]
        self._publish_records(topic, dict.fromkeys(keys), state)
        for article in to_delete:
            article.leave()
        self.store()
        notify(f"expired seeds deleted: {len(to_delete):,}")

    def _is_ours(self, article: FollowedArticle) -> bool:
        return self.index.version(article.seed or "") == article.version

    def _read_article(self, article: FollowedArticle, topic: SeedTopic) -> str:
        if article.read is None and link_identity(article.link) in self.index.links:
            article.count_attempt(now_ms())
            article.leave()
            return ALREADY_THERE
        try:
            content = self._read_page(article)
            state = topic.state()  # again, because reading the page took time
            self.index.update(state)
            outcome = self._publish(article, content, topic, state)
        except InputError as error:
            article.count_attempt(now_ms(), failing=is_temporary(error))
            reason = str(error)[:MAX_REFUSAL_CHARS]
            if article.refusal != reason:
                article.refusal = reason
                self.show_refusal(f"no seed: {error}")
            return REFUSED
        article.count_attempt(now_ms())
        return outcome

    def _read_page(self, article: FollowedArticle) -> dict[str, Any]:
        answer = self.web.get(article.link)
        kind = answer.content_type.get_content_type()
        if kind not in PAGE_TYPES:
            raise InputError(f"{answer.url}: is {one_line(kind)}, not text")
        page = extract_article(
            WebPage(answer.url, answer.body, answer.content_type.get_content_charset())
        )
        text = page.require_seed(answer.url).text
        return {"text": text, "title": page.title or article.title, "url": clean_link(answer.url)}

    def _publish(
        self, article: FollowedArticle, content: dict[str, Any], topic: SeedTopic,
        state: ControlState,
    ) -> str:  # fmt: skip
        """People's changes of a seed stay."""
        ends = rfc3339(article.published_at + self.options.keep)
        record = content | {"event": self.options.event, "expires_at": ends}
        identity = link_identity(content["url"])
        name = article.seed or seed_id(content["title"], content["url"])
        if article.seed is None and name in self.index:  # two articles may have one title
            name = f"{name}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
        draft, outcome = SeedDraft(name, record, article.link), NEW
        seed = parse_seed(draft, self.config)
        if seed.version == article.version:
            return UNCHANGED
        if article.seed is not None:
            if not self._is_ours(article):
                article.leave()
                return UNCHANGED
            latest = parse_record_object(name, state.value(name.encode()))
            draft, outcome = replace(draft, record=latest | content), CORRECTED
            seed = parse_seed(draft, self.config)
        elif seed.version in self.index.versions or identity in self.index.links:
            article.leave()
            return ALREADY_THERE
        if self.options.dry:
            self.index.add(seed)
        else:
            self._publish_records(topic, {draft.key: draft.value}, state)
        article.seed, article.version = seed.id, seed.version
        would = "would be " if self.options.dry else ""
        self.show(f"{one_line(seed.id)}  {seed.version}  {would}{outcome}  {one_line(seed.title)}")
        return outcome

    def _publish_records(
        self, topic: SeedTopic, values: dict[bytes, bytes | None], state: ControlState
    ) -> None:
        topic.publish(values, state)
        self._state_published_on = state
        self.index.update(topic.state())


@contextmanager
def feed_state(feed: str, file: Path, dry: bool) -> Iterator[tuple[FeedState, Callable[[], None]]]:
    """The stored state and a function that stores it; locked for other processes."""
    with nullcontext() if dry else lock_state(file):
        state = _read_state(feed, file)

        def store() -> None:
            if not dry:
                write_atomically(file, msgspec.json.encode(state), 0o600)

        yield state, store


def _read_state(feed: str, file: Path) -> FeedState:
    try:
        content = read_regular(file, MAX_STATE_BYTES)
    except FileNotFoundError:
        return FeedState(feed, feed)
    except OSError as error:
        raise InputError(f"--state: {file} cannot be read ({error.strerror})") from error
    state = parse_feed_state(content, f"--state: {file}")
    if state.feed != feed:
        raise InputError(f"--state: {file} is of {state.feed}; give each feed a file of its own")
    return state


def default_feed_state(feed: str, config: Config) -> Path:
    identity = [feed, config.kafka.bootstrap_servers, config.topics.seeds]
    return state_folder() / f"follow-{urlsplit(feed).hostname}-{json_digest(identity)[:12]}.json"
