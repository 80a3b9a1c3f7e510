"""Seeds that follow a feed (RSS or Atom): each new article becomes a seed."""

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from encoder.errors import InputError
from encoder.support.files import read_regular, state_folder, write_atomically
from newsift.files.articles import MAX_TITLE_CHARS, extract_article
from newsift.files.subprocesses import run_in_subprocess
from newsift.operations.messages import format_counts, notify, notify_version
from newsift.operations.seed_drafts import (
    SeedDraft,
    parse_record_object,
    parse_seed,
    seed_id,
    too_many_seeds,
)
from newsift.operations.seed_topic import SeedTopic, seed_topic
from newsift.operations.times import now_ms
from newsift.web.client import PAGE_HEADERS, StatusError, WebAnswer
from newsift.web.feeds import Entry, NewsFeed, PoliteWeb, is_temporary, read_feed
from worker.config import Config
from worker.errors import RunError
from worker.links import canonical_link, without_tracking
from worker.posts.times import DAY_MS, HOUR_MS, rfc3339
from worker.seeds.record import json_digest
from worker.seeds.state import ControlState
from worker.text import one_line

ACCEPTED_TYPES = "application/atom+xml, application/rss+xml, application/xml;q=0.9, */*;q=0.5"
MAX_ARTICLES = 10_000
FIRST_RETRY_MS, MAX_RETRIES = HOUR_MS // 4, 6  # over 16 hours, as the pauses double
NEVER = 2**53
MIN_LINGER_MS = 14 * DAY_MS  # Older posts may arrive after a seed has expired.
MAX_STATE_BYTES = 2**27
MAX_ARTICLE_BYTES = 2**25  # of all; those with a seed stay, and are below MAX_STATE_BYTES
VALIDATOR = re.compile(r"[\x20-\x7e]{1,1000}")
NEW, CORRECTED, UNCHANGED = "new", "corrected", "unchanged"
ALREADY_THERE, REFUSED = "there already", "refused"


class FollowedArticle(msgspec.Struct):
    """An article of a followed feed. Its times are milliseconds; its fields are on disk."""

    link: str
    title: str
    published_at: int
    digest: str  # of the latest entry about it
    seen_at: int  # when the feed last listed it
    reads: int = 0
    due_at: int | None = 0  # None: it is not read again unless its entry changes
    next_due_at: int = 0  # if its entry changes
    seed: str | None = None  # the id of the seed that was made of it
    version: str | None = None  # of that seed

    def due(self, now: int) -> bool:
        return self.due_at is not None and now >= self.due_at

    def count_read(self, now: int) -> None:
        """The intervals grow, even if the article changes each time."""
        if self.next_due_at < NEVER:
            self.next_due_at = now + HOUR_MS * self.reads
        self.due_at, self.reads = None, self.reads + 1

    def retry(self, now: int) -> None:
        if self.reads <= MAX_RETRIES:
            self.due_at = now + (FIRST_RETRY_MS << (self.reads - 1))

    def leave(self) -> None:
        """It is not read again: its seed belongs to somebody else, was changed or is deleted."""
        self.seed, self.due_at, self.next_due_at = None, None, NEVER

    def has_seed_in(self, state: ControlState) -> bool:
        """Whether its seed is as it was published."""
        seed = state.seeds.get(self.seed or "")
        return seed is not None and seed.version == self.version


class FeedState(msgspec.Struct):
    """The state of a followed feed. Its times are milliseconds; its fields are on disk."""

    feed: str  # the user's address of it
    etag: str | None = None
    last_modified: str | None = None
    interval: float = 0.0  # seconds between two requests that the feed asks for
    wait_until: int = 0
    seen_at: int = 0  # when its entries were last read
    articles: dict[str, FollowedArticle] = msgspec.field(default_factory=dict)

    def note(self, entries: Sequence[Entry], now: int, keep: int) -> None:
        """Add the entries of a feed. If there are too many, the oldest without a seed go."""
        self.seen_at = now
        first_ones = {link_identity(entry.link): entry for entry in entries[::-1]}
        for name, entry in reversed(first_ones.items()):
            if (article := self.articles.get(name)) is not None:
                if article.digest != entry.digest and article.due_at is None:
                    article.due_at = article.next_due_at
                article.seen_at, article.digest = now, entry.digest
            elif (at := min(entry.published_at or now, now)) + keep > now:
                link = without_tracking(entry.link)
                title = entry.title[:MAX_TITLE_CHARS]
                self.articles[name] = FollowedArticle(link, title, at, entry.digest, now)
        remaining = [
            (name, article) for name, article in self.articles.items()
            if article.seen_at >= now - keep or article.seed is not None
        ]  # fmt: skip
        remaining.sort(key=lambda item: (item[1].seed is None, -item[1].seen_at))
        self.articles, left = {}, MAX_ARTICLE_BYTES
        for name, article in remaining[:MAX_ARTICLES]:
            left -= len(msgspec.json.encode([name, article]))
            if left >= 0 or article.seed is not None:
                self.articles[name] = article

    def due_articles(self, now: int, keep: int, most: int) -> list[FollowedArticle]:
        """The articles to read now, new ones first."""
        due = [
            article for article in self.articles.values() if article.seen_at == self.seen_at
            and article.published_at + keep > now and article.due(now)
        ]  # fmt: skip
        return sorted(due, key=lambda article: (article.due_at, -article.published_at))[:most]


def link_identity(link: str) -> str:
    """The same text for all spellings of one address."""
    return canonical_link(link) or without_tracking(link)


def read_feed_state(feed: str, file: Path) -> FeedState:
    """A new one if there is no file. Raises InputError for the file of another feed."""
    try:
        state = msgspec.json.decode(read_regular(file, MAX_STATE_BYTES), type=FeedState)
    except FileNotFoundError:
        return FeedState(feed)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not a state of a feed"
        raise InputError(f"--state: {file}: {reason}; move it away, and start again") from None
    if state.feed != feed:
        raise InputError(f"--state: {file} is of {state.feed}; give each feed a file of its own")
    return state


def default_feed_state(feed: str, config: Config) -> Path:
    identity = [feed, config.kafka.bootstrap_servers, config.topics.seeds]
    return state_folder() / f"follow-{urlsplit(feed).hostname}-{json_digest(identity)[:12]}.json"


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
    file: Path  # of the state
    show: Callable[[str], object]  # is called with a line for each published seed
    _has_worked: bool = False
    _failures: set[str] = field(default_factory=set)  # reported, until all works again

    def run(self) -> None:
        self.run_once()
        while not self.options.once:
            time.sleep(self.options.every)
            self.run_once()

    def run_once(self) -> None:
        try:
            self._fetch_feed()
            self._read_articles()
        except (InputError, RunError) as error:
            is_final = isinstance(error, InputError) and not is_temporary(error)
            if is_final and (self.options.once or not self._has_worked):
                raise
            if self.options.once:
                raise RunError(str(error)) from error
            if str(error) not in self._failures:
                self._failures.add(str(error))
                notify(f"{error}; tried again")
        else:
            if self._failures:
                notify("the feed and the broker answer again")
                self._failures.clear()
            self._has_worked = True

    def _store(self) -> None:
        if not self.options.dry:
            write_atomically(self.file, msgspec.json.encode(self.feed), 0o600)

    def _fetch_feed(self) -> None:
        feed, pause = self.feed, 0.0
        if (left := feed.wait_until / 1000 - time.time()) > 0:
            if self.options.once:
                notify(f"the feed is not read now: it asks for a pause of {left:,.0f} s more")
            return
        conditions = {"If-None-Match": feed.etag, "If-Modified-Since": feed.last_modified}
        headers = {name: value for name, value in conditions.items() if value is not None}
        try:
            answer = self.web.get(feed.feed, PAGE_HEADERS | {"Accept": ACCEPTED_TYPES} | headers)
            if answer.status != 304:
                kind = answer.headers.get("Content-Type", "")
                content = run_in_subprocess(read_feed, answer.body, answer.url, kind)
                page = msgspec.json.decode(content, type=NewsFeed)
                before = set(feed.articles)
                feed.note(page.entries, now_ms(), self.options.keep)
                feed.etag = _validator(answer, "ETag")
                feed.last_modified = _validator(answer, "Last-Modified")
                feed.interval = page.interval
                if page.without_link and feed.articles.keys() - before:
                    notify(f"entries without an address: {page.without_link:,}")
            pause = feed.interval
        except StatusError as error:
            pause = error.wait
            raise
        finally:
            feed.wait_until = round((time.time() + pause) * 1000)
            self._store()

    def _read_articles(self) -> None:
        """Read those that are due and publish their seeds, and delete the seeds of old ones."""
        outcomes, now, keep = Counter[str](), now_ms(), self.options.keep
        due = self.feed.due_articles(now, keep, self.options.most)
        before = now - max(keep, MIN_LINGER_MS)
        old = [a for a in self.feed.articles.values() if a.seed and a.published_at + keep <= before]
        if not (due or old):
            return
        with seed_topic(self.config, make=not self.options.dry) as topic:
            if not self.options.dry:
                self._delete(old, before, topic)
            state = topic.state()
            try:
                for article in due:
                    if len(topic.state().seeds) >= self.config.limits.seeds:
                        raise RunError(too_many_seeds(self.config))
                    outcomes[self._read_article(article, topic)] += 1
                    self._store()
                    if article.due_at is not None:
                        break  # its site may want a pause: the others wait for the next round
            finally:
                if outcomes:
                    notify(f"articles: {format_counts(outcomes)}")
                if not self.options.dry and (outcomes[NEW] or outcomes[CORRECTED]):
                    notify_version(state)

    def _delete(self, old: list[FollowedArticle], before: int, topic: SeedTopic) -> None:
        """Seeds that had expired by then, that nobody changed and that no profile stands for."""
        state = topic.state()
        in_profiles = {name for profile in state.profiles.values() for name in profile.seeds}
        ended = dict[bytes, FollowedArticle]()
        for article in old:
            if article.seed is None or not article.has_seed_in(state):
                article.leave()
                continue
            ends = state.seeds[article.seed].expires_at
            if ends is not None and ends <= before and article.seed not in in_profiles:
                ended[article.seed.encode()] = article
        if ended:
            topic.publish(dict.fromkeys(ended), state)
            for article in ended.values():
                article.leave()
            self._store()
            notify(f"expired seeds deleted: {len(ended):,}")
            notify_version(state)

    def _read_article(self, article: FollowedArticle, topic: SeedTopic) -> str:
        is_first = not article.reads
        if is_first and link_identity(article.link) in _links(topic.state()):
            article.leave()
            return ALREADY_THERE
        try:
            page = self.web.get(article.link).page(self.web.limits)
            found = extract_article(page).require_seed(page.url, self.config.model.name)
            url, title = without_tracking(page.url), found.title or article.title
            content = {"text": found.text, "title": title, "url": url}
            outcome = self._make_seed(article, content, topic)
        except InputError as error:
            article.count_read(now_ms())
            if is_temporary(error):
                article.retry(now_ms())
            if is_first:
                notify(f"no seed: {error}")
            return REFUSED
        article.count_read(now_ms())  # not where the broker failed: it is read again
        return outcome

    def _make_seed(
        self, article: FollowedArticle, content: dict[str, Any], topic: SeedTopic
    ) -> str:
        """Publishes it, or the correction of its seed. People's changes of a seed stay."""
        state, identity = topic.state(), link_identity(content["url"])
        if article.seed is not None:
            name, outcome = article.seed, CORRECTED
            if not article.has_seed_in(state):
                article.leave()
                return UNCHANGED
            record = parse_record_object(name, state.value(name.encode())) | content
        else:
            name, outcome = seed_id(content["title"], content["url"]), NEW
            if state.value(name.encode()) is not None:  # two articles may have one title
                name = f"{name}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
            ends = rfc3339(article.published_at + self.options.keep)
            record = content | {"event": self.options.event, "expires_at": ends}
        draft = SeedDraft(name, record, article.link)
        seed = parse_seed(draft, self.config)
        if seed.version == article.version:
            return UNCHANGED
        same_text = any(each.version == seed.version for each in state.seeds.values())
        if article.seed is None and (same_text or identity in _links(state)):
            article.leave()
            return ALREADY_THERE
        if not self.options.dry:
            topic.publish({draft.key: draft.value}, state)
        article.seed, article.version = seed.id, seed.version
        would = "would be " if self.options.dry else ""
        self.show(f"{one_line(seed.id)}  {seed.version}  {would}{outcome}  {one_line(seed.title)}")
        return outcome


def _validator(answer: WebAnswer, name: str) -> str | None:
    """A header that is sent back as it came; None for one that is too long or not of ASCII."""
    value = answer.headers.get(name, "")
    return value if VALIDATOR.fullmatch(value) else None


def _links(state: ControlState) -> set[str]:
    return {link_identity(seed.url) for seed in state.seeds.values() if seed.url}
