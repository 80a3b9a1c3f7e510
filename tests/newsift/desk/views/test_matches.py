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
from tests.newsift.desk.matched import HOSTILE, HOUR, label, many, record
from tests.worker.kafka_side import MATCHES, Kafka


@pytest.fixture
def desk(kafka: Kafka) -> Iterator[Desk]:
    """A desk that follows matches and labels."""
    with open_desk(matches=True) as desk:
        yield desk


def asks(desk: Desk, endpoint: Endpoint = matches, **values: Any) -> Any:
    return call(desk, endpoint, event="ferry", **values)


def came(desk: Desk, kafka: Kafka, records: list[dict[str, Any]]) -> None:
    """Publish matches in this order, and wait until the desk has them."""
    kafka.fill(MATCHES, [json.dumps(each).encode() for each in records])
    until(lambda: desk.matches.counts("ferry").number >= len(records))


def test_stories_are_the_newest_first_each_by_its_first_post_that_is_wanted(
    desk: Desk, kafka: Kafka
) -> None:
    records = many(3, 120)
    came(desk, kafka, records)
    earlier, firsts, counts = set[str](), dict[str, tuple[int, str]](), dict[str, int]()
    for n, each in enumerate(records):
        name, group = each["post"]["id"], each["group"]
        if name in earlier:
            continue
        earlier.add(name)
        counts[group] = counts.get(group, 0) + 1
        if each["matches"][0]["score"] >= 0.5:
            firsts.setdefault(group, (n, name))
    expected = [(group, name) for group, (_, name) in
                sorted(firsts.items(), key=lambda pair: pair[1], reverse=True)]  # fmt: skip
    answer = asks(desk, least=0.5, count=20)
    assert [(each["group"], each["id"]) for each in answer["stories"]] == expected[:20]
    assert answer["total"] == len(expected)
    assert [each["count"] for each in answer["stories"]] == [counts[g] for g, _ in expected[:20]]
    rest = asks(desk, least=0.5, count=100, skip=20)["stories"]
    assert [(each["group"], each["id"]) for each in rest] == expected[20:120]


def test_the_last_minutes_are_by_kafkas_time(desk: Desk, kafka: Kafka) -> None:
    now = int(time.time() * 1000)
    for name, ago in (("old", 2 * HOUR), ("new", HOUR // 2)):
        kafka.send(MATCHES, json.dumps(record(name, 0.5, group=name)).encode(), at=now - ago)
    until(lambda: asks(desk)["total"] == 2)
    assert [each["id"] for each in asks(desk, minutes=60)["stories"]] == ["new"]
    assert asks(desk, minutes=180)["total"] == 2


def test_what_people_said_stands_beside_their_posts(desk: Desk, kafka: Kafka) -> None:
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
    """Every text of an answer."""
    if isinstance(answer, str):
        yield answer
    elif isinstance(answer, dict | list):
        for each in [*answer, *answer.values()] if isinstance(answer, dict) else answer:
            yield from texts_in(each)


def test_of_what_strangers_write_nothing_is_long_and_no_page_breaks(
    desk: Desk, kafka: Kafka
) -> None:
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
