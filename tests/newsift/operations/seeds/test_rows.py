"""What the commands say of seeds that are paused, too many, or at the edges of time."""

import json
from typing import Any

import pytest

from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka


def listed(newsift: Command) -> dict[str, dict[str, Any]]:
    done = newsift("seeds", "list", "--json")
    assert done.code == 0, done.err
    return {row["id"]: row for row in map(json.loads, done.out.splitlines())}


def test_a_seed_is_paused_and_resumed(newsift: Command, kafka: Kafka) -> None:
    kafka.send(SEEDS, b'{"text": "A ferry burns."}', b"ferry")
    assert newsift("seeds", "set", "ferry", "--paused").code == 0
    assert json.loads(kafka.records(SEEDS)[-1].value) == {"text": "A ferry burns.", "paused": True}
    assert listed(newsift)["ferry"]["state"] == "paused"
    assert "1 paused" in newsift("status").out
    assert newsift("seeds", "set", "ferry", "--resumed").code == 0
    assert json.loads(kafka.records(SEEDS)[-1].value) == {"text": "A ferry burns."}
    assert listed(newsift)["ferry"]["state"] == "live"


def test_no_time_ends_a_command(newsift: Command, kafka: Kafka) -> None:
    for name, time in (("late", "9999-12-31T23:59:59-01:00"), ("early", "0001-01-01T00:00:00Z")):
        kafka.send(SEEDS, json.dumps({"text": "A", "expires_at": time}).encode(), name.encode())
    result = listed(newsift)
    assert result["late"]["state"] == "refused"
    assert result["late"]["reason"].startswith("expires_at: '9999-12-31T23:59:59-01:00'")
    assert (result["early"]["state"], result["early"]["expires_at"]) == (
        "expired", "0001-01-01T00:00:00.000Z",
    )  # fmt: skip
    for name in result:
        assert newsift("seeds", "show", name).code == 0
    assert newsift("status").code == 0


def test_seeds_beyond_the_limit_are_listed_as_refused(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_LIMITS__SEEDS", "1")
    for name in ("b", "a"):
        kafka.send(SEEDS, b'{"text": "A"}', name.encode())
    result = listed(newsift)
    assert [result[name]["state"] for name in "ab"] == ["live", "refused"]
    assert result["b"]["reason"].startswith("limits.seeds: ")
