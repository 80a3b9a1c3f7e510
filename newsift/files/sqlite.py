"""SQLite: posts, seeds and matches as tables, with indexes and a full text index.

The file replaces the old one at the end, so it needs no journal: after an error it is deleted.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import IO

from encoder.errors import InputError
from newsift.files.rows import (
    IN_TOPIC,
    OF_RECORD,
    POST,
    Add,
    Cell,
    Layout,
    OutputRecord,
    clean_cell,
    format_why,
    of_place,
    of_post,
    of_record,
)
from worker.match.records import Match
from worker.seeds.record import digest

SETTINGS = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA cache_size = -65536;
BEGIN;
"""
TABLES = """
CREATE TABLE posts (post_key INTEGER PRIMARY KEY, {columns});
CREATE TABLE seeds (
    seed_id TEXT, seed_version TEXT, event TEXT, title TEXT,
    PRIMARY KEY (seed_id, seed_version, event)
);
CREATE TABLE matches (
    match_id TEXT, post_key INTEGER NOT NULL REFERENCES posts (post_key),
    score REAL, threshold REAL, event TEXT, seed_id TEXT, seed_version TEXT, why TEXT,
    PRIMARY KEY (match_id, post_key)
);
CREATE VIRTUAL TABLE posts_text USING fts5 (
    text, content = 'posts', content_rowid = post_key,
    tokenize = 'unicode61 remove_diacritics 2'
);
"""
# A topic delivers at least once. In a file each row is a post, also one that says the same.
ONCE = "CREATE UNIQUE INDEX posts_once ON posts (post_digest);"
INDEXES = """
CREATE INDEX posts_by_time ON posts (created_at);
CREATE INDEX posts_by_id ON posts (post_id);
CREATE INDEX matches_by_post ON matches (post_key);
CREATE INDEX matches_by_event ON matches (event, score);
CREATE INDEX matches_by_seed ON matches (seed_id);
"""
NUMBERS = ("line", "matched")
NO_TEXT = "\ufffd"  # in the place of a NUL, where SQLite would take a text to end


@contextmanager
def database(out: IO[bytes], layout: Layout) -> Iterator[Add]:
    """Complete once the block has ended."""
    with closing(sqlite3.connect(out.name, isolation_level=None)) as db:
        tables = _Tables(db, layout)
        yield tables.add
        db.executescript(INDEXES)  # which commits what came before


def check_fts5(option: str) -> None:
    """Raises InputError if SQLite was built without full text search."""
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            db.execute("CREATE VIRTUAL TABLE t USING fts5 (x)")
        except sqlite3.Error as error:
            raise InputError(
                f"{option}: the SQLite of this Python has no full text search (FTS5); name a file "
                "that ends in .jsonl or .parquet, or use another Python"
            ) from error


class _Tables:
    def __init__(self, db: sqlite3.Connection, layout: Layout) -> None:
        self._db, self._layout = db, layout
        names = (*POST, *layout.place, *OF_RECORD, "post_digest", *layout.own_names)
        quoted = ('"' + name.replace('"', '""') + '"' for name in names)
        kinds = ("INTEGER" if name in NUMBERS else "TEXT" for name in names)
        columns = ", ".join(map(" ".join, zip(quoted, kinds, strict=True)))
        db.executescript(SETTINGS + TABLES.format(columns=columns))
        if layout.place == IN_TOPIC:
            db.execute(ONCE)
        marks = ", ".join("?" * len(names))
        self._insert = f"INSERT OR IGNORE INTO posts VALUES (NULL, {marks})"

    def add(self, findings: Sequence[OutputRecord]) -> None:
        for each in findings:
            key = self._key(each)
            for match in each.matches:
                self._match(key, match)

    def _key(self, finding: OutputRecord) -> int:
        """Insert a post unless it was delivered before. Returns its key."""
        record, layout = finding.record, self._layout
        post = record.post
        name = digest([clean_cell(part) for part in (post.platform, post.id, post.text)])[:32]
        cells = [*of_post(record), *of_place(record, layout.place), *of_record(record)]
        row = _clean([*cells, name, *layout.own_cells(finding)])
        done = self._db.execute(self._insert, row)
        if done.rowcount:
            key = int(done.lastrowid or 0)
            self._db.execute(
                "INSERT INTO posts_text (rowid, text) VALUES (?, ?)", _clean([key, post.text])
            )
            return key
        selected_row = self._db.execute("SELECT post_key FROM posts WHERE post_digest = ?", [name])
        return int(selected_row.fetchone()[0])

    def _match(self, key: int, match: Match) -> None:
        seed = [match.seed_id, match.seed_version, match.event]
        self._db.execute(
            "INSERT OR IGNORE INTO seeds VALUES (?, ?, ?, ?)", _clean([*seed, match.title])
        )
        row: list[Cell] = [match.match_id, key, match.score, match.threshold, match.event]
        self._db.execute(
            "INSERT OR IGNORE INTO matches VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            _clean([*row, *seed[:2], format_why(match)]),
        )


def _clean(cells: Sequence[Cell]) -> list[Cell]:
    whole = map(clean_cell, cells)
    return [cell.replace("\0", NO_TEXT) if isinstance(cell, str) else cell for cell in whole]
