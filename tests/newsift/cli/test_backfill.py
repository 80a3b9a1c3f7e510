import json
import time
from pathlib import Path
from typing import Any

import pytest

from encoder import Encoder
from newsift.operations.offline_pipeline import Totals
from tests.newsift.cli.events.ferry_event import seed_set
from tests.newsift.cli.test_matches import rows, rows_in
from tests.worker.command_topics import MATCHES, POSTS, SEEDS, Kafka
from tests.worker.fake_command import Command
from worker.match.pipeline import Pipeline

HOUR = 3_600_000
TITLE = "Fire on the ferry Astrid Vane off Port Maren"
TEXT = (
    "A fire broke out on the car deck of the ferry Astrid Vane early on Tuesday and forced the "
    "passengers into lifeboats off Port Maren. The coastguard said nine people are missing. Boats "
    "and helicopters searched the cold water all night."
)
SEED = json.dumps({"title": TITLE, "text": TEXT, "event": "ferry"}).encode()
ABOUT = "Fire on the ferry Astrid Vane, passengers in lifeboats off Port Maren"
OTHER = "Two recipes for lemon cake that never fail, and a walk in the park"


def post(name: str, text: str) -> bytes:
    return json.dumps({"id": name, "text": text}).encode()


def history(kafka: Kafka) -> None:
    kafka.send(SEEDS, SEED, b"ferry-fire")
    now = int(time.time() * 1000)
    for age, text in ((5, ABOUT), (3, ABOUT + "!"), (2, OTHER), (1, ABOUT + "?")):
        value = post(f"{age}h", text)
        kafka.send(POSTS, value, b"k", at=now - age * HOUR, partition=age % 3)
    kafka.send(POSTS, b"{broken", partition=0)


def test_finds_the_matches_of_the_worker(newsift: Command, kafka: Kafka, enc: Encoder) -> None:
    history(kafka)
    done = newsift("backfill", "ferry-fire", "--since", "4h", "--json")
    assert done.code == 0, done.err
    result = {row["post"]["id"]: row for row in rows(done.out)}
    assert sorted(result) == ["1h", "3h"]
    assert "4 posts read, 2 matched, no posts: bad_json 1" in done.err

    outcome = Pipeline(enc).run(kafka.records(POSTS), seed_set(kafka, enc), lambda: "now")
    expected = [json.loads(r.value) for r in outcome.records if r.kind == "match" and r.value]
    for row in expected:
        if row["post"]["id"] == "5h":
            continue
        same = result[row["post"]["id"]] | {"processed_at": "now"}
        assert same == row
    assert len(expected) == 3


def test_published_matches_are_marked(newsift: Command, kafka: Kafka) -> None:
    history(kafka)
    assert newsift("backfill", "ferry-fire", "--since", "1w").code == 0
    assert kafka.records(MATCHES) == []
    assert json.loads(newsift("status", "--json").out)["state"] == "dead"  # nothing was committed
    done = newsift("backfill", "ferry-fire", "--since", "1w", "--publish", "--json")
    assert "3 matched" in done.err
    assert f"; {len(done.out.splitlines())} published to matched-tweets\n" in done.err
    result = kafka.records(MATCHES)
    assert sorted(record.value.decode() for record in result) == sorted(done.out.splitlines())
    assert {record.key for record in result} == {b"5h", b"3h", b"1h"}
    for record in result:
        assert record.headers == [("schema", b"newsift.match/1"), ("origin", b"backfill")]


def test_deleted_posts_are_left_out(newsift: Command, kafka: Kafka) -> None:
    history(kafka)
    deletion = {"post": {"id": "3h", "platform": "plain"}, "deleted_at": "2026-03-01T10:00:00Z"}
    kafka.send(MATCHES, json.dumps(deletion).encode(), b"3h")
    done = newsift("backfill", "ferry-fire", "--since", "1w", "--publish", "--json")
    assert sorted(row["post"]["id"] for row in rows(done.out)) == ["1h", "5h"]
    published = [record.key for record in kafka.records(MATCHES) if record.headers]
    assert sorted(published) == [b"1h", b"5h"]


def test_an_expired_seed_matches_what_came_before(newsift: Command, kafka: Kafka) -> None:
    history(kafka)
    assert newsift("seeds", "set", "ferry-fire", "--expires-at", "7d").code == 0
    value = json.loads(kafka.records(SEEDS)[-1].value)
    ended = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 2 * 3600))
    kafka.send(SEEDS, json.dumps(value | {"expires_at": ended}).encode(), b"ferry-fire")
    result = rows(newsift("backfill", "ferry-fire", "--since", "1w", "--json").out)
    assert sorted(row["post"]["id"] for row in result) == ["3h", "5h"]


def test_backfill_keeps_its_matches_on_ctrl_c(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.send(SEEDS, SEED, b"ferry")
    for n in range(2):
        kafka.send(POSTS, post(str(n), ABOUT), partition=n)
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
