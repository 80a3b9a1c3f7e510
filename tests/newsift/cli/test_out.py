"""`--out` of filter, matches and backfill: by its ending, and what a signal leaves of it."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import encoder
from encoder import Encoder
from newsift.operations.offline_pipeline import Totals
from tests.broker.clients import until
from tests.newsift.cli.test_matches import record
from tests.worker.articles import FERRY, POSTS, lines, write_seeds
from tests.worker.fake import Command
from tests.worker.interrupted import said_until_ended_by
from tests.worker.kafka_side import MATCHES, SEEDS, Kafka
from tests.worker.kafka_side import POSTS as POSTS_TOPIC

ROOT = Path(__file__).parents[3]
COLUMNS = ("match_id", "post_id", "seed_id", "score")
Rows = list[tuple[str, str, str, float]]


@pytest.fixture(scope="module")
def model() -> Encoder:
    return encoder.load("default", device="cpu")


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    folder = tmp_path / "seeds"
    folder.mkdir()
    write_seeds(folder)
    return folder


def rows_of(records: list[dict[str, Any]]) -> Rows:
    """What the records of the worker say, a row a match."""
    return sorted(
        (match["match_id"], each["post"]["id"], match["seed_id"], match["score"])
        for each in records for match in each["matches"]
    )  # fmt: skip


def rows_in(file: Path) -> Rows:
    """What a file says, read by other hands."""
    if file.suffix == ".json":
        return rows_of(json.loads(file.read_bytes()))
    if file.suffix == ".parquet":
        found = pyarrow.parquet.read_table(file, columns=list(COLUMNS)).to_pylist()
    elif file.suffix == ".db":
        with closing(sqlite3.connect(file)) as db:
            told = f"SELECT {', '.join(COLUMNS)} FROM matches JOIN posts USING (post_key)"
            return sorted(db.execute(told))
    elif file.suffix == ".csv":
        with file.open(encoding="utf-8", newline="") as table:
            found = [row | {"score": float(row["score"])} for row in csv.DictReader(table)]
    else:
        return rows_of([json.loads(line) for line in file.read_bytes().splitlines()])
    return sorted((row["match_id"], row["post_id"], row["seed_id"], row["score"]) for row in found)


@pytest.mark.parametrize("name", ["m.csv", "m.json", "m.parquet", "m.db", "m.txt"])
def test_each_format_holds_the_matches_of_the_filter(
    newsift: Command, model: Encoder, seeds: Path, tmp_path: Path, name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encoder, "load", lambda *_, **__: model)
    args = ("filter", "--force", "--seeds", seeds)
    printed = newsift(*args, stdin=lines(*POSTS)).out
    wanted = rows_of([json.loads(line) for line in printed.splitlines()])
    done = newsift(*args, "--out", name, stdin=lines(*POSTS))
    assert (done.code, done.out) == (0, ""), done.err
    assert len(wanted) > 20
    assert rows_in(tmp_path / name) == wanted
    assert sorted(os.listdir(tmp_path)) == sorted([name, "seeds"])  # noqa: PTH208


def test_the_columns_of_all_tables_are_kept(
    newsift: Command, model: Encoder, seeds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each under its name, unless that is one of ours or taken; what is no table has none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encoder, "load", lambda *_, **__: model)
    Path("a.csv").write_text(f'id,text,likes\n1,"{FERRY}",=12\n', "utf-8")
    Path("b.tsv").write_text(f"text\tid\tLikes\tSeen by\n{FERRY}\t2\t7\tyou\n", "utf-8")
    Path("c.jsonl").write_bytes(lines({"id": "3", "text": FERRY}))
    own = ("id", "input_text", "text", "likes", "input_Likes", "Seen by")
    wanted = [
        ("1", FERRY, FERRY, "=12", None, None), ("2", FERRY, FERRY, None, "7", "you"),
        (None, None, FERRY, None, None, None),
    ]  # fmt: skip

    def kept(name: str) -> Path:
        done = newsift(
            "filter", "--force", "a.csv", "b.tsv", "c.jsonl", "--seeds", seeds, "--out", name
        )
        assert done.code == 0, done.err
        return tmp_path / name

    assert pyarrow.parquet.read_table(kept("m.parquet"), columns=list(own)).to_pylist() == [
        dict(zip(own, row, strict=True)) for row in wanted
    ]
    with closing(sqlite3.connect(kept("m.db"))) as db:
        names = ", ".join(f'"{name}"' for name in own)
        assert db.execute(f"SELECT {names} FROM posts ORDER BY post_key").fetchall() == wanted
    with kept("m.csv").open(encoding="utf-8", newline="") as table:
        assert [row["likes"] for row in csv.DictReader(table)] == ["'=12", "", ""]
    records = [json.loads(line) for line in kept("m.jsonl").read_bytes().splitlines()]
    assert [each.get("columns") for each in records] == [
        {"id": "1", "text": FERRY, "likes": "=12"},
        {"text": FERRY, "id": "2", "Likes": "7", "Seen by": "you"}, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--out", "m.db", "--per", "post"], "--per: a database holds posts and matches"),
        (["--out", "m.json", "--csv"], "--csv and --out m.json exclude each other"),
        (["--out", "m.csv", "--json"], "--json and --out m.csv exclude each other"),
        (["--json", "--csv"], "--json and --csv exclude each other"),
        (["--per", "seed"], "'seed' is not one of 'match', 'post'"),
        (["--out", "m.xlsx"], "--out m.xlsx: is of no known format"),
        (["--out", "m.db.gz"], "--out m.db.gz: is packed by itself"),
        (["--out", "."], ": is a folder; name a file in it"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [["filter", "--force", "--seeds", "s"], ["matches"], ["backfill", "s", "--since", "1h"]],
)
def test_what_is_refused_of_each_command(
    newsift: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str],
    args: list[str], said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    done = newsift(*command, *args)
    assert (done.code, done.out) == (2, ""), done.err
    assert said in done.err
    assert list(tmp_path.iterdir()) == []


def started(args: Sequence[object], **environment: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", "from newsift.cli import main; main()", *map(str, args)]
    return subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["m.json", "m.parquet", "m.db"])
def test_ctrl_c_completes_what_the_filter_found(tmp_path: Path, seeds: Path, name: str) -> None:
    source, out = tmp_path / "posts.jsonl", tmp_path / name
    out.write_bytes(b"old")
    os.mkfifo(source)
    process = started(
        ["filter", "--force", source, "--seeds", seeds, "--out", out, "--device", "cpu"]
    )
    assert process.stderr is not None
    with process, source.open("wb") as pipe:
        pipe.write(lines({"id": "1", "text": FERRY}) + b'{"broken\n')
        pipe.flush()
        while "rejected" not in (line := process.stderr.readline()):  # the batch is written
            assert line, "it ended"
        said_until_ended_by(signal.SIGINT, process)
    assert process.returncode == 130
    assert [(post, seed) for _, post, seed, _ in rows_in(out)] == [("1", "ferry-fire")]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, source.name, "seeds"])


def test_following_into_a_file_is_finished_by_ctrl_c(kafka: Kafka, tmp_path: Path) -> None:
    kafka.send(MATCHES, record("a"), partition=0)
    args = ["matches", "--since", "1h", "--follow", "--out", tmp_path / "m.json"]
    process = started(args, NEWSIFT_KAFKA=str(kafka.address))
    with process:
        until(lambda: any(file.stat().st_size for file in tmp_path.glob(".newsift-*")))
        said = said_until_ended_by(signal.SIGINT, process)
    assert process.returncode == 130, said
    assert "newsift: 1 post with matches: " in said
    assert [each["post"]["id"] for each in json.loads((tmp_path / "m.json").read_bytes())] == ["a"]


def test_matches_of_one_event_go_into_a_table(newsift: Command, kafka: Kafka) -> None:
    kafka.send(MATCHES, record("a", ferry=0.75, dam=0.5), partition=0)
    kafka.send(MATCHES, record("b", dam=0.5), partition=1)
    done = newsift("matches", "--since", "1h", "--event", "event of ferry", "--out", "m.db")
    assert (done.code, done.out) == (0, ""), done.err
    assert rows_in(Path("m.db")) == [("a-ferry", "a", "ferry", 0.75)]
    newsift("matches", "--no-follow", "--out", "m.csv", "--per", "post")
    assert [(post, seed) for _, post, seed, _ in rows_in(Path("m.csv"))] == [
        ("a", "ferry"), ("b", "dam"),
    ]  # fmt: skip


def test_backfill_goes_into_a_file(
    newsift: Command, kafka: Kafka, model: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "load", lambda *_, **__: model)
    kafka.send(SEEDS, json.dumps({"text": FERRY, "event": "e"}).encode(), b"ferry")
    kafka.send(POSTS_TOPIC, json.dumps({"id": "1", "text": FERRY}).encode(), partition=0)
    args = ("backfill", "ferry", "--force", "--since", "1h")
    wanted = rows_of([json.loads(line) for line in newsift(*args, "--json").out.splitlines()])
    done = newsift(*args, "--out", "m.parquet")
    assert (done.code, done.out) == (0, ""), done.err
    assert rows_in(Path("m.parquet")) == wanted
    assert len(wanted) == 1


def test_backfill_keeps_what_it_found_before_ctrl_c(
    newsift: Command, kafka: Kafka, model: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "load", lambda *_, **__: model)
    kafka.send(SEEDS, json.dumps({"text": FERRY, "event": "e"}).encode(), b"ferry")
    kafka.send(POSTS_TOPIC, json.dumps({"id": "1", "text": FERRY}).encode(), partition=0)
    kafka.send(POSTS_TOPIC, json.dumps({"id": "2", "text": FERRY}).encode(), partition=1)
    add = Totals.add

    def until_ctrl_c(self: Totals, *args: Any, **kwargs: Any) -> None:
        add(self, *args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(Totals, "add", until_ctrl_c)
    done = newsift("backfill", "ferry", "--force", "--since", "1h", "--publish", "--out", "m.db")
    kept = len(rows_in(Path("m.db")))
    assert (done.code, done.out) == (130, "")
    assert kept in (1, 2)
    told = f"newsift: {kept} posts read, {kept} matched; {kept} published to {MATCHES}\n"
    assert told in done.err
    assert len(kafka.records(MATCHES)) == kept


def test_a_terminal_is_told_how_long_it_takes(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        kafka.send(MATCHES, record(str(n)), partition=n)
    monkeypatch.setattr("newsift.operations.messages.SHOW_EVERY_S", 0)
    assert "left" not in newsift("matches", "--no-follow", "--out", "m.db").err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    said = newsift("matches", "--no-follow", "--out", "m.db").err
    assert "\r\x1b[K3 records, " in said


def test_on_a_terminal_a_filter_is_read_and_elsewhere_kept(
    newsift: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line a post, wrapped, its time in UTC or none; records where they are asked for."""
    monkeypatch.chdir(tmp_path)
    Path("s.md").write_text("# T\n\na ferry", "utf-8")
    long = " ".join(["ferry"] * 40)
    posts = lines(
        {"id": "1", "text": long, "created_at": "2026-01-31T12:00:00+02:00"},
        {"id": "2", "text": "a ferry"},
    )
    piped = newsift("filter", "--force", "--seeds", "s.md", stdin=posts)
    assert [json.loads(line)["post"]["id"] for line in piped.out.splitlines()] == ["1", "2"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    seen = newsift("filter", "--force", "--seeds", "s.md", stdin=posts).out.splitlines()
    assert seen[0].startswith("2026-01-31T10:00:00Z  ")
    assert 60 < max(map(len, seen)) <= 80
    assert sum(line.count("ferry") for line in seen) == 41
    assert [line[:2] for line in seen if not line.startswith(" ")] == ["20", "- "]
    for args in (["--json"], ["--out", "-"]):
        kept = newsift("filter", "--force", "--seeds", "s.md", *args, stdin=posts).out
        assert [json.loads(line)["post"]["id"] for line in kept.splitlines()] == ["1", "2"]
