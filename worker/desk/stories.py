"""One event's matches on the board: stories, each of posts that say the same, and counts."""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from worker.files.matches import read_match
from worker.judge.labels import PLATFORMS, PostId
from worker.kafka.reading import StoredMessage
from worker.match.records import Match, MatchRecord
from worker.seeds.record import PREFIX
from worker.seeds.values import EVENT_BYTES

HOUR, MINUTE = 3_600_000, 60_000
HOURS = 24
KEPT = 5_000  # stories of an event, the newest
ROWS = 12  # posts of a story, the first
OVERHEAD = 700  # bytes of a post beside its record
LONGEST = 512  # characters of an id
LANGUAGES = 64  # that are told apart
LANGUAGE_CHARS = 16
VERSIONS = 8  # of an event's profile, those that matched last
MOST_MATCHES = 1_000  # of a record, as matching.max_matches allows


@dataclass(frozen=True, slots=True)
class Row:
    """A post that matches an event, as the newest record of it says."""

    number: int  # in the order of their coming, over all events
    at: int  # when the match came: milliseconds
    post_id: PostId
    lang: str
    score: float
    new: bool  # whether it was the first that says so
    group: str
    value: bytes
    by: str  # the version of the event's profile that it matches; empty of seeds alone

    @property
    def record(self) -> MatchRecord:
        """The record itself."""
        found = read_match(self.value)
        assert found is not None
        return found

    @property
    def size(self) -> int:
        """About what it takes in memory."""
        return OVERHEAD + len(self.value)


@dataclass(slots=True)
class Story:
    """Posts that say the same, by the workers' hints."""

    group: str
    count: int = 0  # of posts, those included that are not kept
    last: int = 0  # when the newest came
    rows: dict[PostId, Row] = field(default_factory=dict)

    @property
    def first(self) -> Row:
        """The post that told it first, of those that came here."""
        return next(iter(self.rows.values()))


@dataclass(frozen=True, slots=True)
class Tally:
    """What was counted of an event."""

    number: int  # of the newest match: it grows with every match of the event
    last: int  # when that came
    posts: list[int]  # an hour, the present one last
    stories: list[int]
    languages: dict[str, int]
    platforms: dict[str, int]


class EventBoard:
    """What is kept of one event."""

    def __init__(self) -> None:
        self.size = 0  # bytes
        self.number = self.last = 0
        self._stories: dict[str, Story] = {}
        self._group_of: dict[PostId, str] = {}
        self._hours: dict[int, list[int]] = {}  # posts and stories
        self._minutes: OrderedDict[str, Counter[int]] = (
            OrderedDict()
        )  # posts, by a profile's version
        self._languages: Counter[str] = Counter()
        self._platforms: Counter[str] = Counter()

    def add(self, row: Row, first: bool) -> None:
        """Keep a match, and count it if it is the first of its post."""
        self.number, self.last = row.number, max(self.last, row.at)
        if first:
            self._count(row)
        if row.post_id in self._group_of:
            self._replace(row)
            return
        story = self._stories.setdefault(row.group, Story(row.group))
        story.count += first or not story.rows
        story.last = max(story.last, row.at)
        if len(story.rows) < ROWS:
            story.rows[row.post_id] = row
            self._group_of[row.post_id] = row.group
            self.size += row.size
        if len(self._stories) > KEPT * 5 // 4:
            self.keep(KEPT)

    def keep(self, most: int) -> None:
        """Let go of all stories but so many, the newest."""
        by_age = sorted(self._stories.values(), key=lambda story: story.last)
        for story in by_age[: max(len(by_age) - most, 0)]:
            del self._stories[story.group]
            for row in story.rows.values():
                del self._group_of[row.post_id]
                self.size -= row.size

    @property
    def stories(self) -> list[Story]:
        """The stories that are kept, in the order of their coming."""
        return list(self._stories.values())

    def row(self, post_id: PostId) -> Row | None:
        """The match of a post, if it is kept."""
        group = self._group_of.get(post_id)
        return None if group is None else self._stories[group].rows[post_id]

    def story(self, group: str) -> Story | None:
        """The story of this name, if it is kept."""
        return self._stories.get(group)

    def tally(self, now: int) -> Tally:
        """What was counted in the hours until now."""
        hours = range(now // HOUR - HOURS + 1, now // HOUR + 1)
        posts, stories = ([self._hours.get(hour, (0, 0))[n] for hour in hours] for n in (0, 1))
        told = dict(self._languages), dict(self._platforms)
        return Tally(self.number, self.last, posts, stories, *told)

    def passed(self, version: str, now: int) -> int:
        """How many posts of the last 60 minutes matched this version of the event's profile."""
        counts = self._minutes.get(version, Counter[int]())
        return sum(counts[minute] for minute in range(now // MINUTE - 59, now // MINUTE + 1))

    def _count(self, row: Row) -> None:
        hour = row.at // HOUR
        counts = self._hours.setdefault(hour, [0, 0])
        counts[0] += 1
        counts[1] += row.new
        if len(self._hours) > 2 * HOURS:
            for old in sorted(self._hours)[:-HOURS]:
                del self._hours[old]
        if row.by:
            self._count_passed(row)
        if row.lang in self._languages or len(self._languages) < LANGUAGES:
            self._languages[row.lang] += 1
        self._platforms[row.post_id[0]] += 1

    def _count_passed(self, row: Row) -> None:
        minutes = self._minutes.setdefault(row.by, Counter())
        self._minutes.move_to_end(row.by)
        if len(self._minutes) > VERSIONS:
            self._minutes.popitem(last=False)
        minutes[row.at // MINUTE] += 1
        if len(minutes) > 2 * 60:
            for old in sorted(minutes)[:-60]:
                del minutes[old]

    def _replace(self, row: Row) -> None:
        """Let a newer record of a post stand where the older one did."""
        rows = self._stories[self._group_of[row.post_id]].rows
        old = rows[row.post_id]
        rows[row.post_id] = replace(row, number=old.number, at=old.at, new=old.new, group=old.group)
        self.size += len(row.value) - len(old.value)


def rows_in(message: StoredMessage, number: int, now: int) -> Iterator[tuple[str, Row]]:
    """The events that a message tells a match of, each with its row; none if it tells of none."""
    record, value = read_match(message.value), message.value
    if record is None or value is None or not _is_sound(record):
        return
    at = max(min(message.timestamp, now), 0)
    post_id = record.post.platform, record.post.id
    lang = (record.post.lang or "")[:LANGUAGE_CHARS]
    group = record.group if isinstance(record.group, str) else record.matches[0].match_id
    by_event = defaultdict[str, list[Match]](list)
    for match in record.matches:
        by_event[match.event].append(match)
    for event, own in by_event.items():
        by = next((each.seed_version for each in own if each.seed_id == PREFIX + event), "")
        score, new = max(each.score for each in own), record.new is not False
        yield event, Row(number, at, post_id, lang, score, new, group, value, by[:LONGEST])


def _is_sound(record: MatchRecord) -> bool:
    """Whether a record holds what a worker may have written."""
    groups = [record.group] if isinstance(record.group, str) else []
    names = [record.post.id, *groups, *(match.match_id for match in record.matches)]
    return (
        0 < len(record.matches) <= MOST_MATCHES
        and record.post.platform in PLATFORMS
        and all(0 < len(name) <= LONGEST for name in names)
        and all(0 < len(match.event.encode()) <= EVENT_BYTES for match in record.matches)
        and all(-1.001 <= match.score <= 1.001 for match in record.matches)
    )
