"""The matches of events: one model of the topic, for the desk, for queues and for promises.

It is pure: what it shows does not depend on the order in which partitions are read. Of each post
and event it has the newest record. Counts are of posts: only the first match of a post with an
event counts. The newest matches are kept, within bounds.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import TypeVar

import msgspec

from newsift.files.rows import parse_match_record
from newsift.operations.deletions import DeletedPosts, SourcedPost, parse_deletion, redact, sourced
from newsift.operations.messages import notify
from newsift.operations.times import now_ms
from worker.config import Config
from worker.kafka.reading import StoredMessage, TopicReader
from worker.match.records import Match, MatchRecord, instance_of
from worker.posts.outcome import PLATFORMS, Post, PostId
from worker.posts.times import HOUR_MS, MINUTE_MS, milliseconds, utc
from worker.seeds.record import MAX_EVENT_BYTES, PROFILE_PREFIX

HOURS = 24
ROW_OVERHEAD_BYTES = 750
MAX_EVENT_MATCHES = 20_000
MAX_ID_CHARS = 512
MAX_LANGUAGES = 64
MAX_LANGUAGE_CHARS = 16
MAX_VERSIONS = 8  # The versions of a profile that matched last are counted.
MAX_RECORD_MATCHES = 1_000  # as matching.max_matches allows
MAX_EVENTS = 1_000
MIN_REMEMBERED_POSTS = 2**17  # A later match of a remembered post is not counted again.
SeedVersion = tuple[str, str]  # id and version
NO_VERSION: SeedVersion = "", ""
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class MatchRow:
    """A post that matches an event; a candidate of queues."""

    number: int  # grows in the order of arrival, over all events
    event: str
    post_id: PostId
    at: int  # milliseconds, Kafka's of the post; 0 for a post of a file without a time
    came: int  # milliseconds; when it was processed, and 0 in a file, where all have come
    stored: int  # milliseconds, Kafka's of the record
    lang: str
    score: float
    threshold: float
    seed: SeedVersion  # the seed or profile with this score
    scored_by: tuple[str, str]  # seed set and model
    new: bool  # the first post of its story
    group: str
    value: bytes  # the record
    profile_version: str  # empty if only seeds match
    has_link: bool  # to a seed's page: the post is drawn for nothing
    instance: bytes  # that gave the post's id
    is_deleted: bool = False  # the record is without its content

    @property
    def profile(self) -> SeedVersion:
        """Of the profile with this score; empty for a seed."""
        return self.seed if self.seed[0].startswith(PROFILE_PREFIX) else NO_VERSION

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
    def post(self) -> Post:
        return self.record.post

    @property
    def best(self) -> Match:
        """With the highest score of the event's seeds."""
        matches = (match for match in self.record.matches if match.event == self.event)
        return max(matches, key=lambda match: match.score)

    @property
    def size(self) -> int:
        return ROW_OVERHEAD_BYTES + len(self.value)


def match_rows(
    message: StoredMessage, now: int, number: int = 0, is_file: bool = False
) -> Iterator[MatchRow]:
    """A row for each event; none if the record is not sound. Times are at most `now`."""
    record, value = parse_match_record(message.value), message.value
    if record is None or value is None or not _is_sound(record):
        return
    came = 0 if is_file else milliseconds(utc(record.processed_at))
    by_event = defaultdict[str, list[Match]](list)
    for match in record.matches:
        by_event[match.event].append(match)
    for event, matches in by_event.items():
        of_profile = (m.seed_version for m in matches if m.seed_id == PROFILE_PREFIX + event)
        best = max(matches, key=lambda match: match.score)
        yield MatchRow(
            number=number,
            event=_intern(event),
            post_id=(_intern(record.post.platform), record.post.id),
            at=max(min(record.source.timestamp, now), 0),
            came=came,
            stored=message.timestamp,
            lang=_intern((record.post.lang or "")[:MAX_LANGUAGE_CHARS]),
            score=best.score,
            threshold=best.threshold,
            seed=_intern((best.seed_id, best.seed_version)),
            scored_by=_intern((record.seed_set, record.model)),
            new=record.new is not False,
            group=_intern(
                record.group if isinstance(record.group, str) else record.matches[0].match_id
            ),
            value=value,
            profile_version=_intern(next(of_profile, "")[:MAX_ID_CHARS]),
            has_link=record.has_link,
            instance=instance_of(message),
        )


@lru_cache(2**14)
def _intern(name: T) -> T:
    """The same object for the same names, to save room."""
    return name


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


@dataclass(frozen=True, slots=True)
class Story:
    """Posts with the same text, as the workers group them."""

    group: str
    rows: tuple[MatchRow, ...]  # in the order of arrival

    @property
    def first(self) -> MatchRow:
        return self.rows[0]


@dataclass(frozen=True, slots=True)
class MatchCounts:
    last: int  # the time of the newest post
    left_out: int  # older matches that are not held any more
    all_posts: int
    all_stories: int
    posts: list[int]  # by the hours that were asked for
    languages: dict[str, int]
    platforms: dict[str, int]


class EventMatches:
    def __init__(self, keeps_hours: bool = False) -> None:
        """With `keeps_hours` the counts are of all time, else of the last day."""
        self._keeps_hours = keeps_hours
        self.size = 0  # bytes
        self.version = 0  # the number of the record that changed it last
        self.left_out = 0  # older matches
        self._last = 0
        self._rows: dict[PostId, MatchRow] = {}  # in order of arrival
        self._stories: dict[str, dict[PostId, MatchRow]] = {}  # by group
        self._hours: dict[int, list[int]] = {}  # posts and stories
        self._minutes: OrderedDict[str, Counter[int]] = OrderedDict()  # posts by profile version
        self._languages: Counter[str] = Counter()
        self._platforms: Counter[str] = Counter()

    def add(self, row: MatchRow, is_first: bool) -> None:
        """A match by another profile takes the place of the former, as if it were the first."""
        self.version, self._last = row.number, max(self._last, row.at)
        old = self._rows.get(row.post_id)
        if old is not None and old.profile == row.profile:
            self._replace(
                replace(
                    row, number=old.number, at=old.at, came=old.came, new=old.new, group=old.group
                )
            )
        else:
            if old is not None:
                self._drop(old)
            if self._keeps_hours and row.group not in self._stories:
                row = replace(row, new=True)  # the worker knows its text from an earlier pass
            self._rows[row.post_id] = row
            self._stories.setdefault(row.group, {})[row.post_id] = row
            self.size += row.size
        if is_first:
            self._count(row)
        if len(self._rows) > MAX_EVENT_MATCHES:
            self.drop_oldest()

    def redact(self, deleted: DeletedPosts, post_id: PostId, number: int) -> None:
        """Drops the content of the post if it was deleted."""
        row = self._rows.get(post_id)
        if row is not None and not row.is_deleted and deleted.covers(row.source):
            self._replace(row.without_content())
            self.version = number

    def drop_oldest(self) -> None:
        """A sixteenth of them."""
        oldest = list(islice(self._rows.values(), len(self._rows) // 16 + 1))
        for row in oldest:
            self._drop(row)
        self.left_out += len(oldest)

    def _replace(self, row: MatchRow) -> None:
        self.size += row.size - self._rows[row.post_id].size
        self._rows[row.post_id] = self._stories[row.group][row.post_id] = row

    def _drop(self, row: MatchRow) -> None:
        del self._rows[row.post_id]
        story = self._stories[row.group]
        del story[row.post_id]
        if not story:
            del self._stories[row.group]
        self.size -= row.size

    @property
    def stories(self) -> list[Story]:
        """As they are now, in the order of arrival."""
        return [Story(group, tuple(rows.values())) for group, rows in self._stories.items()]

    @property
    def rows(self) -> list[MatchRow]:
        return list(self._rows.values())

    def row(self, post_id: PostId) -> MatchRow | None:
        return self._rows.get(post_id)

    def copies(self, group: str) -> list[MatchRow]:
        """The posts of a story in the order of arrival."""
        return list(self._stories.get(group, {}).values())

    def counts(self, hours: range) -> MatchCounts:
        posts, all_posts, all_stories = [0] * len(hours), 0, 0
        for hour, (post_count, story_count) in self._hours.items():
            is_within = hours.start <= hour < hours.stop
            if is_within:
                posts[(hour - hours.start) // hours.step] += post_count
            if is_within or self._keeps_hours:
                all_posts += post_count
                all_stories += story_count
        return MatchCounts(
            self._last, self.left_out, all_posts, all_stories, posts, dict(self._languages),
            dict(self._platforms),
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


class MatchLog:
    def __init__(self, room: int, is_file: bool = False, event: str | None = None) -> None:
        """`room` is in bytes; matches of other events than `event`, if it is given, are left out.

        Of a file, the counts are of all its posts, and not of the last day.
        """
        self._room, self._is_file, self._event = room, is_file, event
        self.version = self._size = 0  # records; bytes
        self.deletions = 0
        self._events: dict[str, EventMatches] = {}
        self._young, self._old = set[int](), set[int]()  # hashes of event and post
        self.deleted = DeletedPosts(MIN_REMEMBERED_POSTS)

    @property
    def events(self) -> list[str]:
        return list(self._events)

    def of(self, event: str) -> EventMatches:
        """Those of an event that has none are empty."""
        return self._events.get(event) or EventMatches()

    def draw_rows(self, event: str, since: int = 0) -> list[MatchRow]:
        """Those that a queue may ask about, of records since then, in a fixed order.

        They are sorted by the time they came; of a file by falling score, so that a higher
        threshold leaves the first of a story first.
        """
        rows = (row for row in self.of(event).rows if row.stored >= since and not row.has_link)
        return sorted(rows, key=lambda row: (row.came, -row.score, row.post_id))

    def apply(self, messages: Iterable[StoredMessage], now: int) -> None:
        """Times of posts are at most `now`."""
        for message in messages:
            self.version += 1
            if (deletion := parse_deletion(message.value)) is not None:
                self._delete(sourced(deletion.post.post_id, instance_of(message)))
                continue
            for row in match_rows(message, now, self.version, self._is_file):
                if self._event in (None, row.event):
                    self._add(row)

    def _delete(self, post: SourcedPost) -> None:
        self.deletions += 1
        self.deleted.add(post)
        for matches in self._events.values():
            before = matches.size
            matches.redact(self.deleted, post.post_id, self.version)
            self._size += matches.size - before

    def _add(self, row: MatchRow) -> None:
        matches = self._events.get(row.event)
        if matches is None:
            matches = self._events[row.event] = EventMatches(self._is_file)
        before = matches.size
        row = row.without_content() if self.deleted.covers(row.source) else row
        matches.add(row, is_first=self._remember(row))
        self._size += matches.size - before
        if len(self._events) > MAX_EVENTS * 5 // 4:
            by_age = sorted(self._events, key=lambda name: self._events[name].version)
            for name in by_age[:-MAX_EVENTS]:
                self._size -= self._events.pop(name).size
        while self._size > self._room:
            largest = max(self._events.values(), key=lambda matches: matches.size)
            before = largest.size
            largest.drop_oldest()
            self._size += largest.size - before

    def _remember(self, row: MatchRow) -> bool:
        """False if an earlier match of the post with this event is remembered."""
        digest = hash((row.event, row.post_id))
        if digest in self._young or digest in self._old:
            return False
        self._young.add(digest)
        if len(self._young) >= MIN_REMEMBERED_POSTS:
            self._young, self._old = set(), self._young
        return True


def newest_profile(rows: Sequence[MatchRow]) -> SeedVersion:
    """That the newest match is by; of matches of one time, such as of a file, a profile first."""
    newest = max(rows, key=lambda row: (row.came, row.profile), default=None)
    return newest.profile if newest else NO_VERSION


def read_matches(
    cluster: TopicReader, config: Config, since: int, event: str | None = None
) -> MatchLog:
    """The matches of an event, or of all, since a time in milliseconds."""
    topic, log = config.topics.matches, MatchLog(config.desk.matches_bytes, event=event)
    for batch in cluster.read(topic, cluster.offsets_at(topic, since)):
        log.apply(batch, now_ms())
    if event is not None and (more := log.of(event).left_out):
        notify(f"older matches left out: {more:,}; desk.matches_bytes has room for the newest")
    return log
