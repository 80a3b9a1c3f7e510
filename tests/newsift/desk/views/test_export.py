"""Export: what a file and a figure say is what the topics hold."""

import csv
import io
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from encoder.errors import InputError
from newsift.desk.api import Attachment, Endpoint
from newsift.desk.export import FRESH_S, Exports
from newsift.desk.session import Desk
from newsift.desk.views import export
from tests.newsift.desk.client import call, open_desk
from tests.newsift.desk.matched import HOSTILE, HOUR, NOON, label, many, moment, publish, record
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


def firsts(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each post once."""
    result: dict[str, dict[str, Any]] = {}
    for each in records:
        result.setdefault(each["post"]["id"], each)
    return result


def bars(file: Attachment) -> list[int]:
    """How many posts each bar says that it stands for."""
    root = ElementTree.fromstring(content(file))
    titles = [each.find(f"{SVG}title") for each in root.iter(f"{SVG}rect")]
    text = [each.text or "" for each in titles if each is not None]
    return [int(each.rpartition(": ")[2].replace(",", "")) for each in text]


def test_csv_is_what_newsift_matches_writes_with_labels_beside(
    desk: Desk, kafka: Kafka, newsift: Command, tmp_path: Path
) -> None:
    publish(kafka, [*MADE, record("other", 0.9, event="game")])
    label(kafka, "p3", "on")
    label(kafka, "p3", "off", by="=bea")
    done = newsift("matches", "--event", "ferry", "--no-follow", "--out", tmp_path / "m.csv")
    assert done.code == 0
    written = (tmp_path / "m.csv").read_bytes().decode()
    theirs = list(csv.DictReader(io.StringIO(written, newline="")))
    file = ask(desk, export.matches)
    ours = list(csv.DictReader(io.StringIO(content(file).decode())))
    assert len(ours) == len(MADE)
    key = "post_id"
    without = [{k: v for k, v in row.items() if k not in ("label", "judges")} for row in ours]
    assert sorted(map(str, without)) == sorted(map(str, theirs))
    text = {row[key]: (row["label"], row["judges"]) for row in ours if row["label"]}
    assert text == {"p3": ("off; on", "'=bea: off; anna: on")}
    assert file.name == "newsift-ferry-matches.csv"


@pytest.mark.parametrize(("least", "since", "until"), [(0.6, None, None), (None, 5, 20)])
def test_the_filters_hold(
    desk: Desk, kafka: Kafka, least: float | None, since: int | None, until: int | None
) -> None:
    publish(kafka, MADE)
    values: dict[str, Any] = {"form": "jsonl"} | ({"threshold": least} if least else {})
    if since is not None and until is not None:
        values |= {"since": moment(NOON + since * HOUR), "until": moment(NOON + until * HOUR)}
    rows = [json.loads(line) for line in content(ask(desk, export.matches, **values)).splitlines()]
    expected = [
        each["post"]["id"]
        for each in MADE
        if each["matches"][0]["score"] >= (least or 0)
        and (since is None or since <= (each["source"]["timestamp"] - NOON) / HOUR < (until or 99))
    ]
    assert 0 < len(expected) < len(MADE)
    assert sorted(row["post"]["id"] for row in rows) == sorted(expected)


def test_a_database_has_posts_once_and_labels_in_a_table(
    desk: Desk, kafka: Kafka, tmp_path: Path
) -> None:
    publish(kafka, [*MADE, record("h", 0.9, text="x\0y" + HOSTILE)])
    values = [label(kafka, "p1", "on"), label(kafka, "p2", "unsure", by="a\0b")]
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
    assert len(values) == len(text)


def test_parquet_if_it_can_be_written(desk: Desk, kafka: Kafka) -> None:
    pyarrow = pytest.importorskip("pyarrow.parquet")
    publish(kafka, MADE)
    table = pyarrow.read_table(io.BytesIO(content(ask(desk, export.matches, form="parquet"))))
    assert table.num_rows == len(MADE)
    assert {"score", "text", "label", "judges"} <= set(table.column_names)


def test_hostile_text_runs_in_no_spreadsheet(desk: Desk, kafka: Kafka) -> None:
    publish(kafka, [record("=cmd|'/c calc'!A1", 0.9, text="=1+1", event=HOSTILE)])
    file = ask(desk, export.matches, event=HOSTILE)
    row = next(csv.DictReader(io.StringIO(content(file).decode())))
    assert (row["text"], row["post_id"][:2]) == ("'=1+1", "'=")
    text = file.headers["Content-Disposition"]
    assert text.isprintable()
    assert not {"/", "<", ">", "|", "\\"} & set(text)


def test_bars_are_the_posts_of_each_hour(desk: Desk, kafka: Kafka) -> None:
    publish(kafka, [*MADE, record("odd", 0.9, at=-1)])
    result = bars(ask(desk, export.figure, which="hours"))
    once = firsts(MADE).values()
    hours = Counter((each["source"]["timestamp"] - NOON) // HOUR for each in once)
    hours[0] += 1  # without a time of Kafka's it is when it was worked on
    assert result == [hours[hour] for hour in sorted(hours)]


def test_bars_are_the_posts_of_each_score(desk: Desk, kafka: Kafka) -> None:
    publish(kafka, MADE)
    file = content(ask(desk, export.figure, which="scores"))
    scores = [each["matches"][0]["score"] for each in firsts(MADE).values()]
    expected = Counter(int(score * 50 + 1e-9) for score in scores)
    result = bars(Attachment("", "", io.BytesIO(file)))
    assert result == [expected[at] for at in sorted(expected)]
    text = "".join(ElementTree.fromstring(file).itertext())
    assert f"bars: {len(scores)} matches" in text
    assert "dashed: threshold 0.250" in text
    assert "background" not in text  # the model is not there


@pytest.mark.parametrize("which", ["hours", "scores"])
@pytest.mark.parametrize("event", ["nobody", HOSTILE])
def test_a_figure_stands_alone_whatever_the_name(
    desk: Desk, kafka: Kafka, which: str, event: str
) -> None:
    publish(kafka, [record("1", 1e308, event=HOSTILE, at=2**62, match={"threshold": -1e308})])
    created = content(ask(desk, export.figure, which=which, event=event)).decode()
    root = ElementTree.fromstring(created)
    assert {each.tag for each in root.iter()} <= {
        SVG + name for name in ("svg", "title", "desc", "style", "rect", "path", "text")
    }
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert all(each is not None and each.text for each in (title, desc))
    assert not {"\x1b", "\u202e"} & set(created)
    assert "http" not in created.replace("http://www.w3.org/2000/svg", "")


def test_labels_are_those_of_the_event(desk: Desk, kafka: Kafka) -> None:
    label(kafka, "p1", "on")
    label(kafka, "p1", "off", event="game")
    rows = list(csv.DictReader(io.StringIO(content(ask(desk, export.labels)).decode())))
    assert [(row["event"], row["label"], row["post_id"]) for row in rows] == [("ferry", "on", "p1")]


def test_one_file_for_a_user_at_a_time(desk: Desk, kafka: Kafka) -> None:
    publish(kafka, MADE[:3])
    first = ask(desk, export.matches, by="anna")
    with pytest.raises(InputError, match="one is under way for you"):
        ask(desk, export.matches, by="anna")
    other = ask(desk, export.matches, by="bea")
    first.content.close()
    content(ask(desk, export.matches, by="anna"))
    other.content.close()


def test_a_file_that_grows_too_large_is_refused_and_leaves_nothing(
    desk: Desk, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("newsift.desk.export.LARGEST", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    publish(kafka, MADE)
    for _ in range(2):  # the turn is given back
        with pytest.raises(InputError, match="since: the file grows beyond"):
            ask(desk, export.matches, by="anna")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"since": "then"}, "since: 'then' is no time"),
        ({"since": "2026-11-22T10:00:00Z", "until": "2026-11-22T09:00:00Z"}, "is not after since"),
        ({"form": "exe"}, "form: "),
        ({"threshold": "x"}, "threshold: "),
    ],
)
def test_what_is_refused(desk: Desk, values: dict[str, str], text: str) -> None:
    with pytest.raises(InputError, match=text):
        ask(desk, export.matches, **values)


def test_counts_are_kept_for_a_moment(desk: Desk, kafka: Kafka) -> None:
    now = [0.0]
    desk.exports = Exports(desk.config, clock=lambda: now[0])
    publish(kafka, MADE[:5])
    before = ask(desk, export.summary)
    assert before["records"] == before["posts"] == len(firsts(MADE[:5]))
    publish(kafka, MADE[5:9])
    assert ask(desk, export.summary) == before
    now[0] = 2 * FRESH_S
    assert ask(desk, export.summary)["posts"] == len(firsts(MADE[:9]))
