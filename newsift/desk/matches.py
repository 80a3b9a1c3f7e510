"""The desk's matches: followed from the topic, filtered and sorted for the page."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Literal

from msgspec import Meta, Struct

from newsift.desk.period import FilePeriod, Period
from newsift.operations.matches import (
    HOURS,
    MAX_LANGUAGE_CHARS,
    MatchCounts,
    MatchLog,
    MatchRow,
    Story,
)
from newsift.operations.times import now_ms
from worker.config import Config
from worker.kafka.reading import Offsets, StoredMessage, TopicReader
from worker.posts.compare import as_text
from worker.posts.outcome import PostId
from worker.posts.times import HOUR_MS, MINUTE_MS

MAX_SEARCH_CHARS = 200
MAX_STORY_ROWS = 12
MAX_JSON_INTEGER = 2**53 - 1  # Every reader of JSON can hold it.
ANY = ""
MAX_READ_RECORDS = 200_000  # The desk reads at most so many records when it starts.
Score = Annotated[float, Meta(ge=-2, le=2)]


class StoryFilter(Struct, frozen=True, kw_only=True):
    minutes: Annotated[int, Meta(ge=0, le=24 * 60)] = 0  # of age at most; 0: any age
    since: Annotated[int, Meta(ge=0, le=MAX_JSON_INTEGER)] = 0  # milliseconds
    until: Annotated[int, Meta(ge=0, le=MAX_JSON_INTEGER)] = MAX_JSON_INTEGER
    lang: Annotated[str, Meta(max_length=MAX_LANGUAGE_CHARS)] = ANY
    platform: Annotated[str, Meta(max_length=MAX_LANGUAGE_CHARS)] = ANY
    least: Score = -2.0
    most: Score = 2.0
    new: bool = False  # only stories whose first post is here
    link: bool = False  # only posts that link to a seed's page
    text: Annotated[str, Meta(max_length=MAX_SEARCH_CHARS)] = ""
    order: Literal["time", "score"] = "time"
    # The number of the last match on the page; later ones are only counted.
    up_to: Annotated[int, Meta(ge=0, le=MAX_JSON_INTEGER)] = MAX_JSON_INTEGER
    skip: Annotated[int, Meta(ge=0, le=10**6)] = 0
    count: Annotated[int, Meta(ge=1, le=100)] = 50

    def accepts(self, row: MatchRow, now: int) -> bool:
        return (
            (not self.minutes or row.at >= now - self.minutes * MINUTE_MS)
            and self.since <= row.at < self.until
            and self.least <= row.score <= self.most
            and self.lang in (ANY, row.lang)
            and self.platform in (ANY, row.post_id[0])
            and (row.new or not self.new)
            and (row.has_link or not self.link)
            and (not self.text or self._in_text(row))
        )

    def _in_text(self, row: MatchRow) -> bool:
        post, text = row.record.post, self.text.casefold()
        return text in as_text(post).text.casefold() or text in (post.author or "").casefold()


@dataclass(frozen=True, slots=True)
class StoryPage:
    stories: list[tuple[MatchRow, Story]]  # each with its first accepted post
    total: int  # stories on all pages
    newer: int  # stories since `up_to`
    last: int  # number of the newest match, for `up_to`


def filter_stories(stories: Iterable[Story], story_filter: StoryFilter, now: int) -> StoryPage:
    matching = []
    for story in stories:
        row = next((row for row in story.rows if story_filter.accepts(row, now)), None)
        if row is not None:
            matching.append((row, story))
    earlier = [(row, story) for row, story in matching if row.number <= story_filter.up_to]
    by_score = story_filter.order == "score"

    def rank(pair: tuple[MatchRow, Story]) -> tuple[float, int, int]:
        row = pair[0]
        return row.score if by_score else 0.0, row.at, row.number

    earlier.sort(key=rank, reverse=True)
    page = earlier[story_filter.skip : story_filter.skip + story_filter.count]
    last = max((row.number for row, _ in earlier), default=0)
    return StoryPage(page, len(earlier), len(matching) - len(earlier), last)


class MatchMirror:
    """Consumes the topic of matches. Thread-safe."""

    def __init__(self, config: Config, period: Period, on_deletion: Callable[[], None]) -> None:
        self._on_deletion, self.period = on_deletion, period
        self._topic, self._room = config.topics.matches, config.desk.matches_bytes
        self._lock = Lock()
        self._cut = set[int]()  # partitions whose older records are skipped
        self._clear()

    def begin(self, cluster: TopicReader) -> Offsets:
        """Starts a day ago, or at the newest records if a day has too many.

        Where the first record is of this day and others were deleted, these may be of it too.
        """
        ends, begin = cluster.ends(self._topic), self.period.begin(cluster, self._topic)
        if self.period.is_file:
            with self._lock:
                self._clear()
            return begin
        now = self.period.now()
        first, most = cluster.beginnings(self._topic), MAX_READ_RECORDS // len(ends)
        with self._lock:
            self._clear()
            self._cut = {
                part
                for part, end in ends.items()
                if end - begin[part] > most or 0 < first[part] == begin[part] < end
            }
            self._since = now - HOURS * HOUR_MS
        return {part: max(begin[part], end - most) for part, end in ends.items()}

    def take(self, batch: Sequence[StoredMessage]) -> None:
        now = now_ms() if self.period.is_file else self.period.now()
        with self._lock:
            log = self._present()
            deletions = log.deletions
            for message in batch:
                if message.partition in self._cut:
                    self._cut.discard(message.partition)
                    self._since = max(self._since, min(message.timestamp, now))
            log.apply(filter(self.period.has, batch), now)
            has_deletions = log.deletions > deletions
        if has_deletions:
            self._on_deletion()

    def finish(self) -> None:
        """Matches are shown while the topic is read."""

    def is_deleted(self, post_id: PostId) -> bool:
        """Of the newest deletions at least; of any instance."""
        with self._lock:
            return post_id in self._log.deleted

    @property
    def since(self) -> int:
        """All matches of posts since this time are counted; milliseconds."""
        if isinstance(self.period, FilePeriod):
            return self.period.latest.first
        with self._lock:
            return self._since

    def events(self) -> list[str]:
        with self._lock:
            return self._present().events

    def version(self, event: str) -> int:
        """Grows with each record that changes the event's matches."""
        with self._lock:
            return self._present().of(event).version

    def counts(self, event: str) -> MatchCounts:
        with self._lock:
            return self._present().of(event).counts(self.period.hours)

    def pass_count(self, event: str, version: str) -> int | None:
        """None if the last hour, or the file, is not fully counted."""
        now, is_file = self.period.now(), self.period.is_file
        with self._lock:
            if not is_file and self._since > now - HOUR_MS:
                return None
            return self._present().of(event).pass_count(version, now)

    def find(self, event: str, story_filter: StoryFilter) -> StoryPage:
        return filter_stories(self.stories(event), story_filter, self.period.now())

    def stories(self, event: str) -> list[Story]:
        """As they are now, in the order of arrival."""
        with self._lock:
            return self._present().of(event).stories

    def draw_rows(self, event: str) -> list[MatchRow]:
        """The matches of the last day, or of the file, that a queue may ask about."""
        with self._lock:
            return self._present().draw_rows(event, self.period.since)

    def row(self, event: str, post_id: PostId) -> MatchRow | None:
        with self._lock:
            return self._present().of(event).row(post_id)

    def copies(self, event: str, group: str) -> list[MatchRow]:
        """The first posts of a story."""
        with self._lock:
            return self._present().of(event).copies(group)[:MAX_STORY_ROWS]

    def _present(self) -> MatchLog:
        """Of a file, that of its latest pass."""
        if self._version != self.period.version:
            self._clear()
        return self._log

    def _clear(self) -> None:
        self._version = self.period.version
        self._log = MatchLog(self._room, self.period.is_file)
        self._since = 0
