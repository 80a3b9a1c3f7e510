"""Seeds that follow a feed (RSS or Atom): each new article becomes a seed."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from encoder.errors import InputError
from encoder.support.files import read_regular, state_folder, write_atomically
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
from newsift.web.feeds import Entry, NewsFeed, clean_link, link_identity, read_feed
from newsift.web.polite import PoliteWeb, StatusError, is_temporary
from worker.config import Config
from worker.errors import RunError
from worker.kafka.reading import connected
from worker.posts.times import DAY_MS, HOUR_MS, rfc3339
from worker.seeds.record import PROFILE_PREFIX, Seed, json_digest
from worker.seeds.state import ControlState, table_key
from worker.text import one_line

ACCEPTED_TYPES = "application/atom+xml, application/rss+xml, application/xml;q=0.9, */*;q=0.5"
MAX_ARTICLES = 10_000
FIRST_RETRY_MS, MAX_RETRIES = HOUR_MS // 4, 6  # over 16 hours, as the pauses double
REREAD_MS = 6 * HOUR_MS
MIN_LINGER_MS = 14 * DAY_MS  # Older posts may arrive after a seed has expired.
MAX_STATE_BYTES, MAX_REFUSAL_CHARS = 2**27, 300
MAX_BACKOFF_S, MAX_BACKOFF_FAILURES = 6 * 3600.0, 16
HTTP_GONE = 410
NEW, CORRECTED, UNCHANGED = "new", "corrected", "unchanged"
ALREADY_THERE, REFUSED = "there already", "refused"


class FollowedArticle(msgspec.Struct):
    """An article of a followed feed. Its times are milliseconds; its fields are on disk."""

    link: str
    title: str
    published_at: int
    digest: str  # of the latest entry about it
    seen_at: int  # when the feed last listed it
    read: int | None = None
    news: bool = False  # whether the entry has changed since the article was read
    again: int = 0  # how often the article was read after the first time
    failing: bool = False  # the last attempt failed, but a retry may help
    refusal: str | None = None  # the last reported reason
    seed: str | None = None  # the id of the seed that was made of it
    version: str | None = None  # of that seed
    left: bool = False  # it is not read again, as its seed belongs to somebody else or was changed

    def due(self, now: int) -> bool:
        """Whether it should be read now; the intervals grow, even if it changes each time."""
        if self.left or self.read is None:
            return not self.left
        if self.failing and self.again < MAX_RETRIES:
            return now >= self.read + (FIRST_RETRY_MS << self.again)
        if self.news:
            return now >= self.read + HOUR_MS * self.again
        return self.seed is not None and now >= self.read + REREAD_MS * (self.again + 1)

    def count_attempt(self, now: int, *, failing: bool = False) -> None:
        self.again += self.read is not None
        self.read, self.news, self.failing = now, False, failing

    def leave(self) -> None:
        """Do not read it again, and do not change its seed."""
        self.seed, self.left = None, True


class FeedState(msgspec.Struct):
    """The state of a followed feed. Its times are milliseconds; its fields are on disk."""

    feed: str  # the user's address of it
    address: str  # the same, or the target of its permanent redirects
    etag: str | None = None
    last_modified: str | None = None
    interval: float = 0.0  # seconds between two requests that the feed asks for
    failures: int = 0  # consecutive ones
    wait_until: int = 0
    seen_at: int = 0  # when its entries were last read
    articles: dict[str, FollowedArticle] = msgspec.field(default_factory=dict)

    def note(self, entries: Sequence[Entry], now: int, keep: int) -> None:
        """Add the entries of a feed."""
        self.seen_at = now
        first_ones = {link_identity(entry.link): entry for entry in entries[::-1]}
        for name, entry in reversed(first_ones.items()):
            if (article := self.articles.get(name)) is not None:
                article.seen_at = now
                article.news = article.news or article.digest != entry.digest
                article.digest = entry.digest
            elif (at := min(entry.published_at or now, now)) + keep > now:
                link = clean_link(entry.link)
                self.articles[name] = FollowedArticle(link, entry.title, at, entry.digest, now)
        remaining = [
            (name, article) for name, article in self.articles.items()
            if article.seen_at >= now - keep or article.seed is not None
        ]  # fmt: skip
        if len(remaining) > MAX_ARTICLES:  # the oldest without a seed go
            remaining.sort(key=lambda item: (item[1].seed is None, -item[1].seen_at))
        self.articles = dict(remaining[:MAX_ARTICLES])

    def due_articles(self, now: int, keep: int, most: int) -> list[FollowedArticle]:
        """The articles to read now, new ones first."""
        due = [
            article for article in self.articles.values() if article.seen_at == self.seen_at
            and article.published_at + keep > now and article.due(now)
        ]  # fmt: skip
        return sorted(due, key=lambda article: (article.read or 0, -article.published_at))[:most]


@contextmanager
def feed_state(feed: str, file: Path, dry: bool) -> Iterator[tuple[FeedState, Callable[[], None]]]:
    """The stored state and a function that stores it; locked for other processes."""
    with nullcontext() if dry else lock_state(file):
        try:
            state = msgspec.json.decode(read_regular(file, MAX_STATE_BYTES), type=FeedState)
        except FileNotFoundError:
            state = FeedState(feed, feed)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "is not a state of a feed"
            raise InputError(f"--state: {file}: {reason}; move it away, and start again") from None
        if state.feed != feed:
            raise InputError(
                f"--state: {file} is of {state.feed}; give each feed a file of its own"
            )
        yield (
            state,
            lambda: None if dry else write_atomically(file, msgspec.json.encode(state), 0o600),
        )


def default_feed_state(feed: str, config: Config) -> Path:
    identity = [feed, config.kafka.bootstrap_servers, config.topics.seeds]
    return state_folder() / f"follow-{urlsplit(feed).hostname}-{json_digest(identity)[:12]}.json"


class KnownSeeds:
    """The ids, links and versions of seeds; refused ones count, profiles do not."""

    def __init__(self, state: ControlState, drafts: dict[str, Seed]) -> None:
        """`drafts`: of a dry run."""
        self.state, self.seeds = state, {**state.seeds, **drafts}
        self.links = {link_identity(seed.url) for seed in self.seeds.values() if seed.url}
        self.versions = {seed.version for seed in self.seeds.values()}
        refused = state.refused.items()
        self.refused = {key for key, each in refused if not each.id.startswith(PROFILE_PREFIX)}

    def __contains__(self, name: str) -> bool:
        return name in self.seeds or table_key(name.encode()) in self.refused

    def __len__(self) -> int:
        return len(self.seeds) + len(self.refused)

    def has(self, article: FollowedArticle) -> bool:
        """Whether the seed of the article is as it was published."""
        seed = self.seeds.get(article.seed or "")
        return seed is not None and seed.version == article.version

    def has_ended(self, name: str, before: int) -> bool:
        """Whether the seed had expired by then, and no profile replaces it."""
        seed = self.seeds.get(name)
        if seed is None or seed.expires_at is None or seed.expires_at > before:
            return False
        return not any(name in profile.seeds for profile in self.state.profiles.values())


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
    """Follows one feed; a failure is reported once and tried again."""

    web: PoliteWeb
    feed: FeedState
    options: FollowOptions
    config: Config
    store: Callable[[], None]
    show: Callable[[str], object]  # is called with a line for each published seed
    _drafts: dict[str, Seed] = field(default_factory=dict)
    _published_on: ControlState | None = None  # that the first publication of a round changed
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
            if outcomes := self._read_articles():
                notify(f"articles: {format_counts(outcomes)}")
                self._failures.clear()
        except RunError as error:
            if self.options.once:
                raise
            self._report_once(str(error))
        finally:
            if self._published_on is not None:
                notify_version(self._published_on)
            self._published_on = None

    def _report_once(self, message: str) -> None:
        if message not in self._failures:
            self._failures.add(message)
            notify(f"{message}; tried again")

    def _try_feed(self) -> None:
        feed = self.feed
        try:
            self._fetch_feed()
        except InputError as error:
            self._back_off(error)
        else:
            if feed.failures:
                notify("the feed answers again")
                self._failures.clear()
            feed.failures, self._has_answered = 0, True
            feed.wait_until = round((time.time() + feed.interval) * 1000)
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

    def _fetch_feed(self) -> None:
        feed = self.feed
        conditions = {"If-None-Match": feed.etag, "If-Modified-Since": feed.last_modified}
        headers = {name: value for name, value in conditions.items() if value is not None}
        answer = self.web.get(feed.address, PAGE_HEADERS | {"Accept": ACCEPTED_TYPES} | headers)
        if answer.status != 304:
            kind = answer.headers.get("Content-Type", "")
            content = run_in_subprocess(read_feed, answer.body, answer.url, kind)
            page = msgspec.json.decode(content, type=NewsFeed)
            before = set(feed.articles)
            feed.note(page.entries, now_ms(), self.options.keep)
            feed.etag = answer.headers.get("ETag")
            feed.last_modified = answer.headers.get("Last-Modified")
            feed.interval = page.interval
            if page.without_link and feed.articles.keys() - before:
                notify(f"entries without an address: {page.without_link:,}")
        if answer.permanent_url != feed.address:
            notify(f"the feed has moved for good, to {answer.permanent_url}")
            feed.address = answer.permanent_url

    def _read_articles(self) -> Counter[str]:
        """Publishes those that are due; returns counts of the outcomes."""
        outcomes, keep = Counter[str](), self.options.keep
        due = self.feed.due_articles(now_ms(), keep, self.options.most)
        before = now_ms() - max(keep, MIN_LINGER_MS)
        old = [a for a in self.feed.articles.values() if a.seed and a.published_at + keep <= before]
        if not (due or old):
            return outcomes
        with connected(self.config) as cluster:
            cluster.partitions(self.config.topics.seeds)
            topic = self._topic = self._topic or SeedTopic(cluster, self.config)
            topic.cluster = cluster
            self._delete(old, before, topic)
            for article in due:
                if len(KnownSeeds(topic.state(), self._drafts)) >= self.config.limits.seeds:
                    if outcomes:
                        notify(too_many_seeds(self.config))
                        break
                    raise RunError(too_many_seeds(self.config))
                if not self.web.is_closed(article.link):
                    outcomes[self._read_article(article, topic)] += 1
                    self.store()
        return outcomes

    def _delete(self, old: list[FollowedArticle], before: int, topic: SeedTopic) -> None:
        known = KnownSeeds(topic.state(), self._drafts)
        for article in old:
            if not known.has(article):
                article.leave()
        ended = [
            article for article in old if article.seed and known.has_ended(article.seed, before)
        ]
        if ended and not self.options.dry:
            keys = [(article.seed or "").encode() for article in ended]
            self._publish(topic, dict.fromkeys(keys), known.state)
            for article in ended:
                article.leave()
            self.store()
            notify(f"expired seeds deleted: {len(ended):,}")

    def _read_article(self, article: FollowedArticle, topic: SeedTopic) -> str:
        known = KnownSeeds(topic.state(), self._drafts)
        if article.read is None and link_identity(article.link) in known.links:
            article.count_attempt(now_ms())
            article.leave()
            return ALREADY_THERE
        try:
            content = self._read_page(article)
            known = KnownSeeds(topic.state(), self._drafts)  # again, as reading it took time
            outcome = self._make_seed(article, content, topic, known)
        except InputError as error:
            article.count_attempt(now_ms(), failing=is_temporary(error))
            if article.refusal != (reason := str(error)[:MAX_REFUSAL_CHARS]):
                article.refusal = reason
                notify(f"no seed: {error}")
            return REFUSED
        article.count_attempt(now_ms())
        return outcome

    def _read_page(self, article: FollowedArticle) -> dict[str, Any]:
        answer = self.web.get(article.link)
        if (kind := answer.content_type.get_content_type()) not in PAGE_TYPES:
            raise InputError(f"{answer.url}: is {one_line(kind)}, not text")
        charset = answer.content_type.get_content_charset()
        page = extract_article(WebPage(answer.url, answer.body, charset))
        text = page.require_seed(answer.url).text
        return {"text": text, "title": page.title or article.title, "url": clean_link(answer.url)}

    def _make_seed(
        self, article: FollowedArticle, content: dict[str, Any], topic: SeedTopic, known: KnownSeeds
    ) -> str:
        """Publishes it, or the correction of its seed. People's changes of a seed stay."""
        ends = rfc3339(article.published_at + self.options.keep)
        record = content | {"event": self.options.event, "expires_at": ends}
        identity, outcome = link_identity(content["url"]), NEW
        name = article.seed or seed_id(content["title"], content["url"])
        if article.seed is None and name in known:  # two articles may have one title
            name = f"{name}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
        draft = SeedDraft(name, record, article.link)
        seed = parse_seed(draft, self.config)
        if seed.version == article.version:
            return UNCHANGED
        if article.seed is not None:
            if not known.has(article):
                article.leave()
                return UNCHANGED
            latest = parse_record_object(name, known.state.value(name.encode()))
            draft, outcome = replace(draft, record=latest | content), CORRECTED
            seed = parse_seed(draft, self.config)
        elif seed.version in known.versions or identity in known.links:
            article.leave()
            return ALREADY_THERE
        if self.options.dry:
            self._drafts[seed.id] = seed
        else:
            self._publish(topic, {draft.key: draft.value}, known.state)
        article.seed, article.version = seed.id, seed.version
        would = "would be " if self.options.dry else ""
        self.show(f"{one_line(seed.id)}  {seed.version}  {would}{outcome}  {one_line(seed.title)}")
        return outcome

    def _publish(
        self, topic: SeedTopic, values: dict[bytes, bytes | None], state: ControlState
    ) -> None:
        topic.publish(values, state)
        self._published_on = state
