"""Export of an event: its matches with one person's labels, as one file.

Of a file project it is the table of `newsift filter --out`: a row for each line of the person's
own files whose post matches, with their columns.
"""

import io
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import IO

from msgspec import structs

from encoder.errors import InputError
from newsift.files.messages import FileMessage
from newsift.files.posts import FileMessages, columns_of
from newsift.files.rows import FILE_SOURCE, TOPIC_SOURCE, USER_PREFIX, Layout, OutputRecord
from newsift.files.writers import csv_table, record_writer
from newsift.operations.deletions import parse_visible, read_deletions
from worker.config import Config
from worker.kafka.reading import Offsets, connected
from worker.posts.outcome import Post, PostId

MAX_READ_S = 300.0
MAX_FILE_BYTES = 2**29
MAX_FILES = 2  # Files that are written or downloaded at the same time.
LABEL_COLUMN = "label"
MORE = "newsift matches --since --out FILE has no limit"
FILTER = "newsift filter --out FILE has no limit"


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The files of a project, to be read once more."""

    inputs: Sequence[FileMessages]  # checked, so that their columns are known
    matches_begin: Offsets  # of the matches with the present articles


class Exports:
    """One file for a user at a time."""

    def __init__(self, config: Config) -> None:
        self._config, self._lock = config, Lock()
        self._users: set[str] = set()

    def matches_file(
        self, user: str, event: str, labels: Mapping[PostId, str], files: ProjectFiles | None = None
    ) -> IO[bytes]:
        """What `matches --csv` prints, and the label."""
        return self.file(user, lambda path: self._write(path, event, labels, files))

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
        self, path: Path, event: str, labels: Mapping[PostId, str], files: ProjectFiles | None
    ) -> None:
        layout, batches = Layout(TOPIC_SOURCE, None, (LABEL_COLUMN,)), self._batches(event)
        if files is not None:
            own_columns = [_own_name(name) for name in columns_of(files.inputs)]
            layout = Layout(FILE_SOURCE, None, (*own_columns, LABEL_COLUMN))
            batches = self._file_batches(event, files)

        def with_label(row: OutputRecord) -> OutputRecord:
            label = labels.get(row.record.post.post_id, "")
            return replace(row, columns={**(row.columns or {}), LABEL_COLUMN: label})

        with record_writer(path, csv_table, layout) as add:
            for batch in batches:
                add([with_label(row) for row in batch])
                if sum(file.stat().st_size for file in path.parent.iterdir()) > MAX_FILE_BYTES:
                    raise InputError(f"export: has more than {MAX_FILE_BYTES >> 20} MiB; {MORE}")

    def _file_batches(self, event: str, files: ProjectFiles) -> Iterator[list[OutputRecord]]:
        """In the order of the files; a post that several lines repeat has as many rows."""
        matches, size = dict[tuple[PostId, str], OutputRecord](), 0
        for batch in self._batches(event, files.matches_begin):
            matches |= {_post_key(row.record.post): row for row in batch}
            size += sum(len(row.value) for row in batch)
            if size > MAX_FILE_BYTES:
                raise InputError(f"export: has more than {MAX_FILE_BYTES >> 20} MiB; {FILTER}")
        for messages in chain.from_iterable(files.inputs):
            yield [
                _with_line(row, message, post)
                for message in messages
                if isinstance(post := message.reading, Post)
                and (row := matches.get(_post_key(post))) is not None
            ]

    def _batches(self, event: str, begin: Offsets | None = None) -> Iterator[list[OutputRecord]]:
        topic, deadline = self._config.topics.matches, time.monotonic() + MAX_READ_S
        with connected(self._config) as cluster:
            cluster.partitions(topic)
            begin, ends = begin or cluster.beginnings(topic), cluster.ends(topic)
            deleted = read_deletions(cluster, self._config, until=deadline)
            for batch in cluster.read(topic, begin, ends, deadline):
                records = (parse_visible(message, deleted) for message in batch)
                yield [
                    OutputRecord(value, record, matches)
                    for value, record in records if record is not None
                    and (matches := [m for m in record.matches if m.event == event])
                ]  # fmt: skip
        if time.monotonic() >= deadline:
            raise InputError(f"export: {topic} cannot be read within {MAX_READ_S:g} s; {MORE}")


def _post_key(post: Post) -> tuple[PostId, str]:
    return post.post_id, post.text


def _own_name(name: str) -> str:
    """Of a column of the person's; one of labels is there already."""
    return USER_PREFIX + name if name == LABEL_COLUMN else name


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
