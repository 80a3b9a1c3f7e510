"""The matches of an event as a file, as `newsift matches --out` writes them, with their labels."""

import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import IO

from encoder.errors import InputError
from worker.config import Config
from worker.desk.export.asked import Asked
from worker.errors import OutputError
from worker.files.cells import csv_row
from worker.files.labels import CSV_COLUMNS, label_row
from worker.files.out.formats import FORMATS, check_format, keeping
from worker.files.out.rows import IN_TOPIC, Finding, Layout
from worker.files.out.sqlite import database
from worker.judge.labels import Label, PostId
from worker.kafka.reading import TopicReader

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


def matches_file(
    cluster: TopicReader, config: Config, asked: Asked, form: str, labels: Sequence[Label]
) -> IO[bytes]:
    """A file without a name that holds the matches, and what people said of them."""
    with tempfile.TemporaryDirectory(prefix="newsift-desk-") as folder:
        path = Path(folder) / f"matches.{form}"
        check_format("form", path)
        written = FORMATS[path.suffix]
        layout = Layout(IN_TOPIC, None, () if written is database else (LABEL, JUDGES))
        said = _said(labels)
        with keeping(path, written, layout) as add:
            for batch in asked.found(cluster, config):
                add([replace(each, columns=said.get(_post_id(each), {})) for each in batch])
                _check_size(Path(folder))
        if written is database:
            _add_labels(path, labels)
        return path.open("rb")


def labels_csv(labels: Iterable[Label]) -> bytes:
    """Labels as `newsift labels export` writes them."""
    return csv_row(CSV_COLUMNS).encode() + b"".join(map(label_row, labels))


def _said(labels: Iterable[Label]) -> dict[PostId, dict[str, str]]:
    """What people say of each post: together, and each by himself."""
    each: defaultdict[PostId, dict[str, str]] = defaultdict(dict)
    for label in labels:
        each[label.post_id][label.by] = label.label
    return {
        post: {
            LABEL: "; ".join(sorted(set(said.values()))),
            JUDGES: "; ".join(f"{by}: {word}" for by, word in sorted(said.items())),
        }
        for post, said in each.items()
    }


def _post_id(found: Finding) -> PostId:
    return found.record.post.platform, found.record.post.id


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
