"""An event's matches: stories, labels beside them, and one post in full."""

import json
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from encoder.errors import InputError
from newsift.desk.api import Endpoint
from newsift.desk.session import Desk
from newsift.desk.views.events import MOST_MARKS, TEXT_CHARS, match, matches, story
from tests.newsift.desk.client import call, open_desk, until
from tests.newsift.desk.matched import HOSTILE, HOUR, label, record
from tests.worker.kafka_side import MATCHES, Kafka


@pytest.fixture
def desk(kafka: Kafka) -> Iterator[Desk]:
    with open_desk(matches=True) as desk:
        yield desk


def asks(desk: Desk, endpoint: Endpoint = matches, **values: Any) -> Any:
    return call(desk, endpoint, event="ferry", **values)


def came(desk: Desk, kafka: Kafka, records: list[dict[str, Any]]) -> None:
    kafka.fill(MATCHES, [json.dumps(each).encode() for each in records])
    until(lambda: desk.matches.counts("ferry").number >= len(records))


def test_the_last_minutes_are_those_of_kafka(desk: Desk, kafka: Kafka) -> None:
    now = int(time.time() * 1000)
    for name, ago in (("old", 2 * HOUR), ("new", HOUR // 2)):
        kafka.send(MATCHES, json.dumps(record(name, 0.5, group=name)).encode(), at=now - ago)
    until(lambda: asks(desk)["total"] == 2)
    assert [each["id"] for each in asks(desk)["stories"]] == ["new", "old"]
    assert [each["id"] for each in asks(desk, minutes=60)["stories"]] == ["new"]


def test_labels_stand_beside_their_posts(desk: Desk, kafka: Kafka) -> None:
    came(desk, kafka, [record("1", 0.5, group="a"), record("2", 0.5, group="a")])
    label(kafka, "1", "on", "ann")
    label(kafka, "1", "off", "ann")  # thinks again
    label(kafka, "1", "unsure", "b" * 200)
    label(kafka, "1", "on", "cid", event="quake")
    for n in range(MOST_MARKS + 1):
        label(kafka, "2", "on", f"judge {n}")
    until(lambda: len(desk.mirrors.labels.of("ferry")) == 2 + MOST_MARKS + 1)
    one, two = asks(desk, story, group="a")
    assert [(mark["by"], mark["label"]) for mark in one["marks"]] == [
        ("ann", "off"), ("b" * 59 + "…", "unsure"),
    ]  # fmt: skip
    assert len(two["marks"]) == MOST_MARKS
    assert asks(desk)["stories"][0]["marks"] == one["marks"]


def test_a_post_in_full_has_its_score_with_each_seed_of_the_event(desk: Desk, kafka: Kafka) -> None:
    created = record("1", 0.5, text="x" * 2000, group="a")
    more = [{"seed_id": "s2", "score": 0.75}, {"event": "quake", "score": 0.9}]
    created["matches"] += [created["matches"][0] | each for each in more]
    came(desk, kafka, [created])
    (brief,) = asks(desk)["stories"]
    assert (len(brief["text"]), brief["cut"], brief["score"]) == (TEXT_CHARS, True, 0.75)
    answer = asks(desk, match, platform="plain", id="1")
    assert (answer["text"], answer["cut"], answer["score"]) == ("x" * 2000, False, 0.75)
    assert [(each["id"], each["score"]) for each in answer["seeds"]] == [("s1", 0.5), ("s2", 0.75)]
    assert (answer["events"], answer["source"]) == (["ferry", "quake"], "tweets-0-1")
    with pytest.raises(InputError, match="not among the newest"):
        asks(desk, match, platform="x", id="1")


def texts_in(answer: Any) -> Iterator[str]:
    if isinstance(answer, str):
        yield answer
    elif isinstance(answer, dict | list):
        for each in [*answer, *answer.values()] if isinstance(answer, dict) else answer:
            yield from texts_in(each)


def test_hostile_records_are_refused_or_cut(desk: Desk, kafka: Kafka) -> None:
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
    until(lambda: asks(desk)["total"])
    assert asks(desk)["total"] == 1
    for answer in (asks(desk), asks(desk, story, group="a")):
        plain = msgspec.json.decode(msgspec.json.encode(answer))
        assert max(map(len, texts_in(plain))) <= TEXT_CHARS
    full = msgspec.json.decode(msgspec.json.encode(asks(desk, match, platform="x", id="1")))
    assert sum(len(text) > TEXT_CHARS for text in texts_in(full)) == 1  # its own text alone
    assert full["url"] is None
    assert len(full["why"]) <= 8
