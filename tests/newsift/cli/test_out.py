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
from tests.worker.articles import FERRY, lines, write_seeds
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
        result = pyarrow.parquet.read_table(file, columns=list(COLUMNS)).to_pylist()
    elif file.suffix == ".db":
        with closing(sqlite3.connect(file)) as db:
            output = f"SELECT {', '.join(COLUMNS)} FROM matches JOIN posts USING (post_key)"
            return sorted(db.execute(output))
    elif file.suffix == ".csv":
        with file.open(encoding="utf-8", newline="") as table:
            result = [row | {"score": float(row["score"])} for row in csv.DictReader(table)]
    else:
        return rows_of([json.loads(line) for line in file.read_bytes().splitlines()])
    return sorted((row["match_id"], row["post_id"], row["seed_id"], row["score"]) for row in result)


@pytest.mark.parametrize(
    ("args", "message"),
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
    args: list[str], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    done = newsift(*command, *args)
    assert (done.code, done.out) == (2, ""), done.err
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


def started(args: Sequence[object], **environment: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", "from newsift.cli import main; main()", *map(str, args)]
    return subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )


def test_following_into_a_file_is_finished_by_ctrl_c(kafka: Kafka, tmp_path: Path) -> None:
    kafka.send(MATCHES, record("a"), partition=0)
    args = ["matches", "--since", "1h", "--follow", "--out", tmp_path / "m.json"]
    process = started(args, NEWSIFT_KAFKA=str(kafka.address))
    with process:
        until(lambda: any(file.stat().st_size for file in tmp_path.glob(".newsift-*")))
        message = said_until_ended_by(signal.SIGINT, process)
    assert process.returncode == 130, message
    assert "newsift: 1 post with matches: " in message
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
    expected = rows_of([json.loads(line) for line in newsift(*args, "--json").out.splitlines()])
    done = newsift(*args, "--out", "m.parquet")
    assert (done.code, done.out) == (0, ""), done.err
    assert rows_in(Path("m.parquet")) == expected
    assert len(expected) == 1


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
    stored = len(rows_in(Path("m.db")))
    assert (done.code, done.out) == (130, "")
    assert stored in (1, 2)
    output = f"newsift: {stored} posts read, {stored} matched; {stored} published to {MATCHES}\n"
    assert output in done.err
    assert len(kafka.records(MATCHES)) == stored


def test_a_terminal_is_told_how_long_it_takes(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        kafka.send(MATCHES, record(str(n)), partition=n)
    monkeypatch.setattr("newsift.operations.messages.SHOW_EVERY_S", 0)
    assert "left" not in newsift("matches", "--no-follow", "--out", "m.db").err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    message = newsift("matches", "--no-follow", "--out", "m.db").err
    assert "\r\x1b[K3 records, " in message


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
        stored = newsift("filter", "--force", "--seeds", "s.md", *args, stdin=posts).out
        assert [json.loads(line)["post"]["id"] for line in stored.splitlines()] == ["1", "2"]
