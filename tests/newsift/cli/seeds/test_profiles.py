"""What the commands say of profiles: which is in force, for whom, and why one is not."""

import json
from typing import Any

from encoder import Encoder
from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka
from tests.worker.learned import profile_of
from worker.seeds.profile import Profile

ARTICLES = {"dam": ("Dam breaks", "The Orrell dam broke."), "rain": ("", "Rain on Orrell.")}
KEY = b"profile|flood"


def send(kafka: Kafka) -> None:
    for name, (title, text) in ARTICLES.items():
        record = {"title": title, "text": text, "event": "flood"}
        kafka.send(SEEDS, json.dumps(record).encode(), name.encode())
    kafka.send(SEEDS, b'{"text": "A cat show."}', b"cats")


def listed(newsift: Command) -> dict[str, dict[str, Any]]:
    done = newsift("seeds", "list", "--json")
    assert done.code == 0, done.err
    return {row["id"]: row for row in map(json.loads, done.out.splitlines())}


def learned(enc: Encoder, **changes: Any) -> Profile:
    return profile_of(enc, "flood", ARTICLES, **changes)


def test_shows_the_profile_in_force(newsift: Command, kafka: Kafka, enc: Encoder) -> None:
    send(kafka)
    kafka.send(SEEDS, learned(enc).value(), KEY)
    result = listed(newsift)
    assert {name: row["state"] for name, row in result.items()} == {
        "cats": "live", "dam": "replaced", "rain": "replaced", "profile|flood": "live",
    }  # fmt: skip
    assert result["profile|flood"]["seeds"] == ["dam", "rain"]
    assert result["profile|flood"]["seed_version"] == learned(enc).version
    assert result["dam"]["by"] == "profile|flood"
    (line,) = [row for row in newsift("seeds", "list").out.splitlines() if "profile|" in row]
    assert line.split()[1] == "live"
    assert line.endswith("for dam, rain")
    assert "2 live, 2 articles by their event's profile" in newsift("status").out
    assert json.loads(newsift("status", "--json").out)["seeds"] == {
        "live": 2, "expired": 0, "paused": 0, "replaced": 2,
        "refused": {}, "stale": {}, "unknown": {},
    }  # fmt: skip


def test_a_stale_profile_says_why(newsift: Command, kafka: Kafka, enc: Encoder) -> None:
    send(kafka)
    kafka.send(SEEDS, learned(enc).value(), KEY)
    assert newsift("seeds", "set", "rain", "--paused").code == 0
    result = listed(newsift)
    assert (result["dam"]["state"], result["rain"]["state"]) == ("live", "paused")
    assert (result["profile|flood"]["state"], result["profile|flood"]["reason"]) == (
        "stale", "seeds: 'rain' is paused",
    )  # fmt: skip
    message = newsift("status").out
    assert "2 live, 1 paused, 1 stale" in message
    assert "stale         profile|flood: seeds: 'rain' is paused" in message
    assert "seeds: 'rain' is paused" in newsift("seeds", "list").out
    assert "stale" in newsift("seeds", "show", "profile|flood").out


def test_a_set_threshold_drops_the_promise(newsift: Command, kafka: Kafka, enc: Encoder) -> None:
    send(kafka)
    given = learned(enc, threshold=0.3, promise={"precision": 0.8}, made={"by": "anna"})
    kafka.send(SEEDS, given.value(), KEY)
    done = newsift("seeds", "set", "profile|flood", "--threshold", "0.5")
    assert done.code == 0, done.err
    last = kafka.records(SEEDS)[-1]
    assert last.headers == [("schema", b"newsift.profile/1")]
    record = json.loads(last.value)
    expected = given.record() | {"threshold": 0.5}
    del expected["promise"]
    assert record == expected
    refused = newsift("seeds", "set", "profile|flood", "--paused")
    assert (refused.code, "only the threshold can be set" in refused.err) == (2, True)


def test_survives_an_export(newsift: Command, kafka: Kafka, enc: Encoder, tmp_path: Any) -> None:
    send(kafka)
    kafka.send(SEEDS, learned(enc, made={"by": "anna"}).value(), KEY)
    (row,) = map(json.loads, newsift("seeds", "show", "profile|flood", "--json").out.splitlines())
    assert (row["state"], row["model"], row["made"]) == ("live", enc.digest, {"by": "anna"})
    assert newsift("seeds", "export", tmp_path / "all.jsonl").code == 0
    assert newsift("seeds", "remove", "profile|flood").code == 0
    assert listed(newsift)["dam"]["state"] == "live"
    done = newsift("seeds", "import", tmp_path / "all.jsonl")
    assert (done.code, "refused" in done.err) == (0, False)
    assert listed(newsift)["dam"]["state"] == "replaced"
