"""Seeds that follow a news feed: what the feed names, and a seed of each article that is new."""

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from encoder.errors import InputError
from encoder.support.files import read_regular, state_folder, write_atomically
from newsift.collect.feeds import (
    Followed,
    FollowedArticle,
    NewsFeed,
    cleaned,
    link_identity,
    read_feed,
    read_followed,
)
from newsift.collect.state import locked
from newsift.files.apart import run_in_subprocess
from newsift.files.articles import WebPage, article_of
from newsift.operations.messages import format_counts, notify, notify_version
from newsift.operations.seed_drafts import SeedDraft, parse_seed, record_object, seed_id
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import now_ms
from newsift.web.fetch import PAGES, REQUEST
from newsift.web.polite import PoliteWeb, SiteAnswer, StatusError, is_temporary
from worker.config import Config
from worker.errors import RunError
from worker.kafka.reading import TopicReader, connected
from worker.posts.times import rfc3339
from worker.seeds.record import PREFIX, Seed, digest
from worker.seeds.state import ControlState, table_key
from worker.text import one_line


class ArticleIndex:
    """Which seeds there are, by id, by link and by version; refused ones count, profiles do not.

    An update compares all seeds, a look-up costs the same however many there are.
    """

    def __init__(self) -> None:
        self.by_link: dict[str, str] = {}
        self.by_version: dict[str, str] = {}
        self._state = ControlState({}, {}, {}, {})
        self._drafts: dict[str, Seed] = {}
        self._refused: set[bytes] = set()  # keys of seeds

    def __contains__(self, name: str) -> bool:
        if name in self._state.seeds or name in self._drafts:
            return True
        return table_key(name.encode()) in self._refused

    def __len__(self) -> int:
        drafts = sum(name not in self._state.seeds for name in self._drafts)
        return len(self._state.seeds) + drafts + len(self._refused)

    def update(self, state: ControlState) -> None:
        """Take over what the topic says by now."""
        if state is self._state:
            return
        before, now = self._state.seeds, state.seeds
        moved = [
            name for name in before.keys() | now.keys() if before.get(name) is not now.get(name)
        ]
        for seed in (before[name] for name in moved if name in before):
            for index, name in ((self.by_version, seed.version), (self.by_link, _link(seed))):
                if index.get(name) == seed.id:
                    del index[name]
        self._state = state
        refused = state.refused.items()
        self._refused = {key for key, each in refused if not each.id.startswith(PREFIX)}
        for seed in (now[name] for name in moved if name in now):
            self._enter(seed)

    def add(self, seed: Seed) -> None:
        """Take over a seed that would be published."""
        self._drafts[seed.id] = seed
        self._enter(seed)

    def version(self, name: str) -> str | None:
        """The version of a seed; None where there is no valid one."""
        seed = self._drafts.get(name) or self._state.seeds.get(name)
        return seed.version if seed else None

    def ended(self, name: str, before: int) -> bool:
        """Whether a seed had ended by then, and no profile rests on it."""
        seed = self._state.seeds.get(name)
        if seed is None or seed.expires_at is None or seed.expires_at > before:
            return False
        return not any(name in profile.seeds for profile in self._state.profiles.values())

    def _enter(self, seed: Seed) -> None:
        self.by_version[seed.version] = seed.id
        if seed.url:
            self.by_link[_link(seed)] = seed.id


def _link(seed: Seed) -> str:
    return link_identity(seed.url) if seed.url else ""


FEEDS = (
    "application/atom+xml, application/rss+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5"
)
NEW, CORRECTED, UNCHANGED = "new", "corrected", "unchanged"
THERE, REFUSED = "there already", "refused"
DAY = 86_400_000
LINGER = 14 * DAY  # at least, after its end: posts of before may be compared so much later
REFUSAL_CHARS = 300  # characters of a refusal that are known again


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """What is wanted of a feed."""

    event: str | None
    keep: int  # milliseconds that a seed lives from its publication on
    most: int  # new articles a round
    dry: bool = False


@dataclass(slots=True)
class Follower:
    """Follows one feed; what is known of it is stored step by step, so that it may end at any."""

    web: PoliteWeb
    followed: Followed
    plan: FollowOptions
    config: Config
    store: Callable[[], None]
    show: Callable[[str], object]  # a seed that was published
    index: ArticleIndex = field(default_factory=ArticleIndex)
    published_by: ControlState | None = None  # what the last publication was decided by
    _topic: SeedTopic | None = None

    def look(self) -> None:
        """Ask the feed what it names now."""
        conditions = {
            "If-None-Match": self.followed.etag,
            "If-Modified-Since": self.followed.modified,
        }
        headers = {name: value for name, value in conditions.items() if value is not None}
        answer = self.web.get(self.followed.address, REQUEST | {"Accept": FEEDS} | headers)
        if answer.status != 304:
            self._take(answer)
        if answer.permanent_url != self.followed.address:
            notify(f"the feed has moved for good, to {answer.permanent_url}")
            self.followed.address = answer.permanent_url

    def _take(self, answer: SiteAnswer) -> None:
        kind = answer.headers["Content-Type"] or ""
        feed = msgspec.json.decode(
            run_in_subprocess(read_feed, answer.body, answer.url, kind), type=NewsFeed
        )
        new = self.followed.note(feed.entries, now_ms(), self.plan.keep)
        self.followed.etag = answer.headers["ETag"]
        self.followed.modified = answer.headers["Last-Modified"]
        self.followed.interval = feed.interval
        if feed.without_link and new:
            notify(f"entries without an address that can be read: {feed.without_link:,}")

    def read(self) -> Counter[str]:
        """Read the articles that are due and publish what they hold; how many came to what."""
        outcomes = Counter[str]()
        due = self.followed.due(now_ms(), self.plan.keep, self.plan.most)
        before = now_ms() - max(self.plan.keep, LINGER)
        ended = self.followed.ended(before, self.plan.keep)
        if not (due or ended):
            return outcomes
        with connected(self.config) as cluster:
            topic = self._topic_by(cluster)
            state = topic.state()
            self.index.update(state)
            self._delete(ended, before, topic, state)
            if due:
                self._refuse_too_many()
            for article in due:
                if not self.web.closed(article.link):
                    outcomes[self._article(article, topic)] += 1
                    self.store()
        return outcomes

    def _topic_by(self, cluster: TopicReader) -> SeedTopic:
        """The control topic, read on from where the last round ended."""
        cluster.partitions(self.config.topics.seeds)
        if self._topic is None:
            self._topic = SeedTopic(cluster, self.config)
        self._topic.cluster = cluster
        return self._topic

    def _delete(
        self, ended: list[FollowedArticle], before: int, topic: SeedTopic, state: ControlState
    ) -> None:
        """Delete the seeds that no post is compared with any more; not those of other people."""
        for article in ended:
            if not self._is_ours(article):
                article.leave()
        over = [
            article for article in ended if article.seed and self.index.ended(article.seed, before)
        ]
        if self.plan.dry or not over:
            return
        keys = [(article.seed or "").encode() for article in over]
        self._replace(topic, dict.fromkeys(keys), state)
        for article in over:
            article.leave()
        self.store()
        notify(f"seeds that ended long ago, deleted: {len(keys):,}")

    def _is_ours(self, article: FollowedArticle) -> bool:
        return self.index.version(article.seed or "") == article.version

    def _refuse_too_many(self) -> None:
        most = self.config.limits.seeds
        if len(self.index) >= most:
            raise RunError(
                f"limits.seeds: {most:,} are allowed, and as many are there; remove some"
            )

    def _article(self, article: FollowedArticle, topic: SeedTopic) -> str:
        if article.read is None and link_identity(article.link) in self.index.by_link:
            article.tried(now_ms())
            article.leave()
            return THERE
        try:
            content = self._read_page(article)
            state = topic.state()  # anew, as the page took a while
            self.index.update(state)
            outcome = self._publish(article, content, topic, state)
        except InputError as error:
            article.tried(now_ms(), failing=is_temporary(error))
            reason = str(error)[:REFUSAL_CHARS]
            if article.refusal != reason:
                article.refusal = reason
                notify(f"no seed: {error}")
            return REFUSED
        article.tried(now_ms())
        return outcome

    def _read_page(self, article: FollowedArticle) -> dict[str, Any]:
        """The article of a page: its text, its title, its address."""
        answer = self.web.get(article.link)
        kind = answer.headers.get_content_type()
        if kind not in PAGES:
            raise InputError(f"{answer.url}: is no page of text but {one_line(kind)}")
        page = article_of(WebPage(answer.url, answer.body, answer.headers.get_content_charset()))
        text = page.require_seed(answer.url).text
        return {"text": text, "title": page.title or article.title, "url": cleaned(answer.url)}

    def _publish(
        self,
        article: FollowedArticle,
        content: dict[str, Any],
        topic: SeedTopic,
        state: ControlState,
    ) -> str:
        """Publish an article that is new, or says something new; what came of it."""
        ends = rfc3339(article.published + self.plan.keep)
        record = content | {"event": self.plan.event, "expires_at": ends}
        draft = SeedDraft(article.seed or self._free_id(content), record, article.link)
        seed = parse_seed(draft, self.config)
        if seed.version == article.version:
            return UNCHANGED
        if article.seed is not None:
            return self._correct(article, content, topic, state)
        if (
            seed.version in self.index.by_version
            or link_identity(content["url"]) in self.index.by_link
        ):
            article.leave()
            return THERE
        self._put(draft, article, topic, state, NEW)
        return NEW

    def _correct(
        self,
        article: FollowedArticle,
        content: dict[str, Any],
        topic: SeedTopic,
        state: ControlState,
    ) -> str:
        """Give a seed the new text of its article, and leave it what people have set."""
        name = article.seed or ""
        if not self._is_ours(article):
            article.leave()
            return UNCHANGED
        feed_state = record_object(name, state.value(name.encode()))
        draft = SeedDraft(name, feed_state | content, article.link)
        self._put(draft, article, topic, state, CORRECTED)
        return CORRECTED

    def _put(
        self, draft: SeedDraft, article: FollowedArticle, topic: SeedTopic, state: ControlState,
        outcome: str,
    ) -> None:  # fmt: skip
        seed = parse_seed(draft, self.config)
        if not self.plan.dry:
            self._replace(topic, {draft.key: draft.value}, state)
        else:
            self.index.add(seed)
        article.seed, article.version = seed.id, seed.version
        would = "would be " if self.plan.dry else ""
        self.show(f"{one_line(seed.id)}  {seed.version}  {would}{outcome}  {one_line(seed.title)}")

    def _replace(
        self, topic: SeedTopic, values: dict[bytes, bytes | None], state: ControlState
    ) -> None:
        """Publish what was decided by this state, and read on."""
        topic.publish(values, state)
        self.published_by = state
        self.index.update(topic.state())

    def _free_id(self, content: dict[str, Any]) -> str:
        """An id that no seed has: two articles may have one title."""
        name = seed_id(content["title"], content["url"])
        if name not in self.index:
            return name
        return f"{name}-{hashlib.sha256(link_identity(content['url']).encode()).hexdigest()[:8]}"


LARGEST_STATE = 2**27
LONGEST_BACKOFF = 6 * 3600.0
MOST_FAILURES = 16  # that still lengthen the pause
GONE = 410


@dataclass(slots=True)
class FollowLoop:
    """Round after round, or one; a feed or a broker that is away is told of and tried again."""

    follower: Follower
    every: float
    once: bool
    names_versions: bool = False  # after publishing, which version of the control topic was read
    _begun: bool = False  # the feed has answered
    _reported: set[str] = field(default_factory=set)  # what failed, for as long as it is the same

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
            notify(f"the feed is not asked now: it wants to be left alone for {left:,.0f} s more")
        try:
            if outcomes := self.follower.read():
                notify(format_counts(outcomes))
                self._reported.clear()
            if state := self.follower.published_by:
                if self.names_versions:
                    notify_version(state)
                self.follower.published_by = None
        except RunError as error:
            if self.once:
                raise
            self._report_once(str(error))

    def _look(self, followed: Followed) -> None:
        try:
            self.follower.look()
        except InputError as error:
            self._failed(error, followed)
        else:
            if followed.failures:
                notify("the feed answers again")
                self._reported.clear()
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
        if not is_temporary(error) and (self.once or not self._begun):
            raise error
        if self.once:
            self.follower.store()
            raise RunError(str(error)) from error
        self._report_once(str(error))

    def _report_once(self, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            notify(f"{message}; tried again")


@contextmanager
def feed_state(feed: str, file: Path, dry: bool) -> Iterator[tuple[Followed, Callable[[], None]]]:
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
    followed = read_followed(content, f"--state: {file}")
    if followed.feed != feed:
        raise InputError(f"--state: {file} is of {followed.feed}; give each feed a file of its own")
    return followed


def _write(file: Path, followed: Followed) -> None:
    write_atomically(file, msgspec.json.encode(followed), 0o600)


def default_feed_state(feed: str, config: Config) -> Path:
    """A file for this feed and this control topic."""
    identity = [feed, config.kafka.bootstrap_servers, config.topics.seeds]
    return state_folder() / f"follow-{urlsplit(feed).hostname}-{digest(identity)[:12]}.json"
