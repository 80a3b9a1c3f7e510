"""The page of events: thresholds, profiles, promises, drift, bursts, and odd records."""

import json
from typing import Any

import pytest

import encoder
from newsift.desk.session import Desk
from newsift.desk.views.events import MOST_EVENTS, events
from tests.newsift.desk.client import call, open_desk, until
from tests.newsift.desk.matched import record
from tests.newsift.desk.views.test_scores import TEXTS, desk, model
from tests.newsift.worker_web import worker_web
from tests.worker.kafka_side import MATCHES, POSTS, SEEDS, Kafka
from tests.worker.learned import profile_of
from worker.config import load_config
from worker.match.drift import Drifting
from worker.metrics.registry import Metrics
from worker.metrics.web import Health

__all__ = ["desk", "model"]

PAST = "2020-01-01T00:00:00Z"
PROMISE = {"precision": 0.8, "confidence": 0.9, "labels": 22, "rate": 0.01}


def page(desk: Desk, **values: Any) -> Any:
    return call(desk, events, **values)


def row(desk: Desk, name: str = "flood") -> Any:
    return next((each for each in page(desk)["events"] if each["event"] == name), {})


def seed(kafka: Kafka, name: str, text: str = "storm city", **more: Any) -> None:
    kafka.send(SEEDS, json.dumps({"text": text, "event": "flood", **more}).encode(), name.encode())


def profile(kafka: Kafka, **more: Any) -> str:
    enc = encoder.load(load_config().model.name, device="cpu", threads=1)
    created = profile_of(enc, "flood", {name: ("", text) for name, text in TEXTS.items()})
    kafka.send(SEEDS, json.dumps(created.record() | more).encode(), created.id.encode())
    return created.version


def matched(kafka: Kafka, names: range, version: str, seed_id: str = "profile|flood") -> None:
    by = {"seed_id": seed_id, "seed_version": version}
    created = (record(f"{n}", 0.5, event="flood", group=f"{n}", match=by) for n in names)
    kafka.fill(MATCHES, [json.dumps(each).encode() for each in created])


def test_thresholds_are_those_that_hold_now(desk: Desk, kafka: Kafka) -> None:
    enc, rate = encoder.load(load_config().model.name, device="cpu", threads=1), 0.05
    cuts = [float(enc.thresholds(enc.articles([text]), rate)[0]) for text in TEXTS.values()]
    assert row(desk)["thresholds"] == pytest.approx(sorted(cuts))
    profile(kafka, threshold=0.5)
    until(lambda: row(desk)["thresholds"] == [0.5])
    seed(kafka, "beside", threshold=0.875)
    until(lambda: row(desk)["thresholds"] == [0.5, 0.875])
    answer = row(desk)
    assert (answer["state"], answer["seeds"]) == ("live", {"replaced": 2, "live": 1})
    assert (answer["profile"], answer["promise"]) == ({"state": "in force", "why": ""}, None)


def test_a_stale_profile_says_why_and_its_seeds_serve(desk: Desk, kafka: Kafka) -> None:
    profile(kafka, threshold=0.5, promise=PROMISE)
    until(lambda: row(desk)["promise"])
    seed(kafka, "rain", threshold=0.25)
    until(lambda: row(desk)["profile"]["state"] == "stale")
    answer = row(desk)
    assert "'rain' has changed" in answer["profile"]["why"]
    assert (answer["state"], answer["seeds"]) == ("live", {"live": 2})
    assert answer["thresholds"][0] == 0.25
    assert answer["promise"]["lapsed"] == "its profile is stale"


def test_a_promise_lapses_by_the_matches_of_its_version(desk: Desk, kafka: Kafka) -> None:
    kafka.fill(POSTS, [b"{}"] * 1000)
    version = profile(kafka, threshold=0.5, promise=PROMISE)
    matched(kafka, range(4), version)
    matched(kafka, range(4), version)  # delivered again
    matched(kafka, range(100, 300), "0" * 12)
    matched(kafka, range(300, 500), "c" * 12, "river")
    until(lambda: sum(row(desk)["posts"]) == 404 and row(desk)["promise"])
    answer = row(desk)["promise"]
    assert (answer["precision"], answer["confidence"]) == (0.8, 0.9)
    assert "4 of 1,000 posts passed in the last hour" in answer["lapsed"]  # and 10 do without it
    matched(kafka, range(500, 560), version)
    until(lambda: not row(desk)["promise"]["lapsed"])


def test_the_state_of_an_event_is_that_of_its_records(kafka: Kafka) -> None:
    seed(kafka, "over", event="over", expires_at=PAST)
    seed(kafka, "held", event="held", paused=True)
    seed(kafka, "both", event="held", expires_at=PAST)
    seed(kafka, "live", event="live")
    seed(kafka, "late", event="live", paused=True)
    kafka.send(SEEDS, b"{", b"profile|broken")
    kafka.send(SEEDS, b"{", b"of no event")
    odd = record("1", 0.5, event="alone", group="1")
    kafka.fill(MATCHES, [json.dumps(odd).encode()])
    with open_desk(matches=True) as desk:
        until(lambda: row(desk, "alone"))
        answer = page(desk)
    states = {each["event"]: each["state"] for each in answer["events"]}
    assert states == {
        "alone": "none", "broken": "refused", "held": "paused", "live": "live", "over": "expired",
    }  # fmt: skip
    assert {each["id"] for each in answer["refused"]} == {"profile|broken", "of no event"}
    assert answer["more_refused"] == 0


def test_events_come_in_pages_and_can_be_searched(kafka: Kafka) -> None:
    names = [f"Event {n:03}" for n in range(MOST_EVENTS + 7)]
    for name in names:
        kafka.send(SEEDS, json.dumps({"text": "storm", "event": name}).encode(), name.encode())
    with open_desk(matches=True) as desk:
        first, second = page(desk), page(desk, skip=MOST_EVENTS)
        assert [each["event"] for each in (*first["events"], *second["events"])] == names
        assert (len(first["events"]), first["total"]) == (MOST_EVENTS, len(names))
        result = page(desk, text="eVENT 01")
        assert [each["event"] for each in result["events"]] == names[10:20]


def test_drift_and_bursts_are_those_of_the_workers(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "flood \u202e" + "y" * 150
    seed(kafka, "river")
    seed(kafka, "rain", event=long)
    one, other = Metrics(), Metrics()
    one.drift([Drifting("flood", "", 12.0, 0.1)])
    for metrics, event in ((one, "flood"), (one, "flood"), (other, "flood"), (other, long)):
        metrics.burst(event)
    with worker_web(one, Health("")) as first, worker_web(other, Health("")) as second:
        monkeypatch.setenv("NEWSIFT_DESK__WORKERS", f"{first}, {second}")
        with open_desk(matches=True) as desk:
            until(lambda: row(desk)["bursts"])
            assert (row(desk)["bursts"], row(desk, long)["bursts"]) == (3, 1)
            assert row(desk)["drift"].startswith("event flood passes 12 times the promised rate")
            assert row(desk, long)["drift"] is None
