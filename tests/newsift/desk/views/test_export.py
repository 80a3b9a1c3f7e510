import csv
import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from encoder.errors import InputError
from newsift.desk.api import Attachment, Endpoint
from newsift.desk.session import Desk
from newsift.desk.views import export
from tests.newsift.desk.client import call, open_desk
from tests.newsift.desk.matched import (
    HOSTILE,
    HOUR,
    NOON,
    firsts,
    label,
    many,
    moment,
    publish,
    record,
)
from tests.worker.fake import Command
from tests.worker.kafka_side import Kafka

SVG = "{http://www.w3.org/2000/svg}"
MADE = many(7, 60)


@pytest.fixture
def desk(kafka: Kafka) -> Iterator[Desk]:
    with open_desk() as desk:
        yield desk


def ask(desk: Desk, endpoint: Endpoint, **values: Any) -> Any:
    return call(desk, endpoint, **{"event": "ferry", **values})


def content(file: Attachment) -> bytes:
    with file.content as result:
        return result.read()


def test_csv_is_what_newsift_matches_writes_with_labels_beside(
    desk: Desk, kafka: Kafka, newsift: Command, tmp_path: Path
) -> None:
    odd = record("=cmd|'/c calc'!A1", 0.9, text="=1+1")
    publish(kafka, [*MADE, odd, record("other", 0.9, event="game")])
    label(kafka, "p3", "on")
    label(kafka, "p3", "off", by="=bea")
    done = newsift("matches", "--event", "ferry", "--no-follow", "--out", tmp_path / "m.csv")
    assert done.code == 0
    written = (tmp_path / "m.csv").read_bytes().decode()
    theirs = list(csv.DictReader(io.StringIO(written, newline="")))
    file = ask(desk, export.matches)
    ours = list(csv.DictReader(io.StringIO(content(file).decode())))
    assert len(ours) == len(MADE) + 1
    without = [{k: v for k, v in row.items() if k not in ("label", "judges")} for row in ours]
    assert sorted(map(str, without)) == sorted(map(str, theirs))
    labels = {row["post_id"]: (row["label"], row["judges"]) for row in ours if row["label"]}
    assert labels == {"p3": ("off; on", "'=bea: off; anna: on")}
    assert ("'=1+1", "'=cmd|'/c calc'!A1") in {(row["text"], row["post_id"]) for row in ours}
    rows = list(csv.DictReader(io.StringIO(content(ask(desk, export.labels)).decode())))
    assert sorted((row["label"], row["post_id"]) for row in rows) == [("off", "p3"), ("on", "p3")]


def test_matches_are_filtered_by_score_and_time(desk: Desk, kafka: Kafka) -> None:
    publish(kafka, MADE)
    times = {"since": moment(NOON + 5 * HOUR), "until": moment(NOON + 30 * HOUR)}
    file = ask(desk, export.matches, form="jsonl", threshold=0.5, **times)
    expected = [
        each["post"]["id"]
        for each in MADE
        if each["matches"][0]["score"] >= 0.5
        and 5 <= (each["source"]["timestamp"] - NOON) / HOUR < 30
    ]
    rows = [json.loads(line) for line in content(file).splitlines()]
    assert 0 < len(expected) < len(MADE)
    assert sorted(row["post"]["id"] for row in rows) == sorted(expected)
    with pytest.raises(InputError, match="is not after since"):
        ask(desk, export.matches, since=times["until"], until=times["since"])


def test_a_database_has_each_post_once_and_a_table_of_labels(
    desk: Desk, kafka: Kafka, tmp_path: Path
) -> None:
    publish(kafka, [*MADE, record("h", 0.9, text="x\0y" + HOSTILE)])
    label(kafka, "p1", "on")
    label(kafka, "p2", "unsure", by="a\0b")
    label(kafka, "p1", "on", event="game")
    file = tmp_path / "out.db"
    file.write_bytes(content(ask(desk, export.matches, form="db")))
    with closing(sqlite3.connect(file)) as db:
        posts = {name for (name,) in db.execute("SELECT post_id FROM posts")}
        text = db.execute('SELECT post_id, label, "by", probability FROM labels').fetchall()
        scores = dict(db.execute("SELECT match_id, score FROM matches"))
    assert posts == {*firsts(MADE), "h"}
    assert len(scores) == len(posts)
    assert scores["ferry-p7"] == firsts(MADE)["p7"]["matches"][0]["score"]
    assert sorted(text) == [("p1", "on", "anna", 0.5), ("p2", "unsure", "a\ufffdb", 0.5)]


@pytest.mark.parametrize("which", ["hours", "scores"])
def test_a_figure_has_every_post_and_needs_no_other_file(
    desk: Desk, kafka: Kafka, which: str
) -> None:
    odd = record("1", 1e308, event=HOSTILE, at=2**62, match={"threshold": -1e308})
    publish(kafka, [*MADE, odd])
    for event, posts in (("nobody", 0), (HOSTILE, 1), ("ferry", len(firsts(MADE)))):
        created = content(ask(desk, export.figure, which=which, event=event)).decode()
        root = ElementTree.fromstring(created)
        bars = [each.find(f"{SVG}title") for each in root.iter(f"{SVG}rect")]
        texts = [each.text or "" for each in bars if each is not None]
        assert sum(int(each.rpartition(": ")[2].replace(",", "")) for each in texts) == posts
        title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert all(each is not None and each.text for each in (title, desc))
        assert not {"\x1b", "\u202e"} & set(created)
        assert "http" not in created.replace("http://www.w3.org/2000/svg", "")


def test_a_user_exports_one_file_at_a_time(desk: Desk, kafka: Kafka) -> None:
    publish(kafka, MADE[:3])
    first = ask(desk, export.matches, by="anna")
    with pytest.raises(InputError, match="one of yours is running"):
        ask(desk, export.matches, by="anna")
    other = ask(desk, export.matches, by="bea")
    first.content.close()
    content(ask(desk, export.matches, by="anna"))
    other.content.close()


def test_a_file_that_is_too_large_is_refused(
    desk: Desk, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("newsift.desk.export.MAX_FILE_BYTES", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    publish(kafka, MADE)
    for _ in range(2):  # the turn is given back
        with pytest.raises(InputError, match="since: the file grows beyond"):
            ask(desk, export.matches, by="anna")
    assert list(tmp_path.iterdir()) == []
