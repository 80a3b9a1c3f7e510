"""The time that the desk speaks of: the last day of a stream, or all posts of a file."""

from collections.abc import Callable
from math import ceil

from msgspec import Struct

from newsift.operations.counts import MatchedFile
from newsift.operations.times import now_ms
from newsift.statistics.pass_rates import describe_window
from worker.kafka.reading import Offsets, StoredMessage, TopicReader
from worker.posts.times import DAY_MS, HOUR_MS

BARS = 24  # of a curve


class StreamPeriod:
    is_file, version = False, 0

    def __init__(self, now: Callable[[], int] = now_ms) -> None:
        self.now = now
        self.matches_end: Offsets = {}

    @property
    def since(self) -> int:
        """As commands take matches where no time is given."""
        return self.days_since(1)

    def days_since(self, days: int) -> int:
        return self.now() - days * DAY_MS

    def matched_file(self, _topic: str) -> None:
        return None

    def begin(self, cluster: TopicReader, topic: str) -> Offsets:
        return cluster.offsets_at(topic, self.since)

    def has(self, _message: StoredMessage) -> bool:
        return True

    def is_settled(self, _control_offset: int) -> bool:
        return True

    @property
    def hours(self) -> range:
        """The hours of a curve, since 1970; the last one is the present hour."""
        now = self.now() // HOUR_MS
        return range(now - BARS + 1, now + 1)

    def rates_since(self, since: int) -> int:
        """From when on a rate an hour is made, where all is known since then."""
        return since

    def describe(self, since: int) -> str:
        return describe_window(since, self.now())


class FilePass(Struct, frozen=True):
    """The posts of the files, matched once with the articles of one moment."""

    version: int = 0  # grows with each pass
    control_offset: int = -1  # of the articles
    begin: dict[str, Offsets] = {}  # by topic: where its records begin
    matches_end: Offsets = {}  # once all posts are matched
    first: int = 0  # milliseconds, of the oldest post; 0 where none has a time
    last: int = 0
    posts: int = 0
    done: bool = False  # all posts are matched


class FilePeriod:
    """`latest` is the pass under way, or the last one."""

    is_file, since = True, 0

    def __init__(self) -> None:
        self.latest = FilePass()

    def days_since(self, _days: int) -> int:
        return self.since

    @property
    def version(self) -> int:
        return self.latest.version

    def now(self) -> int:
        """The time of the newest post."""
        return self.latest.last

    def begin(self, cluster: TopicReader, topic: str) -> Offsets:
        """Where the records of the latest pass begin; none is there before the first."""
        return self.latest.begin.get(topic) or cluster.ends(topic)

    def matched_file(self, topic: str) -> MatchedFile:
        """`topic` is that of matches."""
        return MatchedFile(self.latest.begin.get(topic, {}), self.latest.posts)

    @property
    def matches_end(self) -> Offsets:
        return self.latest.matches_end

    def has(self, message: StoredMessage) -> bool:
        """False for a record of an earlier pass."""
        return message.offset >= self.latest.begin.get(message.topic, {}).get(message.partition, 0)

    def is_settled(self, control_offset: int) -> bool:
        """Whether all posts are matched with the articles of this offset."""
        return self.latest.done and self.latest.control_offset == control_offset

    @property
    def hours(self) -> range:
        """Steps of hours from the oldest post to the newest; empty where no post has a time."""
        first, last = self.latest.first // HOUR_MS, self.latest.last // HOUR_MS
        return range(first, last + 1, ceil((last + 1 - first) / BARS)) if last else range(0)

    def rates_since(self, since: int) -> int:
        """The newest post, and so no rate, where the posts are of less than an hour."""
        return self.now() if self.now() - self.latest.first < HOUR_MS else since

    def describe(self, since: int) -> str:
        days = (self.now() - since) / DAY_MS
        count, unit = (days, "day") if days >= 2 else (days * 24, "hour")
        return f"over the {count:.0f} {unit}s of the file"


Period = StreamPeriod | FilePeriod
