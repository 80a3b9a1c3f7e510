"""A SQLite database of posts, seeds and matches, with indexes and full text search.

It is written to a new file that is deleted after an error, so it needs no journal.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import IO

from encoder.errors import InputError
from newsift.files.rows import (
    POST_COLUMNS,
    RECORD_COLUMNS,
    TOPIC_SOURCE,
    AddRecords,
    Cell,
    Layout,
    OutputRecord,
    attachment_cells,
    clean_cell,
    format_why,
    post_cells,
    record_cells,
    source_cells,
)
from worker.match.records import Match
from worker.seeds.record import json_digest

PRAGMAS = """
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
    score REAL, threshold REAL, event TEXT, seed_id TEXT, seed_version TEXT, why TEXT, link TEXT,
    PRIMARY KEY (match_id, post_key)
);
CREATE VIRTUAL TABLE posts_text USING fts5 (
    text, content = 'posts', content_rowid = post_key,
    tokenize = 'unicode61 remove_diacritics 2'
);
"""
# A topic may repeat posts, so the digest is unique there. In files each row is a post.
UNIQUE_POSTS = "CREATE UNIQUE INDEX posts_once ON posts (post_digest);"
INDEXES = """
CREATE INDEX posts_by_time ON posts (created_at);
CREATE INDEX posts_by_id ON posts (post_id);
CREATE INDEX matches_by_post ON matches (post_key);
CREATE INDEX matches_by_event ON matches (event, score);
CREATE INDEX matches_by_seed ON matches (seed_id);
"""
INTEGER_COLUMNS = ("line", "matched")
NUL_REPLACEMENT = "\ufffd"  # SQLite would end the text at a NUL


@contextmanager
def database(out: IO[bytes], layout: Layout) -> Iterator[AddRecords]:
    """Yields the function that adds records; the file is complete when the block ends."""
    with closing(sqlite3.connect(out.name, isolation_level=None)) as db:
        yield _DatabaseWriter(db, layout).add
        db.executescript(INDEXES)  # commits the open transaction first


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


class _DatabaseWriter:
    def __init__(self, db: sqlite3.Connection, layout: Layout) -> None:
        self._db, self._layout = db, layout
        newsift_names = (*POST_COLUMNS, *layout.source_columns, *RECORD_COLUMNS, "post_digest")
        names = (*newsift_names, *layout.attachment_columns, *layout.user_names)
        quoted_names = ('"' + name.replace('"', '""') + '"' for name in names)
        types = ("INTEGER" if name in INTEGER_COLUMNS else "TEXT" for name in names)
        columns = ", ".join(map(" ".join, zip(quoted_names, types, strict=True)))
        db.executescript(PRAGMAS + TABLES.format(columns=columns))
        if layout.source_columns == TOPIC_SOURCE:
            db.execute(UNIQUE_POSTS)
        placeholders = ", ".join("?" * len(names))
        self._insert = f"INSERT OR IGNORE INTO posts VALUES (NULL, {placeholders})"

    def add(self, records: Sequence[OutputRecord]) -> None:
        for record in records:
            key = self._insert_post(record)
            for match in record.matches:
                self._insert_match(key, match)

    def _insert_post(self, record: OutputRecord) -> int:
        """Insert a post unless it was delivered before. Returns its key."""
        match_record, layout = record.record, self._layout
        post = match_record.post
        identity = [clean_cell(part) for part in (post.platform, post.id, post.text)]
        post_digest = json_digest(identity)[:32]
        cells = [*post_cells(match_record), *source_cells(match_record, layout.source_columns)]
        cells += [*record_cells(match_record), post_digest]
        if layout.attachment_columns:
            cells += attachment_cells(match_record)
        cursor = self._db.execute(self._insert, clean_row([*cells, *layout.user_cells(record)]))
        if cursor.rowcount:
            key = int(cursor.lastrowid or 0)
            self._db.execute(
                "INSERT INTO posts_text (rowid, text) VALUES (?, ?)", clean_row([key, post.text])
            )
            return key
        cursor = self._db.execute("SELECT post_key FROM posts WHERE post_digest = ?", [post_digest])
        return int(cursor.fetchone()[0])

    def _insert_match(self, key: int, match: Match) -> None:
        seed = [match.seed_id, match.seed_version, match.event]
        self._db.execute(
            "INSERT OR IGNORE INTO seeds VALUES (?, ?, ?, ?)", clean_row([*seed, match.title])
        )
        row: list[Cell] = [match.match_id, key, match.score, match.threshold, match.event]
        self._db.execute(
            "INSERT OR IGNORE INTO matches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            clean_row([*row, *seed[:2], format_why(match), "true" if match.link is True else None]),
        )


def clean_row(cells: Sequence[Cell]) -> list[Cell]:
    plain = map(clean_cell, cells)
    return [
        cell.replace("\0", NUL_REPLACEMENT) if isinstance(cell, str) else cell for cell in plain
    ]
