"""`--out` of filter, matches and backfill: by its ending, and what a signal leaves of it."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from newsift.operations.offline_pipeline import Totals
from tests.broker.clients import until
from tests.newsift.cli.test_matches import record
from tests.worker.articles import FERRY
from tests.worker.fake import Command
from tests.worker.interrupted import said_until_ended_by
from tests.worker.kafka_side import MATCHES, SEEDS, Kafka
from tests.worker.kafka_side import POSTS as POSTS_TOPIC

ROOT = Path(__file__).parents[3]


def rows_in(file: Path) -> list[tuple[str, str]]:
    """The posts and seeds of a database of matches."""
    with closing(sqlite3.connect(file)) as db:
        return sorted(
            db.execute("SELECT post_id, seed_id FROM matches JOIN posts USING (post_key)")
        )


def test_following_into_a_file_is_finished_by_ctrl_c(kafka: Kafka, tmp_path: Path) -> None:
    kafka.send(MATCHES, record("a"), partition=0)
    args = ["matches", "--since", "1h", "--follow", "--out", tmp_path / "m.json"]
    command = [sys.executable, "-c", "from newsift.cli import main; main()", *map(str, args)]
    environment = os.environ | {"NEWSIFT_KAFKA": str(kafka.address)}
    with subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
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
    assert rows_in(Path("m.db")) == [("a", "ferry")]
    newsift("matches", "--no-follow", "--out", "m.csv", "--per", "post")
    with Path("m.csv").open(newline="") as table:
        rows = [(row["post_id"], row["seed_id"]) for row in csv.DictReader(table)]
    assert rows == [("a", "ferry"), ("b", "dam")]


def test_backfill_keeps_what_it_found_before_ctrl_c(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
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
