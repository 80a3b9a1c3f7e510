"""SQLite: posts, seeds and matches once each, their words to be searched, and nothing beside."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from newsift.files.rows import IN_FILE, IN_TOPIC, Layout
from newsift.files.sqlite import database
from newsift.files.writers import record_writer
from tests.newsift.files.out.records import OWN, expected, output_record, wild_records, write

DOCS = Path(__file__).parents[4] / "docs/files.md"
EVERYTHING = """
SELECT * FROM matches JOIN posts USING (post_key)
JOIN seeds USING (seed_id, seed_version, event) ORDER BY matches.rowid
"""


def ask(file: Path, question: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(file)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(question)]


def test_the_tables_joined_hold_the_records(tmp_path: Path) -> None:
    records, file = wild_records(), tmp_path / "m.db"
    write(file, records[:3], records[3:])
    rows = ask(file, EVERYTHING)
    expected_rows = [expected(each, index) for each in records for index in (0, 1)]
    for row, cells in zip(rows, expected_rows, strict=True):
        cells["text"] = cells["text"].replace("\0", "\ufffd")
        assert {name: row[name] for name in cells} == cells
    assert ask(file, "SELECT count(*) AS n FROM posts") == [{"n": 10}]
    assert ask(file, "SELECT count(*) AS n FROM seeds") == [{"n": 2}]


def test_it_is_sound_and_alone(tmp_path: Path) -> None:
    write(tmp_path / "m.db", wild_records(OWN), own=OWN)
    assert ask(tmp_path / "m.db", "PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    assert ask(tmp_path / "m.db", "PRAGMA foreign_key_check") == []
    with closing(sqlite3.connect(tmp_path / "m.db")) as db:
        db.execute("INSERT INTO posts_text (posts_text, rank) VALUES ('integrity-check', 1)")
    assert [path.name for path in tmp_path.iterdir()] == ["m.db"]


@pytest.mark.parametrize(("place", "times"), [(IN_TOPIC, 1), (IN_FILE, 3)])
def test_what_a_topic_delivers_again_is_there_once_and_each_row_of_a_file(
    tmp_path: Path, place: tuple[str, ...], times: int
) -> None:
    """An edited post is another one, and so is the match."""
    file, edited = tmp_path / "m.db", output_record(2, "the ferry burnt", id="p1")
    with record_writer(file, database, Layout(place)) as add:
        add([output_record(1, "the ferry burns")] * 3)
        add([edited, output_record(1, "the ferry burns", "dam")])
    posts = ask(file, "SELECT post_id, text FROM posts ORDER BY post_key")
    assert [tuple(row.values()) for row in posts] == [
        *[("p1", "the ferry burns")] * times, ("p1", "the ferry burnt"),
        *[("p1", "the ferry burns")] * (times == 3),
    ]  # fmt: skip
    matches = ask(file, "SELECT match_id, text FROM matches JOIN posts USING (post_key)")
    assert sorted(row["match_id"] for row in matches) == ["1-dam", *["1-ferry"] * times, "2-ferry"]
    assert all(("burnt" in row["text"]) == (row["match_id"] == "2-ferry") for row in matches)
    assert len(ask(file, "SELECT DISTINCT post_digest FROM posts")) == 2


@pytest.mark.parametrize(
    ("words", "ids"), [("ferry", ["p1"]), ("cafe OR 日本", ["p2", "p3"]), ("fer*", ["p1"])]
)
def test_words_are_found(tmp_path: Path, words: str, ids: list[str]) -> None:
    texts = ["A FERRY burns", "the café is open", "日本 🔥", "nothing"]
    write(tmp_path / "m.db", [output_record(n, text) for n, text in enumerate(texts, start=1)])
    search = f"""SELECT post_id FROM posts_text JOIN posts ON post_key = posts_text.rowid
                 WHERE posts_text MATCH '{words}' ORDER BY post_key"""
    assert [row["post_id"] for row in ask(tmp_path / "m.db", search)] == ids


def test_the_user_s_columns_stand_with_the_posts(tmp_path: Path) -> None:
    """They give way to ours, also to the one that the tables are joined by."""
    own = OWN | {'a "b" {c}': "quoted", "TEXT": "again"}
    write(tmp_path / "m.db", [output_record(1, "the ferry burns", columns=own)], own=own)
    (post,) = ask(tmp_path / "m.db", "SELECT * FROM posts WHERE input_post_key = '7'")
    assert post | {
        "likes": "12", "input_Text": "=as given", "text": "the ferry burns",
        "input_input_TEXT": "again", "name": "? \ufffd", "post_key": 1, 'a "b" {c}': "quoted",
    } == post  # fmt: skip
    joined = "SELECT * FROM matches m JOIN posts p USING (post_key)"
    assert len(ask(tmp_path / "m.db", joined)) == 1
    query = "SELECT rowid AS result FROM posts_text WHERE posts_text MATCH 'ferry'"
    assert ask(tmp_path / "m.db", query) == [{"result": 1}]


def test_a_number_beyond_all_bounds_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "m.db", [output_record(2**70, "far away")])
    assert ask(tmp_path / "m.db", "SELECT line, text FROM posts") == [
        {"line": None, "text": "far away"}
    ]


def test_the_queries_of_the_docs_give_what_they_say(tmp_path: Path) -> None:
    days = ["2026-01-01T10:00:00Z", "2026-01-01T23:59:59Z", "2026-01-02T00:00:00Z"]
    texts = ["in the lifeboats", "the coast guard came", "the guard of the coast"]
    records = [
        output_record(n, text, *("ferry", "dam")[: 1 + n % 2], created_at=day)
        for n, (day, text) in enumerate(zip(days, texts, strict=True), start=1)
    ]
    write(tmp_path / "m.db", records)
    daily, best, words = (
        ask(tmp_path / "m.db", query.replace("'ferry'", "'event of ferry'"))
        for query in re.findall(r"```sql\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    )
    assert [tuple(row.values()) for row in daily] == [
        ("event of dam", "2026-01-01", 1), ("event of dam", "2026-01-02", 1),
        ("event of ferry", "2026-01-01", 2), ("event of ferry", "2026-01-02", 1),
    ]  # fmt: skip
    assert {row["text"] for row in best} == set(texts)
    assert {row["post_id"]: row["events"] for row in words} == {
        "p1": "event of ferry,event of dam", "p2": "event of ferry",
    }  # fmt: skip
