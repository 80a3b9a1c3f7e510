"""An event for others to use: which matches are selected, their counts, and files of them."""

import io
import sqlite3
import tempfile
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import IO, Self, TypeVar

from encoder.errors import InputError
from newsift.files.labels import CSV_COLUMNS, label_row
from newsift.files.rows import IN_TOPIC, Layout, OutputRecord, csv_row, read_match
from newsift.files.sqlite import database
from newsift.files.writers import FORMATS, check_format, keeping
from newsift.statistics.labels import Label
from worker.config import Config
from worker.errors import OutputError
from worker.kafka.reading import Offsets, TopicReader
from worker.match.records import Match, MatchRecord
from worker.posts.outcome import PostId
from worker.posts.times import LAST_MS, milliseconds, rfc3339, utc

PATIENCE_S = 300.0  # that the topic of matches is read for
K = TypeVar("K")
HOUR, MINUTE = 3_600_000, 60_000
FEW_HOURS = 2 * HOUR
LONGEST = 256  # characters of a name
MOST_POSTS = 2_000_000
MOST_NAMES = 1_000  # seeds, sets of seeds and models that are told apart
LARGEST = 2**29  # bytes of a file
KINDS: Mapping[str, str] = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "db": "application/vnd.sqlite3",
    "parquet": "application/vnd.apache.parquet",
}
LABEL, JUDGES = "label", "judges"
LABELS_TABLE = """
CREATE TABLE labels (
    event TEXT, label TEXT, "by" TEXT, at TEXT, platform TEXT, post_id TEXT, drawn TEXT,
    probability REAL, score REAL, seed_set TEXT, model TEXT
);
CREATE INDEX labels_by_post ON labels (post_id, platform);
"""
MOST_FILES = 2
MOST_COUNTS = 2  # that are under way or waited for: whoever counts keeps one of the desk's hands
MOST_TALLIES = 8  # tallies
FRESH_S = 30.0  # for so long a page's figures are of one count, whatever comes meanwhile


@dataclass(frozen=True, slots=True)
class Selection:
    """An event, a span of Kafka's time in milliseconds, and the least score."""

    event: str
    since: int | None = None
    until: int | None = None
    threshold: float | None = None

    @classmethod
    def of(cls, event: str, since: str, until: str, threshold: float | None) -> Self:
        """What somebody asked for in words; an empty time bounds nothing."""
        span = _time("since", since), _time("until", until)
        if None not in span and span[0] >= span[1]:  # type: ignore[operator]
            raise InputError(f"until: {until} is not after since, {since}; give a later time")
        return cls(event, *span, threshold)

    def matches(self, record: MatchRecord) -> list[Match]:
        """Those of a record's matches that are meant."""
        least = -1.0 if self.threshold is None else self.threshold
        return [m for m in record.matches if m.event == self.event and m.score >= least]

    def span(self, cluster: TopicReader, topic: str) -> tuple[Offsets, Offsets]:
        """From where to where a topic holds what came in that time."""
        start = cluster.beginnings(topic) if self.since is None else cluster.at(topic, self.since)
        end = cluster.ends(topic) if self.until is None else cluster.at(topic, self.until)
        return start, end

    def rows(self, cluster: TopicReader, config: Config) -> Iterator[list[OutputRecord]]:
        """The records with such matches, batch by batch; refused where that takes too long."""
        topic, until = config.topics.matches, monotonic() + PATIENCE_S
        cluster.partitions(topic)
        for batch in cluster.read(topic, *self.span(cluster, topic), until):
            rows = ((each, read_match(each.value)) for each in batch)
            yield [
                OutputRecord(each.value or b"", record, own) for each, record in rows
                if record is not None and (own := self.matches(record))
            ]  # fmt: skip
        if monotonic() >= until:
            raise InputError(
                f"since: {topic} cannot be read within {PATIENCE_S:g} s; give a later time"
            )


def _time(name: str, text: str) -> int | None:
    if not text:
        return None
    if (moment := utc(text)) is None:
        raise InputError(f"{name}: {text[:40]!r} is no time; write 2026-11-22T09:30:00Z")
    return milliseconds(moment)


@dataclass
class MatchCounts:
    """Posts, each counted at its first match with the event, and what they were matched by."""

    matches: int = 0  # records that name the event, copies delivered again included
    first: int = LAST_MS  # when the first post came to its topic, in milliseconds
    last: int = 0
    scores: list[float] = field(default_factory=list)  # the best one of each post
    hours: Counter[int] = field(default_factory=Counter)  # posts by hours since 1970
    minutes: Counter[int] = field(
        default_factory=Counter
    )  # by minutes, while they are of few hours
    seeds: Counter[tuple[str, str]] = field(default_factory=Counter)  # posts by id and version
    thresholds: Counter[float] = field(default_factory=Counter)
    seed_sets: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    stories: int = 0
    ungrouped: int = 0  # posts of records that say nothing of stories
    _posts: set[bytes] = field(default_factory=set)
    _groups: set[bytes] = field(default_factory=set)

    @property
    def posts(self) -> int:
        """How many different posts matched."""
        return len(self.scores)

    def add(self, row: OutputRecord) -> None:
        """Count a record with its matches of the event."""
        self.matches += 1
        record, best = row.record, max(row.matches, key=lambda match: match.score)
        if not _is_new(self._posts, [record.post.platform, record.post.id]):
            return
        if len(self._posts) > MOST_POSTS:
            raise InputError(
                f"since: more than {MOST_POSTS:,} posts match; give a later time, or a higher score"
            )
        at = came_at(record)
        self.first, self.last = min(self.first, at), max(self.last, at)
        self.scores.append(_cosine(best.score))
        self.hours[at // HOUR] += 1
        if self.last - self.first < FEW_HOURS:
            self.minutes[at // MINUTE] += 1
        else:
            self.minutes.clear()
        _count(self.seeds, (best.seed_id[:LONGEST], best.seed_version[:LONGEST]))
        _count(self.thresholds, _cosine(best.threshold))
        _count(self.seed_sets, record.seed_set[:LONGEST])
        _count(self.models, record.model[:LONGEST])
        grouped = isinstance(record.group, str)
        self.ungrouped += not grouped
        self.stories += _is_new(self._groups, [str(record.group)]) if grouped else 1


def count_matches(cluster: TopicReader, config: Config, selection: Selection) -> MatchCounts:
    """The matches that are meant, counted."""
    tally = MatchCounts()
    for batch in selection.rows(cluster, config):
        for row in batch:
            tally.add(row)
    return tally


def came_at(record: MatchRecord) -> int:
    """When a post came to its topic, as Kafka says; else when it was worked on."""
    if 0 < record.source.timestamp <= LAST_MS:
        return record.source.timestamp
    try:
        return milliseconds(utc(record.processed_at))
    except (ValueError, OverflowError):
        return 0


def span_of(tally: MatchCounts) -> tuple[str, str] | None:
    """When the first and the last post came; None where there is none."""
    return (rfc3339(tally.first), rfc3339(tally.last)) if tally.posts else None


def _is_new(digests: set[bytes], names: Iterable[str]) -> bool:
    """Whether a name was not there before; it is from now on."""
    digest = blake2b(digest_size=12)
    for name in names:
        digest.update(name.encode("utf-8", "surrogatepass") + b"\0")
    before = len(digests)
    digests.add(digest.digest())
    return len(digests) > before


def _count(counter: Counter[K], name: K) -> None:
    if name in counter or len(counter) < MOST_NAMES:
        counter[name] += 1


def _cosine(score: float) -> float:
    """A score, whatever somebody else has written in its place."""
    return min(max(score, -1.0), 1.0)


def matches_file(
    cluster: TopicReader, config: Config, selection: Selection, form: str, labels: Sequence[Label]
) -> IO[bytes]:
    """A file without a name that holds the matches, and what people said of them."""
    with tempfile.TemporaryDirectory(prefix="newsift-desk-") as folder:
        path = Path(folder) / f"matches.{form}"
        check_format("form", path)
        written = FORMATS[path.suffix]
        layout = Layout(IN_TOPIC, None, () if written is database else (LABEL, JUDGES))
        verdicts = _label_columns(labels)
        with keeping(path, written, layout) as add:
            for batch in selection.rows(cluster, config):
                add([replace(each, columns=verdicts.get(_post_id(each), {})) for each in batch])
                _check_size(Path(folder))
        if written is database:
            _add_labels(path, labels)
        return path.open("rb")


def labels_csv(labels: Iterable[Label]) -> bytes:
    """Labels as `newsift labels export` writes them."""
    return csv_row(CSV_COLUMNS).encode() + b"".join(map(label_row, labels))


def _label_columns(labels: Iterable[Label]) -> dict[PostId, dict[str, str]]:
    """What people say of each post: together, and each by himself."""
    each: defaultdict[PostId, dict[str, str]] = defaultdict(dict)
    for label in labels:
        each[label.post_id][label.by] = label.label
    return {
        post: {
            LABEL: "; ".join(sorted(set(verdicts.values()))),
            JUDGES: "; ".join(f"{by}: {word}" for by, word in sorted(verdicts.items())),
        }
        for post, verdicts in each.items()
    }


def _post_id(row: OutputRecord) -> PostId:
    return row.record.post.platform, row.record.post.id


def _check_size(folder: Path) -> None:
    if sum(file.stat().st_size for file in folder.iterdir()) > LARGEST:
        raise InputError(
            f"since: the file grows beyond {LARGEST >> 20} MiB; give a later time or a higher score"
        )


def _add_labels(path: Path, labels: Iterable[Label]) -> None:
    """Put labels into a table of their own."""
    rows = [
        (
            *(label.event, label.label, label.by, label.at, *label.post_id, label.drawn),
            *(label.probability, label.score, label.seed_set, label.model),
        )
        for label in labels
    ]
    clean = [[c.replace("\0", "�") if isinstance(c, str) else c for c in row] for row in rows]
    try:
        with closing(sqlite3.connect(path)) as db, db:
            db.executescript(LABELS_TABLE)
            db.executemany(f"INSERT INTO labels VALUES ({', '.join('?' * 11)})", clean)
    except sqlite3.Error as error:
        raise OutputError(f"labels: cannot be written ({error})") from error


@dataclass(frozen=True, slots=True)
class CachedTally:
    """A tally, and of what: it holds while the topic stands, and for a moment in any case."""

    tally: MatchCounts
    span: tuple[Offsets, Offsets]
    at: float

    def holds(self, span: tuple[Offsets, Offsets]) -> bool:
        """Whether it can be shown for what the topic holds now."""
        return span == self.span or time.monotonic() - self.at < FRESH_S


class Exports:
    """Turns at files, and the latest tallies, so that a page's figures are counted once."""

    def __init__(self) -> None:
        self._lock, self._counting = Lock(), Lock()
        self._users: set[str] = set()
        self._counts = BoundedSemaphore(MOST_COUNTS)
        self._tallies: OrderedDict[Selection, CachedTally] = OrderedDict()

    def file(self, by: str, make: Callable[[], IO[bytes]]) -> IO[bytes]:
        """A file that somebody asked for, as long as he has no other under way."""
        with self._lock:
            if by in self._users:
                raise InputError("export: one is under way for you; wait for its end")
            if len(self._users) >= MOST_FILES:
                raise InputError(f"export: {MOST_FILES} are under way; wait for the end of one")
            self._users.add(by)
        try:
            return _ClosingFile(make(), lambda: self._release(by))
        except BaseException:
            self._release(by)
            raise

    def tally(self, cluster: TopicReader, config: Config, selection: Selection) -> MatchCounts:
        """The matches that are meant, counted; anew only if the topic has changed."""
        cluster.partitions(config.topics.matches)
        span = selection.span(cluster, config.topics.matches)
        if cached := self._cached(selection, span):
            return cached
        if not self._counts.acquire(blocking=False):
            raise InputError("export: other events are being counted; try again in a moment")
        try:
            with self._counting:
                return self._cached(selection, span) or self._counted(
                    cluster, config, selection, span
                )
        finally:
            self._counts.release()

    def _cached(self, selection: Selection, span: tuple[Offsets, Offsets]) -> MatchCounts | None:
        cached = self._tallies.get(selection)
        return cached.tally if cached and cached.holds(span) else None

    def _counted(
        self,
        cluster: TopicReader,
        config: Config,
        selection: Selection,
        span: tuple[Offsets, Offsets],
    ) -> MatchCounts:
        tally = count_matches(cluster, config, selection)
        with self._lock:
            self._tallies.pop(selection, None)
            self._tallies[selection] = CachedTally(tally, span, time.monotonic())
            if len(self._tallies) > MOST_TALLIES:
                self._tallies.popitem(last=False)
        return tally

    def _release(self, by: str) -> None:
        with self._lock:
            self._users.discard(by)


class _ClosingFile(io.BufferedReader):
    """A file that tells when it is closed."""

    def __init__(self, content: IO[bytes], closed: Callable[[], None]) -> None:
        super().__init__(io.FileIO(content.fileno(), closefd=False))
        self._content, self._on_close = content, closed

    def close(self) -> None:
        """Close it, and say so."""
        super().close()
        self._content.close()
        self._on_close()
