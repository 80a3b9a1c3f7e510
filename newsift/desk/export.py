"""Export of an event: the selected matches, counts for the figures, and files."""

import io
import sqlite3
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import IO, Self

from encoder.errors import InputError
from newsift.desk.threads import TimedCache, lock_or_busy
from newsift.files.labels import CSV_COLUMNS, label_row
from newsift.files.rows import TOPIC_SOURCE, Layout, OutputRecord, csv_row, parse_match_record
from newsift.files.sqlite import clean_row, database
from newsift.files.writers import FORMATS, check_format, record_writer
from newsift.statistics.labels import Label
from worker.config import Config
from worker.errors import OutputError
from worker.kafka.reading import TopicReader, connected
from worker.match.records import Match, MatchRecord
from worker.posts.outcome import PostId
from worker.posts.times import HOUR_MS, LAST_MS, MINUTE_MS, milliseconds, utc

MAX_READ_S = 300.0

MAX_MINUTES_SPAN_MS = 2 * HOUR_MS
MAX_POSTS = 2_000_000
MAX_THRESHOLDS = 1_000
MAX_FILE_BYTES = 2**29
MAX_FILES = 2  # Files that are written or downloaded at the same time.
MAX_CACHED_COUNTS = 8
COUNTS_TTL_S = 30.0  # All figures of a page show the same counts.
COST_FACTOR = 10  # A count that took a second is cached for ten.
MEDIA_TYPES: Mapping[str, str] = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "db": "application/vnd.sqlite3",
    "parquet": "application/vnd.apache.parquet",
}
LABEL_COLUMN, JUDGES_COLUMN = "label", "judges"
LABELS_TABLE = """
CREATE TABLE labels (
    event TEXT, label TEXT, "by" TEXT, at TEXT, platform TEXT, post_id TEXT, drawn TEXT,
    probability REAL, score REAL, seed_set TEXT, model TEXT
);
CREATE INDEX labels_by_post ON labels (post_id, platform);
"""


@dataclass(frozen=True, slots=True)
class Selection:
    """A span of Kafka's time in milliseconds, and the least score."""

    event: str
    since: int | None = None
    until: int | None = None
    threshold: float | None = None

    @classmethod
    def parse(cls, event: str, since: str, until: str, threshold: float | None) -> Self:
        """Times are RFC 3339; an empty one is not a bound."""
        start, end = _parse_time("since", since), _parse_time("until", until)
        if start is not None and end is not None and start >= end:
            raise InputError(f"until: {until} is not after since, {since}; give a later time")
        return cls(event, start, end, threshold)

    def matches(self, record: MatchRecord) -> list[Match]:
        least = -1.0 if self.threshold is None else self.threshold
        return [m for m in record.matches if m.event == self.event and m.score >= least]

    def rows(self, cluster: TopicReader, config: Config) -> Iterator[list[OutputRecord]]:
        """Batch by batch; raises if reading takes too long."""
        topic, deadline = config.topics.matches, time.monotonic() + MAX_READ_S
        cluster.partitions(topic)
        since, until = self.since, self.until
        start = cluster.beginnings(topic) if since is None else cluster.offsets_at(topic, since)
        end = cluster.ends(topic) if until is None else cluster.offsets_at(topic, until)
        for batch in cluster.read(topic, start, end, deadline):
            records = ((message, parse_match_record(message.value)) for message in batch)
            yield [
                OutputRecord(message.value or b"", record, matches) for message, record in records
                if record is not None and (matches := self.matches(record))
            ]  # fmt: skip
        if time.monotonic() >= deadline:
            raise InputError(
                f"since: {topic} cannot be read within {MAX_READ_S:g} s; give a later time"
            )


def _parse_time(name: str, text: str) -> int | None:
    if not text:
        return None
    if (moment := utc(text)) is None:
        raise InputError(f"{name}: {text[:40]!r} is not a time; write 2026-11-22T09:30:00Z")
    return milliseconds(moment)


@dataclass
class MatchCounts:
    """Each post counts at its first match with the event."""

    records: int = 0  # repeated deliveries included
    first: int = LAST_MS  # when the first post came to its topic, in milliseconds
    last: int = 0
    scores: list[float] = field(default_factory=list)  # the best one of each post
    hours: Counter[int] = field(default_factory=Counter)  # posts by hour since 1970
    minutes: Counter[int] = field(default_factory=Counter)  # empty where posts span many hours
    thresholds: Counter[float] = field(default_factory=Counter)
    _posts: set[bytes] = field(default_factory=set)  # digests

    @property
    def posts(self) -> int:
        return len(self.scores)

    def add(self, row: OutputRecord) -> None:
        self.records += 1
        record, best = row.record, max(row.matches, key=lambda match: match.score)
        name = f"{record.post.platform}\0{record.post.id}"
        digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=12).digest()
        if digest in self._posts:
            return
        self._posts.add(digest)
        if len(self._posts) > MAX_POSTS:
            raise InputError(
                f"since: more than {MAX_POSTS:,} posts match; give a later time, or a higher score"
            )
        time_ms = arrival_time(record)
        self.first, self.last = min(self.first, time_ms), max(self.last, time_ms)
        self.scores.append(_clip_score(best.score))
        self.hours[time_ms // HOUR_MS] += 1
        if self.last - self.first < MAX_MINUTES_SPAN_MS:
            self.minutes[time_ms // MINUTE_MS] += 1
        else:
            self.minutes.clear()
        threshold = _clip_score(best.threshold)
        if threshold in self.thresholds or len(self.thresholds) < MAX_THRESHOLDS:
            self.thresholds[threshold] += 1


def arrival_time(record: MatchRecord) -> int:
    """Kafka's time of the post; else the time of its processing, 0 if it cannot be read."""
    if 0 < record.source.timestamp <= LAST_MS:
        return record.source.timestamp
    return milliseconds(utc(record.processed_at))


def _clip_score(score: float) -> float:
    return min(max(score, -1.0), 1.0)  # others may write to the topic too


class Exports:
    """One file for a user at a time."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock, self._counting = Lock(), Lock()
        self._users: set[str] = set()
        self.counts = TimedCache(self._count, COUNTS_TTL_S, MAX_CACHED_COUNTS, COST_FACTOR).get

    def matches_file(
        self, user: str, selection: Selection, form: str, labels: Sequence[Label]
    ) -> IO[bytes]:
        """A file without a name, with the labels of each post."""
        with self._lock:
            if user in self._users:
                raise InputError("export: one of yours is running; wait until it ends")
            if len(self._users) >= MAX_FILES:
                raise InputError(f"export: {MAX_FILES} are running; wait until one ends")
            self._users.add(user)
        try:
            with tempfile.TemporaryDirectory(prefix="newsift-desk-") as folder:
                path = Path(folder) / f"matches.{form}"
                self._write(path, selection, labels)
                return _CallbackFile(path, lambda: self._users.discard(user))
        except BaseException:
            self._users.discard(user)
            raise

    def _count(self, selection: Selection) -> MatchCounts:
        counts = MatchCounts()
        with (
            lock_or_busy(self._counting, "the matches of another event are being counted"),
            connected(self._config) as cluster,
        ):
            for batch in selection.rows(cluster, self._config):
                for row in batch:
                    counts.add(row)
        return counts

    def _write(self, path: Path, selection: Selection, labels: Sequence[Label]) -> None:
        check_format("form", path)
        writer = FORMATS[path.suffix]
        layout = Layout(
            TOPIC_SOURCE, None, () if writer is database else (LABEL_COLUMN, JUDGES_COLUMN)
        )
        columns = _label_columns(labels)
        with connected(self._config) as cluster, record_writer(path, writer, layout) as add:
            for batch in selection.rows(cluster, self._config):
                add([replace(row, columns=columns.get(_post_id(row), {})) for row in batch])
                if sum(file.stat().st_size for file in path.parent.iterdir()) > MAX_FILE_BYTES:
                    raise InputError(
                        f"since: the file grows beyond {MAX_FILE_BYTES >> 20} MiB; "
                        "give a later time or a higher score"
                    )
        if writer is database:
            _add_labels(path, labels)


class _CallbackFile(io.FileIO):
    def __init__(self, path: Path, on_close: Callable[[], None]) -> None:
        super().__init__(path)
        self._on_close = on_close

    def close(self) -> None:
        super().close()
        self._on_close()


def labels_csv(labels: Iterable[Label]) -> bytes:
    """Labels as `newsift labels export` writes them."""
    return csv_row(CSV_COLUMNS).encode() + b"".join(map(label_row, labels))


def _label_columns(labels: Iterable[Label]) -> dict[PostId, dict[str, str]]:
    """The joint label of each post, and the labels of each judge."""
    by_post: defaultdict[PostId, dict[str, str]] = defaultdict(dict)
    for label in labels:
        by_post[label.post_id][label.by] = label.label
    return {
        post: {
            LABEL_COLUMN: "; ".join(sorted(set(by_judge.values()))),
            JUDGES_COLUMN: "; ".join(
                f"{judge}: {label}" for judge, label in sorted(by_judge.items())
            ),
        }
        for post, by_judge in by_post.items()
    }


def _post_id(row: OutputRecord) -> PostId:
    return row.record.post.platform, row.record.post.id


def _add_labels(path: Path, labels: Iterable[Label]) -> None:
    rows = [
        (
            *(label.event, label.label, label.by, label.at, *label.post_id, label.drawn),
            *(label.probability, label.score, label.seed_set, label.model),
        )
        for label in labels
    ]
    try:
        with closing(sqlite3.connect(path)) as db, db:
            db.executescript(LABELS_TABLE)
            db.executemany(
                f"INSERT INTO labels VALUES ({', '.join('?' * 11)})", map(clean_row, rows)
            )
    except sqlite3.Error as error:
        raise OutputError(f"labels: cannot be written ({error})") from error
