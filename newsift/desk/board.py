"""The board: the newest matches of each event, with counts, in bounded memory whatever comes.

Counts are of posts: the first match of a post with an event counts, as the contract has it. Copies
are folded into story groups by the workers' hints; of a group the first posts are kept, and the
number.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from newsift.files.rows import read_match
from newsift.operations.times import now_ms
from newsift.statistics.labels import PLATFORMS
from worker.config import Config
from worker.kafka.reading import Offsets, StoredMessage, TopicReader
from worker.match.records import Match, MatchRecord
from worker.posts.outcome import PostId
from worker.seeds.record import EVENT_BYTES, PREFIX

HOUR, MINUTE = 3_600_000, 60_000
HOURS = 24
MOST_STORIES = 5_000  # stories of an event, the newest
ROWS = 12  # posts of a story, the first
OVERHEAD = 700  # bytes of a post beside its record
LONGEST = 512  # characters of an id
LANGUAGES = 64  # that are told apart
LANGUAGE_CHARS = 16
VERSIONS = 8  # of an event's profile, those that matched last
MOST_MATCHES = 1_000  # of a record, as matching.max_matches allows
ALL = 2**53 - 1  # which every reader of JSON can hold
ANY = ""
MOST_READ = 200_000  # records, the newest: so many are read when the desk is opened
MOST_EVENTS = 1_000
ROOM = 2**26  # bytes of matches
REMEMBERED_POSTS = 2**17  # posts that are remembered, at least, so that none counts twice


@dataclass(frozen=True, slots=True)
class BoardRow:
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
class StoryGroup:
    """Posts that say the same, by the workers' hints."""

    group: str
    count: int = 0  # of posts, those included that are not kept
    last: int = 0  # when the newest came
    rows: dict[PostId, BoardRow] = field(default_factory=dict)

    @property
    def first(self) -> BoardRow:
        """The post that told it first, of those that came here."""
        return next(iter(self.rows.values()))


@dataclass(frozen=True, slots=True)
class EventCounts:
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
        self._stories: dict[str, StoryGroup] = {}
        self._group_of: dict[PostId, str] = {}
        self._hours: dict[int, list[int]] = {}  # posts and stories
        self._minutes: OrderedDict[str, Counter[int]] = (
            OrderedDict()
        )  # posts, by a profile's version
        self._languages: Counter[str] = Counter()
        self._platforms: Counter[str] = Counter()

    def add(self, row: BoardRow, first: bool) -> None:
        """Keep a match, and count it if it is the first of its post."""
        self.number, self.last = row.number, max(self.last, row.at)
        if first:
            self._count(row)
        if row.post_id in self._group_of:
            self._replace(row)
            return
        story = self._stories.setdefault(row.group, StoryGroup(row.group))
        story.count += first or not story.rows
        story.last = max(story.last, row.at)
        if len(story.rows) < ROWS:
            story.rows[row.post_id] = row
            self._group_of[row.post_id] = row.group
            self.size += row.size
        if len(self._stories) > MOST_STORIES * 5 // 4:
            self.keep(MOST_STORIES)

    def keep(self, most: int) -> None:
        """Let go of all stories but so many, the newest."""
        by_age = sorted(self._stories.values(), key=lambda story: story.last)
        for story in by_age[: max(len(by_age) - most, 0)]:
            del self._stories[story.group]
            for row in story.rows.values():
                del self._group_of[row.post_id]
                self.size -= row.size

    @property
    def stories(self) -> list[StoryGroup]:
        """The stories that are kept, in the order of their coming."""
        return list(self._stories.values())

    def row(self, post_id: PostId) -> BoardRow | None:
        """The match of a post, if it is kept."""
        group = self._group_of.get(post_id)
        return None if group is None else self._stories[group].rows[post_id]

    def story(self, group: str) -> StoryGroup | None:
        """The story of this name, if it is kept."""
        return self._stories.get(group)

    def tally(self, now: int) -> EventCounts:
        """What was counted in the hours until now."""
        hours = range(now // HOUR - HOURS + 1, now // HOUR + 1)
        posts, stories = ([self._hours.get(hour, (0, 0))[n] for hour in hours] for n in (0, 1))
        by_name = dict(self._languages), dict(self._platforms)
        return EventCounts(self.number, self.last, posts, stories, *by_name)

    def passed(self, version: str, now: int) -> int:
        """How many posts of the last 60 minutes matched this version of the event's profile."""
        counts = self._minutes.get(version, Counter[int]())
        return sum(counts[minute] for minute in range(now // MINUTE - 59, now // MINUTE + 1))

    def _count(self, row: BoardRow) -> None:
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

    def _count_passed(self, row: BoardRow) -> None:
        minutes = self._minutes.setdefault(row.by, Counter())
        self._minutes.move_to_end(row.by)
        if len(self._minutes) > VERSIONS:
            self._minutes.popitem(last=False)
        minutes[row.at // MINUTE] += 1
        if len(minutes) > 2 * 60:
            for old in sorted(minutes)[:-60]:
                del minutes[old]

    def _replace(self, row: BoardRow) -> None:
        """Let a newer record of a post stand where the older one did."""
        rows = self._stories[self._group_of[row.post_id]].rows
        old = rows[row.post_id]
        rows[row.post_id] = replace(row, number=old.number, at=old.at, new=old.new, group=old.group)
        self.size += len(row.value) - len(old.value)


def rows_in(message: StoredMessage, number: int, now: int) -> Iterator[tuple[str, BoardRow]]:
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
        yield event, BoardRow(number, at, post_id, lang, score, new, group, value, by[:LONGEST])


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


@dataclass(frozen=True, slots=True)
class MatchFilter:
    """Which stories, and how many: what is not said is any."""

    since: int = 0  # milliseconds
    lang: str = ANY
    platform: str = ANY
    least: float = -2.0  # score
    most: float = 2.0
    new: bool = False  # only those of which the first post came here
    text: str = ""
    seen: int = ALL  # the number of the last match that the page has shown; later ones are counted
    skip: int = 0
    count: int = 50

    def takes(self, row: BoardRow) -> bool:
        """Whether a post is wanted."""
        return (
            self.since <= row.at
            and self.least <= row.score <= self.most
            and self.lang in (ANY, row.lang)
            and self.platform in (ANY, row.post_id[0])
            and (row.new or not self.new)
            and (not self.text or self._says(row))
        )

    def _says(self, row: BoardRow) -> bool:
        post = row.record.post
        sought = self.text.casefold()
        return sought in post.text.casefold() or sought in (post.author or "").casefold()


@dataclass(frozen=True, slots=True)
class StoryPage:
    """Some stories, newest first, each by the first of its posts that is wanted."""

    stories: list[tuple[BoardRow, StoryGroup]]
    total: int  # of them, beyond those given too
    newer: int  # that came since what the page has shown
    last: int  # the number of the newest, to be given as `seen`


def filter_stories(stories: Iterable[StoryGroup], match_filter: MatchFilter) -> StoryPage:
    """The stories with a post that is wanted."""
    matching = []
    for story in stories:
        row = next((row for row in list(story.rows.values()) if match_filter.takes(row)), None)
        if row is not None:
            matching.append((row, story))
    earlier = [each for each in matching if each[0].number <= match_filter.seen]
    earlier.sort(key=lambda each: (each[0].at, each[0].number), reverse=True)
    page = earlier[match_filter.skip : match_filter.skip + match_filter.count]
    last = max((row.number for row, _ in earlier), default=0)
    return StoryPage(page, len(earlier), len(matching) - len(earlier), last)


class Board:
    """Follows the topic of matches; whatever it gives may be asked by any thread."""

    def __init__(
        self,
        config: Config,
        pinned: Callable[[], Collection[str]] = tuple,
        now: Callable[[], int] = now_ms,
    ) -> None:
        """`kept` names the events that are not forgotten first where too many come."""
        self._topic, self._pinned, self._now = config.topics.matches, pinned, now
        self._lock = Lock()
        self._cut = set[int]()  # partitions of which older records are not read
        self._forget()

    def begin(self, cluster: TopicReader) -> Offsets:
        """Forget everything, and read the last day, or as many records as are looked at."""
        with self._lock:
            self._forget()
            now, ends = self._now(), cluster.ends(self._topic)
            day = cluster.at(self._topic, now - HOURS * HOUR)
            most = MOST_READ // len(ends)
            self._cut = {part for part, end in ends.items() if end - day[part] > most}
            self._since = now - HOURS * HOUR
        return {part: max(day[part], end - most) for part, end in ends.items()}

    def take(self, batch: Sequence[StoredMessage]) -> None:
        """Keep what came."""
        now = self._now()
        with self._lock:
            for message in batch:
                self._take(message, now)

    @property
    def since(self) -> int:
        """The time from which on all matches are counted, in milliseconds."""
        with self._lock:
            return self._since

    @property
    def passed_over(self) -> int:
        """How many records were none of a match."""
        with self._lock:
            return self._passed_over

    def events(self) -> list[str]:
        """The events that posts matched."""
        with self._lock:
            return list(self._events)

    def tally(self, event: str) -> EventCounts:
        """What was counted of one event."""
        with self._lock:
            return self._events.get(event, EventBoard()).tally(self._now())

    def passed(self, event: str, version: str) -> int | None:
        """How many posts matched a version of a profile within an hour; None if not all counted."""
        now = self._now()
        with self._lock:
            if self._since > now - HOUR:
                return None
            return self._events.get(event, EventBoard()).passed(version, now)

    def find(self, event: str, match_filter: MatchFilter) -> StoryPage:
        """The stories of an event that somebody wants to see."""
        return filter_stories(self.stories(event), match_filter)

    def stories(self, event: str) -> list[StoryGroup]:
        """All stories of an event that are kept, in the order of their coming."""
        with self._lock:
            return self._events[event].stories if event in self._events else []

    def rows(self, event: str) -> list[BoardRow]:
        """All matches of an event that are kept, in the order of their coming."""
        with self._lock:
            stories = self._events[event].stories if event in self._events else []
            rows = [row for story in stories for row in story.rows.values()]
        return sorted(rows, key=lambda row: row.number)

    def row(self, event: str, post_id: PostId) -> BoardRow | None:
        """The match of one post, if it is kept."""
        with self._lock:
            return self._events[event].row(post_id) if event in self._events else None

    def copies(self, event: str, group: str) -> list[BoardRow]:
        """The posts of a story that are kept, in the order of their coming."""
        with self._lock:
            story = self._events[event].story(group) if event in self._events else None
            return [] if story is None else list(story.rows.values())

    def _forget(self) -> None:
        self._events: dict[str, EventBoard] = {}
        self._young, self._old = set[int](), set[int]()  # posts, by hashes
        self._number = self._passed_over = self._since = self._size = 0

    def _take(self, message: StoredMessage, now: int) -> None:
        if message.partition in self._cut:
            self._cut.discard(message.partition)
            self._since = max(self._since, min(message.timestamp, now))
        self._number += 1
        rows = list(rows_in(message, self._number, now))
        self._passed_over += not rows
        for event, row in rows:
            board = self._events.setdefault(event, EventBoard())
            before = board.size
            board.add(row, self._is_first(event, row.post_id))
            self._size += board.size - before
        if len(self._events) > MOST_EVENTS * 5 // 4:
            self._drop_events()
        while self._size > ROOM:
            self._halve()

    def _is_first(self, event: str, post_id: PostId) -> bool:
        named = hash((event, post_id))
        if named in self._young or named in self._old:
            return False
        self._young.add(named)
        if len(self._young) >= REMEMBERED_POSTS:
            self._young, self._old = set(), self._young
        return True

    def _drop_events(self) -> None:
        """Forget events, first of all those that nobody has seeds for, in the order of time."""
        pinned = self._pinned()
        by_age = sorted(self._events, key=lambda name: (name in pinned, self._events[name].number))
        for name in by_age[:-MOST_EVENTS]:
            self._size -= self._events.pop(name).size

    def _halve(self) -> None:
        """Let go of the older stories of the event that takes most."""
        largest = max(self._events.values(), key=lambda board: board.size)
        before = largest.size
        largest.keep(len(largest.stories) // 2)
        self._size += largest.size - before
