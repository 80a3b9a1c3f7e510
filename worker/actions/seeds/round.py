"""One round of following a feed: what it names now, and a seed of each article that is new."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from encoder.errors import InputError
from worker.actions.seeds.fetch import PAGES, REQUEST
from worker.actions.seeds.files import SeedDraft, seed_of
from worker.actions.seeds.known import KnownSeeds, latest_of
from worker.actions.seeds.naming import seed_id
from worker.actions.seeds.polite import Answer, PoliteWeb, for_now
from worker.actions.seeds.topic import SeedTopic, seed_topic
from worker.actions.told import say
from worker.config import Config
from worker.errors import RunError
from worker.files.apart import read_apart
from worker.files.articles.extract import article_of
from worker.files.articles.page import Page
from worker.posts.times import rfc3339
from worker.sources.feed import NewsFeed, read_feed
from worker.sources.followed import Followed, FollowedArticle
from worker.sources.links import cleaned, link_identity
from worker.visible import one_line

FEEDS = (
    "application/atom+xml, application/rss+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5"
)
NEW, CORRECTED, UNCHANGED = "new", "corrected", "unchanged"
THERE, REFUSED = "there already", "refused"
DAY = 86_400_000
LINGER = 14 * DAY  # at least, after its end: posts of before may be compared so much later
MOST_TOLD = 300  # characters of a refusal that are known again


@dataclass(frozen=True, slots=True)
class Plan:
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
    plan: Plan
    config: Config
    store: Callable[[], None]
    show: Callable[[str], object]  # a seed that was published
    book: KnownSeeds = field(default_factory=KnownSeeds)

    def look(self) -> None:
        """Ask the feed what it names now."""
        asked = {"If-None-Match": self.followed.etag, "If-Modified-Since": self.followed.modified}
        given = {name: value for name, value in asked.items() if value is not None}
        answer = self.web.get(self.followed.address, REQUEST | {"Accept": FEEDS} | given)
        if answer.status != 304:
            self._take(answer)
        if answer.moved != self.followed.address:
            say(f"the feed has moved for good, to {answer.moved}")
            self.followed.address = answer.moved

    def _take(self, answer: Answer) -> None:
        kind = answer.headers["Content-Type"] or ""
        feed = msgspec.json.decode(
            read_apart(read_feed, answer.body, answer.url, kind), type=NewsFeed
        )
        new = self.followed.note(feed.entries, _now(), self.plan.keep)
        self.followed.etag = answer.headers["ETag"]
        self.followed.modified = answer.headers["Last-Modified"]
        self.followed.interval = feed.interval
        if feed.without_link and new:
            say(f"entries without an address that can be read: {feed.without_link:,}")

    def read(self) -> Counter[str]:
        """Read the articles that are due and publish what they hold; how many came to what."""
        told = Counter[str]()
        due = self.followed.due(_now(), self.plan.keep, self.plan.most)
        before = _now() - max(self.plan.keep, LINGER)
        ended = self.followed.ended(before, self.plan.keep)
        if not (due or ended):
            return told
        with seed_topic(self.config) as topic:
            self.book.catch_up(topic.cluster, self.config)
            self._delete(ended, before, topic)
            if due:
                self._refuse_too_many()
            for known in due:
                if not self.web.closed(known.link):
                    told[self._article(known, topic)] += 1
                    self.store()
        return told

    def _delete(self, ended: list[FollowedArticle], before: int, topic: SeedTopic) -> None:
        """Delete the seeds that no post is compared with any more; not those of other people."""
        for known in ended:
            if not self._is_ours(known):
                known.leave()
        over = [known for known in ended if known.seed and self.book.ended(known.seed, before)]
        if self.plan.dry or not over:
            return
        keys = [(known.seed or "").encode() for known in over]
        topic.publish(dict.fromkeys(keys))
        for known, key in zip(over, keys, strict=True):
            self.book.take(key, None)
            known.leave()
        self.store()
        say(f"seeds that ended long ago, deleted: {len(keys):,}")

    def _is_ours(self, known: FollowedArticle) -> bool:
        return self.book.versions.get(known.seed or "") == known.version

    def _refuse_too_many(self) -> None:
        most = self.config.limits.seeds
        if len(self.book.versions) >= most:
            raise RunError(
                f"limits.seeds: {most:,} are allowed, and as many are there; remove some"
            )

    def _article(self, known: FollowedArticle, topic: SeedTopic) -> str:
        if known.read is None and link_identity(known.link) in self.book.by_link:
            known.tried(_now())
            known.leave()
            return THERE
        try:
            found = self._found(known)
            self.book.catch_up(topic.cluster, self.config)  # that took a while
            said = self._publish(known, found, topic)
        except InputError as error:
            known.tried(_now(), failing=for_now(error))
            told = str(error)[:MOST_TOLD]
            if known.refusal != told:
                known.refusal = told
                say(f"no seed: {error}")
            return REFUSED
        known.tried(_now())
        return said

    def _found(self, known: FollowedArticle) -> dict[str, Any]:
        """The article of a page: its text, its title, its address."""
        answer = self.web.get(known.link)
        kind = answer.headers.get_content_type()
        if kind not in PAGES:
            raise InputError(f"{answer.url}: is no page of text but {one_line(kind)}")
        found = article_of(Page(answer.url, answer.body, answer.headers.get_content_charset()))
        text = found.require_seed(answer.url).text
        return {"text": text, "title": found.title or known.title, "url": cleaned(answer.url)}

    def _publish(self, known: FollowedArticle, found: dict[str, Any], topic: SeedTopic) -> str:
        """Publish an article that is new, or says something new; what came of it."""
        ends = rfc3339(known.published + self.plan.keep)
        record = found | {"event": self.plan.event, "expires_at": ends}
        draft = SeedDraft(known.seed or self._free_id(found), record, known.link)
        seed = seed_of(draft, self.config)
        if seed.version == known.version:
            return UNCHANGED
        if known.seed is not None:
            return self._correct(known, found, topic)
        if seed.version in self.book.by_version or link_identity(found["url"]) in self.book.by_link:
            known.leave()
            return THERE
        self._put(draft, known, topic, NEW)
        return NEW

    def _correct(self, known: FollowedArticle, found: dict[str, Any], topic: SeedTopic) -> str:
        """Give a seed the new text of its article, and leave it what people have set."""
        name = known.seed or ""
        if not self._is_ours(known):
            known.leave()
            return UNCHANGED
        record = latest_of(topic.cluster, self.config.topics.seeds, name.encode())
        stored = json.loads((record and record.value) or b"{}")
        self._put(SeedDraft(name, stored | found, known.link), known, topic, CORRECTED)
        return CORRECTED

    def _put(self, draft: SeedDraft, known: FollowedArticle, topic: SeedTopic, said: str) -> None:
        seed = seed_of(draft, self.config)
        if not self.plan.dry:
            topic.publish({draft.key: draft.value})
        self.book.take(draft.key, seed)
        known.seed, known.version = seed.id, seed.version
        would = "would be " if self.plan.dry else ""
        self.show(f"{one_line(seed.id)}  {seed.version}  {would}{said}  {one_line(seed.title)}")

    def _free_id(self, found: dict[str, Any]) -> str:
        """An id that no seed has: two articles may have one title."""
        name = seed_id(found["title"], found["url"])
        if name not in self.book.versions:
            return name
        return f"{name}-{hashlib.sha256(link_identity(found['url']).encode()).hexdigest()[:8]}"


def _now() -> int:
    return time.time_ns() // 1_000_000
