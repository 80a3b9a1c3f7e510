import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from encoder.errors import InputError
from newsift.desk.api import Download
from newsift.desk.export import LABEL_COLUMNS, Judgements, ProjectFiles
from newsift.desk.session import Desk
from newsift.desk.views import export
from newsift.files.posts import FileMessages
from newsift.files.tables import FileOptions
from newsift.statistics.labels import Label, Verdict
from tests.newsift.desk.desk_client import call, open_desk
from tests.newsift.desk.match_records import NOON, label, many, publish, record
from tests.worker.command_topics import LABELS, MATCHES, Kafka
from tests.worker.fake_command import Command
from worker.kafka.reading import connected
from worker.posts.outcome import Post

MADE = many(7, 60)


@pytest.fixture
def desk(kafka: Kafka) -> Iterator[Desk]:
    with open_desk() as desk:
        yield desk


def ask(desk: Desk, by: str = "anna") -> Any:
    return call(desk, export.matches, event="ferry", by=by)


def content(file: Download) -> bytes:
    with file.content as result:
        return result.read()


def test_the_file_is_what_newsift_matches_writes_with_the_persons_labels(
    desk: Desk, kafka: Kafka, newsift: Command, tmp_path: Path
) -> None:
    odd = record("=cmd|'/c calc'!A1", 0.9, text="=1+1")
    publish(kafka, [*MADE, odd, record("other", 0.9, event="game")])
    deletion = {"post": {"id": "p3", "platform": "plain"}, "deleted_at": "2026-03-01T10:00:00Z"}
    kafka.send(MATCHES, json.dumps(deletion).encode(), b"p3")
    label(kafka, "p3", "on")
    label(kafka, "p4", "off", by="=bea")
    done = newsift("matches", "--event", "ferry", "--no-follow", "--out", tmp_path / "m.csv")
    assert done.code == 0
    written = (tmp_path / "m.csv").read_bytes().decode()
    theirs = list(csv.DictReader(io.StringIO(written, newline="")))
    file = ask(desk)
    assert file.name == "newsift-ferry-matches.csv"
    ours = list(csv.DictReader(io.StringIO(content(file).decode())))
    assert len(ours) == len(MADE) + 1
    without = [{k: v for k, v in row.items() if k not in LABEL_COLUMNS} for row in ours]
    assert sorted(map(str, without)) == sorted(map(str, theirs))
    assert {row["post_id"]: row["label"] for row in ours if row["label"]} == {"p3": "on"}
    assert {(row["post_id"] == "p3", row["text"] == "") for row in ours} == {
        (True, True),
        (False, False),
    }
    assert ("'=1+1", "'=cmd|'/c calc'!A1") in {(row["text"], row["post_id"]) for row in ours}


def test_posts_that_have_a_label_and_no_match_are_in_the_file(
    desk: Desk, kafka: Kafka, newsift: Command, tmp_path: Path
) -> None:
    publish(kafka, [record("1", 0.9), record("2", 0.8, event="game")])
    deletion = {"post": {"id": "9", "platform": "plain"}, "deleted_at": "2026-03-01T10:00:00Z"}
    kafka.send(MATCHES, json.dumps(deletion).encode(), b"9")
    label(kafka, "1", "on", by="bea")
    for post_id, by, verdict in (("2", "anna", "off"), ("2", "ben", "on"), ("9", "ben", "off")):
        label(kafka, post_id, verdict, by=by)
    note = {"note": "no jokes", "event": "ferry", "by": "bea", "at": "2026-11-22T10:00:00Z"}
    kafka.send(LABELS, json.dumps(note).encode(), b'["ferry"]', at=NOON)
    result = content(ask(desk))
    names = ("post_id", "text", "event", "matched", "score", "source", *LABEL_COLUMNS)
    rows = csv.DictReader(io.StringIO(result.decode()))
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("1", "the ferry", "ferry", "1", "0.9", "tweets-0-1", "", "bea: on", "no jokes"),
        ("2", "t", "ferry", "0", "", "", "off", "ben: on", "no jokes"),
        ("9", "", "ferry", "0", "", "", "", "ben: off", "no jokes"),
    ]
    (tmp_path / "saved.csv").write_bytes(result)
    done = newsift("labels", "import", tmp_path / "saved.csv", "--by", "cara", "--yes")
    assert (done.code, "1 label" in done.err) == (0, True)


def test_a_row_names_so_many_judges() -> None:
    post = Post("1", "plain", "the ferry")
    judged = Judgements("ann", [said(post, "off", f"judge {n}") for n in range(25)])
    cell = judged.cells()(post.post_id)["labels_of_others"]
    assert (cell.count(": off"), cell.endswith("; and 5 more")) == (20, True)


def test_a_user_exports_one_file_at_a_time(desk: Desk, kafka: Kafka) -> None:
    publish(kafka, MADE[:3])
    first = ask(desk)
    with pytest.raises(InputError, match="one of yours is running"):
        ask(desk)
    other = ask(desk, by="bea")
    first.content.close()
    content(ask(desk))
    other.content.close()


def test_a_file_that_is_too_large_is_refused(
    desk: Desk, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("newsift.desk.export.MAX_FILE_BYTES", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    publish(kafka, MADE)
    for _ in range(2):  # the turn is given back
        with pytest.raises(InputError, match="export: has more than"):
            ask(desk)
    assert list(tmp_path.iterdir()) == []


def test_of_a_file_each_line_of_a_match_or_a_label_has_a_row_with_its_columns(
    desk: Desk, kafka: Kafka, tmp_path: Path
) -> None:
    file = tmp_path / "mine.csv"
    rows = [
        ("1", "the ferry", "7", "new"), ("2", "tacos", "8", "old"), ("1", "the ferry", "9", ""),
        ("1", "another post of this id", "1", ""), ("3", "the ferry", "5", ""),
    ]  # fmt: skip
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([("id", "text", "Event_Note", "label"), *rows])
    publish(kafka, [record("1", 0.4), record("9", 0.8)])
    topic = desk.config.topics.matches
    with connected(desk.config) as cluster:
        begin = cluster.ends(topic)  # what follows is of the present articles
    publish(kafka, [record("1", 0.6), record("1", 0.5, event="game")])
    inputs = [FileMessages(file, FileOptions(), desk.config.limits).reopened()]
    files = ProjectFiles(inputs, begin)
    labels = [
        said(Post("1", "plain", "the ferry"), "on", "ann"),
        said(Post("2", "plain", "tacos"), "off", "ann"),
        said(Post("7", "plain", "of a line that is gone"), "unsure", "ben"),
    ]
    with desk.exports.matches_file("ferry", Judgements("ann", labels, "no jokes"), files) as result:
        ours = list(csv.DictReader(io.StringIO(result.read().decode())))
    names = (
        "matched",
        "score",
        "source",
        "line",
        "input_Event_Note",
        "input_label",
        *LABEL_COLUMNS,
    )
    assert [tuple(row[name] for name in names) for row in ours] == [
        ("1", "0.6", "mine.csv", "2", "7", "new", "on", "", "no jokes"),
        ("0", "", "mine.csv", "3", "8", "old", "off", "", "no jokes"),
        ("1", "0.6", "mine.csv", "4", "9", "", "on", "", "no jokes"),
        ("0", "", "", "", "", "", "", "ben: unsure", "no jokes"),
    ]


def said(post: Post, verdict: Verdict, by: str) -> Label:
    return Label(
        label=verdict, event="ferry", post=post, by=by, at="2026-11-22T10:00:00Z", drawn="any"
    )
