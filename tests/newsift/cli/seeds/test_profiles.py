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
    refused = newsift("seeds", "set", "profile|flood", "--paused")
    assert (refused.code, "only the threshold can be set" in refused.err) == (2, True)
