"""The newest matches of each event, with counts, in bounded memory.

Counts are of posts: only the first match of a post with an event counts. Workers name the story
group of each match; of a group the first posts are kept, and the number of all.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from newsift.desk.period import FilePeriod, Period, StreamPeriod
from newsift.files.deletions import DeletedPosts, SourcedPost, parse_deletion, redact, sourced
from newsift.files.rows import parse_match_record
from newsift.operations.times import now_ms
from worker.config import Config
from worker.kafka.reading import Offsets, StoredMessage, TopicReader
from worker.match.records import Match, MatchRecord, instance_of
from worker.posts.compare import as_text
from worker.posts.outcome import PLATFORMS, PostId
from worker.posts.times import HOUR_MS, MINUTE_MS
from worker.seeds.record import MAX_EVENT_BYTES, PROFILE_PREFIX

HOURS = 24
MAX_EVENT_STORIES = 5_000
MAX_STORY_ROWS = 12
ROW_OVERHEAD_BYTES = 700
MAX_ID_CHARS = 512
MAX_LANGUAGES = 64
MAX_LANGUAGE_CHARS = 16
MAX_SEARCH_CHARS = 200
MAX_VERSIONS = 8  # The versions of a profile that matched last are counted.
MAX_RECORD_MATCHES = 1_000  # as matching.max_matches allows
MAX_JSON_INTEGER = 2**53 - 1  # Every reader of JSON can hold it.
ANY = ""
MAX_READ_RECORDS = 200_000  # The desk reads at most so many records when it starts.
MAX_EVENTS = 1_000
MAX_ROW_BYTES = 2**26
MIN_REMEMBERED_POSTS = 2**17  # A later match of a remembered post is not counted again.
Score = Annotated[float, Meta(ge=-2, le=2)]


@dataclass(frozen=True, slots=True)
class MatchRow:
    """The newest match of a post with an event."""

    number: int  # grows in the order of arrival, over all events
    at: int  # milliseconds, Kafka's of the post; 0 for a post of a file without a time
    post_id: PostId
    lang: str
    score: float
    new: bool  # the first post of its story
    group: str
    value: bytes  # the record
    profile_version: str  # empty if only seeds match
    has_link: bool  # to a seed's page: the post is drawn for nothing
    instance: bytes  # that gave the post's id
    is_deleted: bool = False  # the record is without its content

    @property
    def source(self) -> SourcedPost:
        return sourced(self.post_id, self.instance)

    def without_content(self) -> "MatchRow":
        return replace(self, value=msgspec.json.encode(redact(self.record)), is_deleted=True)

    @property
    def record(self) -> MatchRecord:
        record = parse_match_record(self.value)
        assert record is not None
        return record

    @property
    def size(self) -> int:
        return ROW_OVERHEAD_BYTES + len(self.value)


@dataclass(slots=True)
class Story:
    """Posts with the same text, as the workers group them."""

    group: str
    count: int = 0  # of posts, also those without a row
    last: int = 0  # time of the newest post
    rows: dict[PostId, MatchRow] = field(default_factory=dict)  # in order of arrival

    @property
    def first(self) -> MatchRow:
        first, *_ = self.rows.values()  # in one step: another thread may add a row meanwhile
        return first


@dataclass(frozen=True, slots=True)
class EventCounts:
    number: int  # of the newest match
    last: int  # the time of the newest post
    all_posts: int
    all_stories: int
    posts: list[int]  # by the hours that were asked for
    stories: list[int]
    languages: dict[str, int]
    platforms: dict[str, int]


class EventMatches:
    def __init__(self, keeps_hours: bool = False) -> None:
        """With `keeps_hours` the counts are of all time, else of the last day."""
        self._keeps_hours = keeps_hours
        self.size = 0  # bytes
        self.number = self.last = 0
        self._stories: dict[str, Story] = {}
        self._group_of: dict[PostId, str] = {}
        self._hours: dict[int, list[int]] = {}  # posts and stories
        self._minutes: OrderedDict[str, Counter[int]] = OrderedDict()  # posts by profile version
        self._languages: Counter[str] = Counter()
        self._platforms: Counter[str] = Counter()

    def add(self, row: MatchRow, is_first: bool) -> None:
        self.number, self.last = row.number, max(self.last, row.at)
        if is_first:
            self._count(row)
        if row.post_id in self._group_of:
            rows = self._stories[self._group_of[row.post_id]].rows
            old = rows[row.post_id]
            rows[row.post_id] = replace(
                row, number=old.number, at=old.at, new=old.new, group=old.group
            )
            self.size += len(row.value) - len(old.value)
            return
        story = self._stories.setdefault(row.group, Story(row.group))
        story.count += is_first or not story.rows
        story.last = max(story.last, row.at)
        if len(story.rows) < MAX_STORY_ROWS:
            story.rows[row.post_id] = row
            self._group_of[row.post_id] = row.group
            self.size += row.size
        if len(self._stories) > MAX_EVENT_STORIES * 5 // 4:
            self.keep(MAX_EVENT_STORIES)

    def redact(self, deleted: DeletedPosts, post_id: PostId, number: int) -> None:
        """Drops the content of the post if it was deleted."""
        row = self.row(post_id)
        if row is not None and not row.is_deleted and deleted.covers(row.source):
            bare = row.without_content()
            self._stories[self._group_of[post_id]].rows[post_id] = bare
            self.size += bare.size - row.size
            self.number = number

    def keep(self, most: int) -> None:
        """Drops all but the newest `most` stories."""
        by_age = sorted(self._stories.values(), key=lambda story: story.last)
        for story in by_age[: max(len(by_age) - most, 0)]:
            del self._stories[story.group]
            for row in story.rows.values():
                del self._group_of[row.post_id]
                self.size -= row.size

    @property
    def stories(self) -> list[Story]:
        """The stories in the order of arrival."""
        return list(self._stories.values())

    def row(self, post_id: PostId) -> MatchRow | None:
        group = self._group_of.get(post_id)
        return None if group is None else self._stories[group].rows[post_id]

    def story(self, group: str) -> Story | None:
        return self._stories.get(group)

    def counts(self, hours: range) -> EventCounts:
        posts, stories = [0] * len(hours), [0] * len(hours)
        for hour, (post_count, story_count) in self._hours.items():
            if hours.start <= hour < hours.stop:
                step = (hour - hours.start) // hours.step
                posts[step] += post_count
                stories[step] += story_count
        all_posts, all_stories = (sum(counts[n] for counts in self._hours.values()) for n in (0, 1))
        return EventCounts(
            self.number, self.last, all_posts if self._keeps_hours else sum(posts),
            all_stories if self._keeps_hours else sum(stories), posts, stories,
            dict(self._languages), dict(self._platforms),
        )  # fmt: skip

    def pass_count(self, version: str, now: int) -> int:
        """Posts of the last 60 minutes, or of all time, that match this version of the profile."""
        counts = self._minutes.get(version, Counter[int]())
        first = 0 if self._keeps_hours else now // MINUTE_MS - 59
        return sum(n for minute, n in counts.items() if first <= minute <= now // MINUTE_MS)

    def _count(self, row: MatchRow) -> None:
        hour = row.at // HOUR_MS
        counts = self._hours.setdefault(hour, [0, 0])
        counts[0] += 1
        counts[1] += row.new
        if len(self._hours) > 2 * HOURS and not self._keeps_hours:
            for old in sorted(self._hours)[:-HOURS]:
                del self._hours[old]
        if row.profile_version and not row.has_link:
            self._count_passed(row)
        if row.lang in self._languages or len(self._languages) < MAX_LANGUAGES:
            self._languages[row.lang] += 1
        self._platforms[row.post_id[0]] += 1

    def _count_passed(self, row: MatchRow) -> None:
        minutes = self._minutes.setdefault(row.profile_version, Counter())
        self._minutes.move_to_end(row.profile_version)
        if len(self._minutes) > MAX_VERSIONS:
            self._minutes.popitem(last=False)
        minutes[row.at // MINUTE_MS] += 1
        if len(minutes) > 2 * 60 and not self._keeps_hours:
            for old in sorted(minutes)[:-60]:
                del minutes[old]


def rows_in(message: StoredMessage, number: int, now: int) -> Iterator[tuple[str, MatchRow]]:
    """A row for each event; none if the record is not sound."""
    record, value = parse_match_record(message.value), message.value
    if record is None or value is None or not _is_sound(record):
        return
    at = max(min(record.source.timestamp, now), 0)
    post_id = record.post.platform, record.post.id
    lang = (record.post.lang or "")[:MAX_LANGUAGE_CHARS]
    group = record.group if isinstance(record.group, str) else record.matches[0].match_id
    instance = instance_of(message)
    by_event = defaultdict[str, list[Match]](list)
    for match in record.matches:
        by_event[match.event].append(match)
    for event, matches in by_event.items():
        of_profile = (m.seed_version for m in matches if m.seed_id == PROFILE_PREFIX + event)
        version = next(of_profile, "")[:MAX_ID_CHARS]
        score, new = max(match.score for match in matches), record.new is not False
        yield (
            event,
            MatchRow(
                number=number,
                at=at,
                post_id=post_id,
                lang=lang,
                score=score,
                new=new,
                group=group,
                value=value,
                profile_version=version,
                has_link=record.has_link,
                instance=instance,
            ),
        )


def _is_sound(record: MatchRecord) -> bool:
    """Whether a worker may have written it."""
    groups = [record.group] if isinstance(record.group, str) else []
    names = [record.post.id, *groups, *(match.match_id for match in record.matches)]
    return (
        0 < len(record.matches) <= MAX_RECORD_MATCHES
        and record.post.platform in PLATFORMS
        and all(0 < len(name) <= MAX_ID_CHARS for name in names)
        and all(0 < len(match.event.encode()) <= MAX_EVENT_BYTES for match in record.matches)
        and all(-1.001 <= match.score <= 1.001 for match in record.matches)
    )


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
        rows = list(story.rows.values())
        row = next((row for row in rows if story_filter.accepts(row, now)), None)
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


class MatchStore:
    """Consumes the topic of matches. Thread-safe."""

    def __init__(
        self, config: Config, current: Callable[[], Collection[str]] = tuple,
        period: Period | None = None, on_deletion: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """Events that `current` returns are dropped last."""
        self._on_deletion = on_deletion
        self._topic, self._current = config.topics.matches, current
        self.period = period or StreamPeriod()
        self._lock, self._number = Lock(), 0
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
        deletions = 0
        with self._lock:
            self._forget_earlier_pass()
            for message in batch:
                if self.period.has(message):
                    deletions += self._take(message, now)
        if deletions:
            self._on_deletion()

    def is_deleted(self, post_id: PostId) -> bool:
        """Of the newest deletions at least; of any instance."""
        with self._lock:
            return post_id in self._deleted

    @property
    def since(self) -> int:
        """All matches of posts since this time are counted; milliseconds."""
        if isinstance(self.period, FilePeriod):
            return self.period.latest.first
        with self._lock:
            return self._since

    def events(self) -> list[str]:
        with self._lock:
            self._forget_earlier_pass()
            return list(self._events)

    def counts(self, event: str) -> EventCounts:
        with self._lock:
            return self._of(event).counts(self.period.hours)

    def pass_count(self, event: str, version: str) -> int | None:
        """None if the last hour, or the file, is not fully counted."""
        now, is_file = self.period.now(), self.period.is_file
        with self._lock:
            if not is_file and self._since > now - HOUR_MS:
                return None
            return self._of(event).pass_count(version, now)

    def find(self, event: str, story_filter: StoryFilter) -> StoryPage:
        return filter_stories(self.stories(event), story_filter, self.period.now())

    def stories(self, event: str) -> list[Story]:
        with self._lock:
            return self._of(event).stories

    def row(self, event: str, post_id: PostId) -> MatchRow | None:
        with self._lock:
            return self._of(event).row(post_id)

    def copies(self, event: str, group: str) -> list[MatchRow]:
        """The posts of a story in the order of arrival."""
        with self._lock:
            story = self._of(event).story(group)
            return [] if story is None else list(story.rows.values())

    def _of(self, event: str) -> EventMatches:
        self._forget_earlier_pass()
        return self._events.get(event) or EventMatches()

    def _forget_earlier_pass(self) -> None:
        if self._version != self.period.version:
            self._clear()

    def _clear(self) -> None:
        self._version = self.period.version
        self._events: dict[str, EventMatches] = {}
        self._young, self._old = set[int](), set[int]()  # hashes of event and post
        self._deleted = DeletedPosts(MIN_REMEMBERED_POSTS)
        self._since = self._size = 0

    def _take(self, message: StoredMessage, now: int) -> bool:
        """Whether it is a deletion."""
        if message.partition in self._cut:
            self._cut.discard(message.partition)
            self._since = max(self._since, min(message.timestamp, now))
        self._number += 1
        if (deletion := parse_deletion(message.value)) is not None:
            self._deleted.add(sourced(deletion.post_id, instance_of(message)))
            for matches in self._events.values():
                before = matches.size
                matches.redact(self._deleted, deletion.post_id, self._number)
                self._size += matches.size - before
            return True
        for event, row in rows_in(message, self._number, now):
            matches = self._events.setdefault(event, EventMatches(self.period.is_file))
            if self.period.is_file and matches.story(row.group) is None:
                row = replace(row, new=True)  # the worker knows its text from an earlier pass
            before = matches.size
            row = row.without_content() if self._deleted.covers(row.source) else row
            matches.add(row, self._is_first(event, row.post_id))
            self._size += matches.size - before
        if len(self._events) > MAX_EVENTS * 5 // 4:
            self._drop_events()
        while self._size > MAX_ROW_BYTES:
            largest = max(self._events.values(), key=lambda matches: matches.size)
            before = largest.size
            largest.keep(len(largest.stories) // 2)
            self._size += largest.size - before
        return False

    def _is_first(self, event: str, post_id: PostId) -> bool:
        digest = hash((event, post_id))
        if digest in self._young or digest in self._old:
            return False
        self._young.add(digest)
        if len(self._young) >= MIN_REMEMBERED_POSTS:
            self._young, self._old = set(), self._young
        return True

    def _drop_events(self) -> None:
        """Events without seeds first, then those with the oldest matches."""
        current = self._current()
        by_age = sorted(self._events, key=lambda name: (name in current, self._events[name].number))
        for name in by_age[:-MAX_EVENTS]:
            self._size -= self._events.pop(name).size
