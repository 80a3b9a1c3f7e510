"""Export of an event: its matches, and what people have said of its posts, as one file.

Of a file project it is the table of `newsift filter --out`: a row for each line of the person's
own files whose post matches, with their columns. A post that has a label has a row as well.
"""

import io
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import IO

from msgspec import structs

from encoder.errors import InputError
from newsift.files.messages import FileMessage
from newsift.files.posts import FileMessages, columns_of
from newsift.files.rows import (
    ATTACHMENT_COLUMNS,
    FILE_SOURCE,
    POST_COLUMNS,
    TOPIC_SOURCE,
    USER_PREFIX,
    Cell,
    Layout,
    OutputRecord,
    attachment_cells,
    post_cells,
    source_cells,
)
from newsift.files.writers import csv_table, record_writer
from newsift.operations.deletions import parse_visible, read_deletions
from newsift.operations.labels import without_deleted
from newsift.statistics.labels import Label
from worker.config import Config
from worker.kafka.reading import Offsets, TopicReader, connected
from worker.match.records import MatchRecord, PostPosition
from worker.posts.outcome import Post, PostId
from worker.text import one_line, shorten

MAX_READ_S = 300.0
MAX_FILE_BYTES = 2**29
MAX_FILES = 2  # Files that are written or downloaded at the same time.
MAX_OTHERS, MAX_NAME_CHARS = 20, 60  # of the judges that a row names
LABEL_COLUMN, OTHERS_COLUMN, NOTE_COLUMN = LABEL_COLUMNS = (
    "label", "labels_of_others", "event_note",
)  # fmt: skip
MORE = "newsift matches --since --out FILE has no limit"
FILTER = "newsift filter --out FILE has no limit"


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The files of a project, to be read once more."""

    inputs: Sequence[FileMessages]  # checked, so that their columns are known
    matches_begin: Offsets  # of the matches with the present articles


@dataclass(frozen=True, slots=True)
class Judgements:
    """What people have said of an event's posts, for the file of one of them."""

    by: str
    labels: Sequence[Label]
    note: str = ""  # what counts as on

    def cells(self) -> Callable[[PostId], dict[str, str]]:
        """The cells of a post by the names of their columns."""
        own = {label.post_id: label.label for label in self.labels if label.by == self.by}
        others: defaultdict[PostId, list[str]] = defaultdict(list)
        for label in self.labels:
            if label.by != self.by:
                said = f"{shorten(one_line(label.by), MAX_NAME_CHARS)}: {label.label}"
                others[label.post_id].append(said)

        def cells(post_id: PostId) -> dict[str, str]:
            said = others.get(post_id, [])
            if len(said) > MAX_OTHERS:
                said = [*said[:MAX_OTHERS], f"and {len(said) - MAX_OTHERS:,} more"]
            return {
                LABEL_COLUMN: own.get(post_id, ""), OTHERS_COLUMN: "; ".join(said),
                NOTE_COLUMN: self.note,
            }  # fmt: skip

        return cells


@dataclass(frozen=True)
class JudgedLayout(Layout):
    """A row too for a post of the event that does not match, with 0 as `matched`."""

    event: str = ""

    def rows(self, record: OutputRecord) -> Iterator[list[Cell]]:
        yield from super().rows(record)
        if record.matches:
            return
        cells: dict[str, Cell] = {"event": self.event, "matched": 0}
        cells |= zip(POST_COLUMNS, post_cells(record.record), strict=True)
        if record.record.source.topic:
            source = source_cells(record.record, self.source_columns)
            cells |= zip(self.source_columns, source, strict=True)
        if self.attachment_columns:
            cells |= zip(ATTACHMENT_COLUMNS, attachment_cells(record.record), strict=True)
        yield [*map(cells.get, self.newsift_names), *self.user_cells(record)]


class Exports:
    """One file for a user at a time."""

    def __init__(self, config: Config) -> None:
        self._config, self._lock = config, Lock()
        self._users: set[str] = set()

    def matches_file(
        self, event: str, judged: Judgements, files: ProjectFiles | None = None
    ) -> IO[bytes]:
        """What `matches --csv` prints, the other posts that have a label, and what people said."""
        return self.file(judged.by, lambda path: self._write(path, event, judged, files))

    def file(self, user: str, write: Callable[[Path], None]) -> IO[bytes]:
        """A table without a name in the file system."""
        with self._lock:
            if user in self._users:
                raise InputError("export: one of yours is running; wait until it ends")
            if len(self._users) >= MAX_FILES:
                raise InputError(f"export: {MAX_FILES} are running; wait until one ends")
            self._users.add(user)
        try:
            with tempfile.TemporaryDirectory(prefix="newsift-desk-") as folder:
                path = Path(folder) / "export.csv"
                write(path)
                return _CallbackFile(path, lambda: self._users.discard(user))
        except BaseException:
            self._users.discard(user)
            raise

    def _write(
        self, path: Path, event: str, judged: Judgements, files: ProjectFiles | None
    ) -> None:
        layout = JudgedLayout(TOPIC_SOURCE, None, LABEL_COLUMNS, event)
        if files is not None:
            own_columns = [_own_name(name) for name in columns_of(files.inputs)]
            layout = JudgedLayout(FILE_SOURCE, None, (*own_columns, *LABEL_COLUMNS), event)
        cells = judged.cells()
        left = {label.post_id: label for label in judged.labels}  # of posts without a row yet

        with (
            connected(self._config) as cluster,
            record_writer(path, csv_table, layout) as add_records,
        ):
            matches = _EventMatches(self._config, cluster, event)

            def add(batch: Sequence[OutputRecord]) -> None:
                rows = [
                    replace(row, columns={**(row.columns or {}), **cells(row.record.post.post_id)})
                    for row in batch
                ]
                add_records(rows)
                if sum(file.stat().st_size for file in path.parent.iterdir()) > MAX_FILE_BYTES:
                    raise InputError(f"export: has more than {MAX_FILE_BYTES >> 20} MiB; {MORE}")
                for row in rows:
                    left.pop(row.record.post.post_id, None)

            for batch in _file_batches(matches, files, judged) if files else matches.batches():
                add(batch)
            add([_unmatched(without_deleted(each, matches.deleted).post) for each in left.values()])


class _EventMatches:
    """The matches of an event on the topic, those of deleted posts without their content."""

    def __init__(self, config: Config, cluster: TopicReader, event: str) -> None:
        self._cluster, self._topic, self._event = cluster, config.topics.matches, event
        self._deadline = time.monotonic() + MAX_READ_S
        cluster.partitions(self._topic)
        self._ends = cluster.ends(self._topic)
        self.deleted = read_deletions(cluster, config, until=self._deadline)

    def batches(self, begin: Offsets | None = None) -> Iterator[list[OutputRecord]]:
        begin = begin or self._cluster.beginnings(self._topic)
        for batch in self._cluster.read(self._topic, begin, self._ends, self._deadline):
            records = (parse_visible(message, self.deleted) for message in batch)
            yield [
                OutputRecord(value, record, matches)
                for value, record in records if record is not None
                and (matches := [m for m in record.matches if m.event == self._event])
            ]  # fmt: skip
        if time.monotonic() >= self._deadline:
            raise InputError(
                f"export: {self._topic} cannot be read within {MAX_READ_S:g} s; {MORE}"
            )


def _file_batches(
    source: _EventMatches, files: ProjectFiles, judged: Judgements
) -> Iterator[list[OutputRecord]]:
    """In the order of the files; a post that several lines repeat has as many rows."""
    matches, size = dict[tuple[PostId, str], OutputRecord](), 0
    for batch in source.batches(files.matches_begin):
        matches |= {_post_key(row.record.post): row for row in batch}
        size += sum(len(row.value) for row in batch)
        if size > MAX_FILE_BYTES:
            raise InputError(f"export: has more than {MAX_FILE_BYTES >> 20} MiB; {FILTER}")
    labelled = {key: _unmatched(label.post) for label in judged.labels
                if (key := _post_key(label.post)) not in matches}  # fmt: skip
    rows = matches | labelled
    for messages in chain.from_iterable(files.inputs):
        yield [
            _with_line(row, message, post)
            for message in messages
            if isinstance(post := message.reading, Post)
            and (row := rows.get(_post_key(post))) is not None
        ]


def _unmatched(post: Post) -> OutputRecord:
    """Of a post without a match, whose place is not known yet."""
    return OutputRecord(b"", MatchRecord(post, [], 0, "", "", PostPosition("", 0, 0, 0), ""), [])


def _post_key(post: Post) -> tuple[PostId, str]:
    return post.post_id, post.text


def _own_name(name: str) -> str:
    """Of a column of the person's; the desk's own are there already."""
    return USER_PREFIX + name if name.lower() in LABEL_COLUMNS else name


def _with_line(row: OutputRecord, message: FileMessage, post: Post) -> OutputRecord:
    """Of lines with the same id and text each has its own author and time."""
    source = structs.replace(row.record.source, topic=message.topic, offset=message.offset)
    columns = {_own_name(name): cell for name, cell in (message.columns or {}).items()}
    record = structs.replace(row.record, post=post, source=source)
    return replace(row, record=record, columns=columns)


class _CallbackFile(io.FileIO):
    def __init__(self, path: Path, on_close: Callable[[], None]) -> None:
        super().__init__(path)
        self._on_close = on_close

    def close(self) -> None:
        super().close()
        self._on_close()
