import json
import time
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from encoder import Encoder
from encoder.errors import InputError
from newsift.desk import seed_editor
from newsift.desk.api import Endpoint
from newsift.desk.period import StreamPeriod
from newsift.desk.session import Desk
from newsift.desk.threads import lock_or_busy
from newsift.desk.views import scores
from newsift.desk.views.events import (
    MAX_LABELS,
    MAX_LIST_TEXT_CHARS,
    event_exists,
    events,
    hourly_row,
    match,
    matches,
    story,
)
from newsift.operations.model_context import ModelContext
from tests.broker.clients import until
from tests.newsift.desk.desk_client import call, open_desk
from tests.newsift.desk.match_records import HOSTILE, HOUR, label, record
from tests.worker.command_topics import LABELS, MATCHES, POSTS, SEEDS, Kafka
from tests.worker.event_profiles import profile_of
from tests.worker.fake_command import Command
from worker.errors import BrokerError

TEXTS = {"river": "storm flood river city", "rain": "storm storm flood"}


@pytest.fixture
def desk(kafka: Kafka, context: ModelContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("NEWSIFT_MODEL__NAME", context.config.model.name)
    monkeypatch.setenv("NEWSIFT_MATCHING__BACKGROUND_RATE", "0.05")
    for name, text in TEXTS.items():
        seed(kafka, name, text)
    with open_desk(model=True, matches=True) as desk:
        yield desk


@pytest.mark.parametrize(("minutes", "rate"), [(1, None), (59, None), (120, 50.0)])
def test_what_a_stream_had_at_the_start_is_no_rate(minutes: int, rate: float | None) -> None:
    now = 10 * HOUR
    stream = SimpleNamespace(stream_rate=lambda: SimpleNamespace(since=now - minutes * 60_000))
    desk = SimpleNamespace(
        period=StreamPeriod(lambda: now), matches=SimpleNamespace(since=0), stream=stream
    )
    row = hourly_row(cast(Desk, desk), 100)
    assert (row and row["rate"]) == rate


def seed(kafka: Kafka, name: str, text: str = "storm city", **more: Any) -> None:
    kafka.send(SEEDS, json.dumps({"text": text, "event": "flood", **more}).encode(), name.encode())


PROMISE = {"precision": 0.8, "confidence": 0.9, "labels": 22, "rate": 0.01}


def profile(kafka: Kafka, enc: Encoder, **more: Any) -> str:
    created = profile_of(enc, "flood", {name: ("", text) for name, text in TEXTS.items()})
    kafka.send(SEEDS, json.dumps(created.record() | more).encode(), created.id.encode())
    return created.version


def cuts_of(kafka: Kafka) -> dict[str, float | None]:
    records = {row.key.decode(): json.loads(row.value) for row in kafka.records(SEEDS)}
    return {name: value.get("threshold") for name, value in records.items()}


def set_threshold(desk: Desk, threshold: float | None) -> Any:
    return call(desk, scores.set_threshold, event="flood", by="ann", threshold=threshold)


def thresholds(desk: Desk) -> list[float]:
    result: list[float] = call(desk, scores.scores, event="flood")["thresholds"]
    return result


def test_a_threshold_is_set_for_all_seeds_and_removed_again(
    desk: Desk, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    automatic = thresholds(desk)
    assert automatic[0] < automatic[1]
    monkeypatch.setattr(seed_editor, "lock_or_busy", partial(lock_or_busy, seconds=0.05))
    with desk.editor.topic(), pytest.raises(BrokerError, match="another change is being published"):
        set_threshold(desk, 0.75)
    assert cuts_of(kafka) == {"river": None, "rain": None}
    assert set_threshold(desk, 0.75)["compared"] == 2
    assert cuts_of(kafka) == {"river": 0.75, "rain": 0.75}
    until(lambda: thresholds(desk) == [0.75, 0.75])
    assert not call(desk, scores.scores, event="flood")["is_automatic"]
    set_threshold(desk, None)
    assert cuts_of(kafka) == {"river": None, "rain": None}
    until(lambda: thresholds(desk) == automatic)
    assert call(desk, scores.scores, event="flood")["is_automatic"]


def test_the_threshold_of_an_event_is_of_its_own_seeds(desk: Desk, kafka: Kafka) -> None:
    kafka.send(SEEDS, b"{", b"odd")  # refused, and so of no event
    until(lambda: desk.mirrors.control.refused)
    seed(kafka, "flood", event="fire", threshold=0.125)
    until(lambda: call(desk, matches, event="fire")["threshold"] == 0.125)
    assert call(desk, matches, event="flood")["threshold"] == min(thresholds(desk))


def test_a_new_threshold_ends_the_promise_as_with_the_command(
    desk: Desk, kafka: Kafka, context: ModelContext, newsift: Command
) -> None:
    name = "profile|flood"
    profile(kafka, context.enc, threshold=0.5, promise=PROMISE)
    until(lambda: call(desk, scores.scores, event="flood")["state"] == "in force")
    assert call(desk, scores.scores, event="flood")["promise"]["threshold"] == 0.5
    set_threshold(desk, 0.625)
    by_desk = kafka.records(SEEDS)[-1]
    profile(kafka, context.enc, threshold=0.5, promise=PROMISE)
    assert newsift("seeds", "set", name, "--threshold", 0.625).code == 0
    by_command = kafka.records(SEEDS)[-1]
    assert (by_desk.key, by_desk.value) == (by_command.key, by_command.value)
    assert "promise" not in json.loads(by_desk.value)
    assert cuts_of(kafka) == {"river": None, "rain": None, name: 0.625}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"threshold": 1.5}, "threshold"),
        ({"threshold": "0.5"}, "threshold"),
        ({"threshold": 0.5, "event": "none"}, "there is none of this name"),
    ],
)
def test_an_invalid_threshold_is_refused(
    desk: Desk, kafka: Kafka, values: dict[str, Any], text: str
) -> None:
    with pytest.raises(InputError, match=text):
        call(desk, scores.set_threshold, **{"event": "flood", "by": "ann", **values})
    assert cuts_of(kafka) == {"river": None, "rain": None}


def test_invalid_records_leave_the_page_whole(desk: Desk, kafka: Kafka) -> None:
    odd = {"seed_id": "river", "seed_version": "?", "threshold": 1e308}
    version = desk.model.view().events["flood"].seeds[1].version
    rows = [record("1", 0.9, -5, "flood", match=odd | more, processed_at="never")
            for more in ({}, {"seed_version": version})]  # fmt: skip
    kafka.fill(MATCHES, [*(json.dumps(row).encode() for row in rows), b"{", b""])
    kafka.fill(POSTS, [b"{}"])
    kafka.send(LABELS, b"{}", b"?")
    until(lambda: desk.matches.version("flood") >= 2)
    assert call(desk, scores.scores, event="flood")["matched"] == 1
    assert call(desk, scores.near, event="flood")["near"] == []


PAST = "2020-01-01T00:00:00Z"


def row(desk: Desk, name: str = "flood") -> Any:
    return next((each for each in call(desk, events)["events"] if each["event"] == name), {})


def test_thresholds_are_those_that_hold_now(
    desk: Desk, kafka: Kafka, context: ModelContext
) -> None:
    enc, rate = context.enc, 0.05
    cuts = [float(enc.thresholds(enc.articles([text]), rate)[0]) for text in TEXTS.values()]
    assert row(desk)["thresholds"] == pytest.approx(sorted(cuts))
    profile(kafka, enc, threshold=0.5)
    until(lambda: row(desk)["thresholds"] == [0.5])
    seed(kafka, "beside", threshold=0.875)
    until(lambda: row(desk)["thresholds"] == [0.5, 0.875])
    answer = row(desk)
    assert (answer["state"], answer["seeds"]) == ("live", {"replaced": 2, "live": 1})
    assert (answer["profile"], answer["promise"]) == ({"state": "in force", "why": ""}, None)


def test_a_stale_profile_has_a_reason_and_its_seeds_match(
    desk: Desk, kafka: Kafka, context: ModelContext
) -> None:
    profile(kafka, context.enc, threshold=0.5, promise=PROMISE)
    until(lambda: row(desk)["promise"])
    seed(kafka, "rain", threshold=0.25)
    until(lambda: row(desk)["profile"]["state"] == "stale")
    answer = row(desk)
    assert "'rain' has changed" in answer["profile"]["why"]
    assert (answer["state"], answer["seeds"]) == ("live", {"live": 2})
    assert answer["thresholds"][0] == 0.25
    assert answer["promise"]["lapsed"] == "its profile is stale"


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
        answer = call(desk, events)
    states = {each["event"]: each["state"] for each in answer["events"]}
    assert states == {
        "alone": "none", "broken": "refused", "held": "paused", "live": "live", "over": "expired",
    }  # fmt: skip
    assert {each["id"] for each in answer["refused"]} == {"profile|broken", "of no event"}
    assert answer["more_refused"] == 0


@pytest.fixture
def plain_desk(kafka: Kafka) -> Iterator[Desk]:
    with open_desk(matches=True) as desk:
        yield desk


def asks(desk: Desk, endpoint: Endpoint = matches, **values: Any) -> Any:
    return call(desk, endpoint, event="ferry", **values)


def came(desk: Desk, kafka: Kafka, records: list[dict[str, Any]]) -> None:
    kafka.fill(MATCHES, [json.dumps(each).encode() for each in records])
    until(lambda: desk.matches.version("ferry") >= len(records))


def test_the_last_minutes_are_those_of_the_posts(plain_desk: Desk, kafka: Kafka) -> None:
    now = int(time.time() * 1000)
    for name, ago in (("old", 2 * HOUR), ("new", HOUR // 2)):
        kafka.send(MATCHES, json.dumps(record(name, 0.5, now - ago, group=name)).encode(), at=now)
    until(lambda: asks(plain_desk)["total"] == 2)
    assert [each["id"] for each in asks(plain_desk)["stories"]] == ["new", "old"]
    assert [each["id"] for each in asks(plain_desk, minutes=60)["stories"]] == ["new"]


def test_an_event_is_there_by_an_article_a_match_or_a_label(plain_desk: Desk, kafka: Kafka) -> None:
    seed(kafka, "river")
    kafka.send(MATCHES, json.dumps(record("1", 0.5)).encode())
    label(kafka, "9", "on", event="quake")

    def exists(event: str) -> bool:
        answer = call(plain_desk, event_exists, event=event)
        return bool(answer["ready"] and answer["exists"])

    until(lambda: exists("flood") and exists("ferry") and exists("quake"))
    assert not exists("nope")


def test_labels_stand_beside_their_posts(plain_desk: Desk, kafka: Kafka) -> None:
    came(plain_desk, kafka, [record("1", 0.5, group="a"), record("2", 0.5, group="a")])
    label(kafka, "1", "on", "ann")
    label(kafka, "1", "off", "ann")  # thinks again
    label(kafka, "1", "unsure", "b" * 200)
    label(kafka, "1", "on", "cid", event="quake")
    for n in range(MAX_LABELS + 1):
        label(kafka, "2", "on", f"judge {n}")
    until(lambda: len(plain_desk.mirrors.labels.event_labels("ferry")) == 2 + MAX_LABELS + 1)
    one, two = asks(plain_desk, story, group="a")
    assert [(label["by"], label["label"]) for label in one["labels"]] == [
        ("ann", "off"), ("b" * 59 + "…", "unsure"),
    ]  # fmt: skip
    assert len(two["labels"]) == MAX_LABELS
    assert asks(plain_desk)["stories"][0]["labels"] == one["labels"]


def test_a_post_in_full_has_its_score_with_each_seed_of_the_event(
    plain_desk: Desk, kafka: Kafka
) -> None:
    created = record("1", 0.5, text="x" * 2000, group="a")
    more = [{"seed_id": "s2", "score": 0.75}, {"event": "quake", "score": 0.9}]
    created["matches"] += [created["matches"][0] | each for each in more]
    came(plain_desk, kafka, [created])
    (brief,) = asks(plain_desk)["stories"]
    assert (len(brief["text"]), brief["cut"], brief["score"]) == (MAX_LIST_TEXT_CHARS, True, 0.75)
    answer = asks(plain_desk, match, platform="plain", id="1")
    assert (answer["text"], answer["cut"], answer["score"]) == ("x" * 2000, False, 0.75)
    assert [(each["id"], each["score"]) for each in answer["seeds"]] == [("s1", 0.5), ("s2", 0.75)]
    assert (answer["events"], answer["source"]) == (["ferry", "quake"], "tweets-0-1")
    with pytest.raises(InputError, match="not among the newest"):
        asks(plain_desk, match, platform="x", id="1")


def texts_in(answer: Any) -> Iterator[str]:
    if isinstance(answer, str):
        yield answer
    elif isinstance(answer, dict | list):
        for each in [*answer, *answer.values()] if isinstance(answer, dict) else answer:
            yield from texts_in(each)


def test_hostile_records_are_refused_or_cut(plain_desk: Desk, kafka: Kafka) -> None:
    long = HOSTILE + "w" * 2_000
    post = {"id": "1", "platform": "x", "text": long * 30, "author": long, "lang": long,
            "url": long, "created_at": long}  # fmt: skip
    match_of = {"title": long, "seed_id": long, "seed_version": long, "why": [[long, 1e308]] * 99}
    odd = record("1", 0.5, group="a", post=post, match=match_of, seed_set=long, model=long)
    refused = [record("i" * 600, 0.5, group="b"), record("2", 1.5, group="b"),
               record("3", 0.5, group="g" * 600), record("4", 0.5, event="e" * 300)]  # fmt: skip
    crowd = record("5", 0.5, group="c")
    crowd["matches"] = crowd["matches"] * 1001
    values = [json.dumps(each).encode() for each in (*refused, crowd, odd)]
    kafka.fill(MATCHES, [b"{", b"", *values])
    until(lambda: asks(plain_desk)["total"])
    assert asks(plain_desk)["total"] == 1
    for answer in (asks(plain_desk), asks(plain_desk, story, group="a")):
        plain = msgspec.json.decode(msgspec.json.encode(answer))
        assert max(map(len, texts_in(plain))) <= MAX_LIST_TEXT_CHARS
    full = msgspec.json.decode(msgspec.json.encode(asks(plain_desk, match, platform="x", id="1")))
    # Its own text alone.
    assert sum(len(text) > MAX_LIST_TEXT_CHARS for text in texts_in(full)) == 1
    assert full["url"] is None
    assert len(full["why"]) <= 8
