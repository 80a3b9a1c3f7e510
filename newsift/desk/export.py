"""Export of an event: its matches with one person's labels, as one file."""

import io
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import IO

from encoder.errors import InputError
from newsift.files.rows import TOPIC_SOURCE, Layout, OutputRecord
from newsift.files.writers import csv_table, record_writer
from newsift.operations.deletions import parse_visible, read_deletions
from worker.config import Config
from worker.kafka.reading import connected
from worker.posts.outcome import PostId

MAX_READ_S = 300.0
MAX_FILE_BYTES = 2**29
MAX_FILES = 2  # Files that are written or downloaded at the same time.
LABEL_COLUMN = "label"
MORE = "newsift matches --since --out FILE has no limit"


class Exports:
    """One file for a user at a time."""

    def __init__(self, config: Config) -> None:
        self._config, self._lock = config, Lock()
        self._users: set[str] = set()

    def matches_file(self, user: str, event: str, labels: Mapping[PostId, str]) -> IO[bytes]:
        """A table without a name in the file system: what `matches --csv` prints, and the label."""
        with self._lock:
            if user in self._users:
                raise InputError("export: one of yours is running; wait until it ends")
            if len(self._users) >= MAX_FILES:
                raise InputError(f"export: {MAX_FILES} are running; wait until one ends")
            self._users.add(user)
        try:
            with tempfile.TemporaryDirectory(prefix="newsift-desk-") as folder:
                path = Path(folder) / "matches.csv"
                self._write(path, event, labels)
                return _CallbackFile(path, lambda: self._users.discard(user))
        except BaseException:
            self._users.discard(user)
            raise

    def _write(self, path: Path, event: str, labels: Mapping[PostId, str]) -> None:
        layout = Layout(TOPIC_SOURCE, None, (LABEL_COLUMN,))
        with record_writer(path, csv_table, layout) as add:
            for batch in self._batches(event):
                posts = ((row, row.record.post) for row in batch)
                add([
                    replace(row, columns={LABEL_COLUMN: labels.get((post.platform, post.id), "")})
                    for row, post in posts
                ])  # fmt: skip
                if sum(file.stat().st_size for file in path.parent.iterdir()) > MAX_FILE_BYTES:
                    raise InputError(f"export: has more than {MAX_FILE_BYTES >> 20} MiB; {MORE}")

    def _batches(self, event: str) -> Iterator[list[OutputRecord]]:
        topic, deadline = self._config.topics.matches, time.monotonic() + MAX_READ_S
        with connected(self._config) as cluster:
            cluster.partitions(topic)
            ends = cluster.ends(topic)
            deleted = read_deletions(cluster, self._config, until=deadline)
            for batch in cluster.read(topic, cluster.beginnings(topic), ends, deadline):
                records = (parse_visible(message, deleted) for message in batch)
                yield [
                    OutputRecord(value, record, matches)
                    for value, record in records if record is not None
                    and (matches := [m for m in record.matches if m.event == event])
                ]  # fmt: skip
        if time.monotonic() >= deadline:
            raise InputError(f"export: {topic} cannot be read within {MAX_READ_S:g} s; {MORE}")


class _CallbackFile(io.FileIO):
    def __init__(self, path: Path, on_close: Callable[[], None]) -> None:
        super().__init__(path)
        self._on_close = on_close

    def close(self) -> None:
        super().close()
        self._on_close()
