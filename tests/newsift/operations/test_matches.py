import json
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsift.operations import matches
from newsift.operations.matches import MAX_EVENT_MATCHES, MatchLog, newest_profile, read_matches
from newsift.operations.messages import capture
from tests.newsift.desk.match_records import HOUR, NOON, moment, record
from tests.worker.small_encoder import Mail
from worker.config import Config, DeskConfig

ROOM = 2**27
NOW = NOON + 12 * HOUR
EVENTS = ("ferry", "quake")
PARTITIONS = 3
SEEDS = [("s1", "c"), ("s2", "d"), ("profile|ferry", "v1"), ("profile|ferry", "v2")]


def mail(values: Sequence[dict[str, Any]]) -> list[Any]:
    return [Mail(json.dumps(each).encode()) for each in values]


BY_PROFILE: dict[str, Any] = {"match": {"seed_id": "profile|ferry", "seed_version": "v1"}}


def log_of(values: Sequence[dict[str, Any]], **more: Any) -> MatchLog:
    log = MatchLog(**{"room": ROOM} | more)
    log.apply(mail(values), NOW)
    return log


@st.composite
def match_records(draw: st.DrawFn) -> dict[str, Any]:
    post_id = draw(st.sampled_from("012345"))
    if draw(st.integers(0, 7)) == 0:
        post = {"id": post_id, "platform": "plain"}
        return {"post": post, "deleted_at": "2026-03-01T10:00:00Z"}
    events = draw(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=2))
    created = record(post_id, 0.0, NOW - draw(st.integers(0, 30)) * HOUR, text="the ferry")
    created["processed_at"] = moment(NOW - draw(st.integers(0, 30)) * 60_000)
    created |= {"group": f"g{draw(st.integers(0, 2))}", "new": draw(st.booleans())}
    (common,) = created["matches"]
    created["matches"] = [
        common | {"event": event, "seed_id": seed, "seed_version": version, "match_id": f"{n}",
                  "score": draw(st.integers(1, 9)) / 10, "link": draw(st.integers(0, 9)) == 0}
        for n, event in enumerate(events) for seed, version in [draw(st.sampled_from(SEEDS))]
    ]  # fmt: skip
    return created


def of_event(values: Sequence[dict[str, Any]], event: str) -> dict[str, Any]:
    """By a walk over the records of each post: what is held of it, and what is counted."""
    held: dict[str, Any] = {}
    hours: dict[int, int] = {}
    for post_id in "012345":
        current: dict[str, Any] | None = None
        own = [each for each in values if each["post"]["id"] == post_id]
        for each in own:
            hits = [hit for hit in each.get("matches", ()) if hit["event"] == event]
            if not hits:
                continue
            best = min(hits, key=lambda hit: -hit["score"])
            seed = best["seed_id"], best["seed_version"]
            new = {
                "score": best["score"], "seed": seed, "came": each["processed_at"],
                "group": each["group"], "link": any(hit["link"] for hit in each["matches"]),
                "profile": seed if seed[0].startswith("profile|") else None,
            }  # fmt: skip
            if current is None:
                hour = each["source"]["timestamp"] // HOUR
                hours[hour] = hours.get(hour, 0) + 1
            elif current["profile"] == new["profile"]:
                new |= {name: current[name] for name in ("came", "group")}
            current = new
        if current is not None:
            held[post_id] = current | {"deleted": any("deleted_at" in each for each in own)}
    return {"held": held, "hours": hours}


def assert_same(log: MatchLog, values: Sequence[dict[str, Any]]) -> None:
    for event in EVENTS:
        expected = of_event(values, event)
        rows = log.of(event).rows
        assert {
            row.post_id[1]: {
                "score": row.score, "seed": row.seed, "came": moment(row.came),
                "link": row.has_link, "group": row.group, "deleted": row.is_deleted,
                "profile": row.profile if row.profile[0] else None,
            }
            for row in rows
        } == expected["held"]  # fmt: skip
        assert all((row.post.text == "") is row.is_deleted for row in rows)
        stories = {story.group: {row.post_id[1] for row in story.rows}
                   for story in log.of(event).stories}  # fmt: skip
        groups = {each["group"] for each in expected["held"].values()}
        assert stories == {
            group: {name for name, each in expected["held"].items() if each["group"] == group}
            for group in groups
        }
        first = NOW // HOUR - 40
        posts = log.of(event).counts(range(first, NOW // HOUR + 1)).posts
        assert {first + n: count for n, count in enumerate(posts) if count} == expected["hours"]
        asked = [
            name
            for name, each in sorted(
                expected["held"].items(),
                key=lambda pair: (pair[1]["came"], -pair[1]["score"], pair[0]),
            )
            if not each["link"]
        ]
        assert [row.post_id[1] for row in log.draw_rows(event)] == asked
        assert log.of(event).size == sum(row.size for row in rows)


@given(st.lists(match_records(), max_size=25), st.randoms(use_true_random=False))
def test_matches_are_those_of_a_slow_list_in_any_order_of_partitions(
    values: list[dict[str, Any]], dice: Random
) -> None:
    parts: list[list[dict[str, Any]]] = [[] for _ in range(PARTITIONS)]
    for each in values:
        parts[int(each["post"]["id"]) % PARTITIONS].append(each)
    shuffled = []
    while left := [part for part in parts if part]:
        shuffled.append(dice.choice(left).pop(0))
    for order in (values, shuffled):
        log = log_of(order)
        assert log.version == len(values)
        assert_same(log, values)


def test_memory_is_bounded() -> None:
    room = 100_000
    values = [
        record(f"{n}", 0.5, event=f"event {n % 7}", text="x" * (n % 4 == 0) * 9_000)
        for n in range(700)
    ]
    log = log_of(values, room=room)
    rows = [row for name in log.events for row in log.of(name).rows]
    assert room * 3 // 4 < sum(row.size for row in rows) <= room
    for name in log.events:
        names = [int(row.post_id[1]) for row in log.of(name).rows]
        left = log.of(name).left_out
        assert names == [int(name[-1]) + 7 * n for n in range(left, 100)]


def test_the_newest_matches_of_an_event_and_the_newest_events_remain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matches, "MAX_EVENTS", 4)
    values = [record(f"{n}", 0.5, group="g") for n in range(MAX_EVENT_MATCHES + 9)]
    log = log_of([*values, *(record("1", 0.5, event=f"event {n}") for n in range(5))])
    assert log.events == [f"event {n}" for n in range(1, 5)]
    held = log_of(values).of("ferry")
    assert [int(row.post_id[1]) for row in held.rows] == list(range(held.left_out, len(values)))
    assert MAX_EVENT_MATCHES * 15 // 16 <= len(held.rows) <= MAX_EVENT_MATCHES


@pytest.mark.parametrize("count", [40, 2_000])
def test_a_command_says_how_many_matches_it_leaves_out(count: int) -> None:
    values = [*(record(f"{n}", 0.5) for n in range(count)), record("1", 0.5, event="game")]
    topic: Any = SimpleNamespace(offsets_at=lambda *_: {0: 0}, read=lambda *_: [mail(values)])
    config = Config(desk=DeskConfig(matches_bytes=2**20))
    with capture() as output:
        log = read_matches(topic, config, 0, "ferry")
    assert log.events == ["ferry"]
    assert len(log.of("ferry").rows) < 1_500
    assert (output == []) == (count == 40)


def test_a_post_that_is_compared_again_matches_by_the_new_profile() -> None:
    """So does a desk on a file: all posts come again after a profile is published."""
    values = [
        record("1", 0.5), record("2", 0.5), record("1", 0.6, NOON + 1, **BY_PROFILE),
        record("3", 0.7, NOON + 2, **BY_PROFILE),
        record("1", 0.6, NOON + 3, **BY_PROFILE),
    ]  # fmt: skip
    rows = log_of(values).draw_rows("ferry")
    of_profile = [row for row in rows if row.profile == newest_profile(rows)]
    assert [(row.post_id[1], row.came) for row in of_profile] == [("1", NOON + 6), ("3", NOON + 7)]
    assert {row.profile for row in of_profile} == {("profile|ferry", "v1")}


def test_in_a_file_a_newer_match_beside_the_profile_hides_none_of_it() -> None:
    values = [record("1", 0.6, NOON, **BY_PROFILE), record("2", 0.5, NOON + 9)]
    rows = log_of(values, is_file=True).draw_rows("ferry")
    assert newest_profile(rows) == ("profile|ferry", "v1")


def test_a_queue_of_a_file_begins_with_the_best_and_one_of_a_stream_with_the_first() -> None:
    values = [record(f"{n}", 0.1 * n, NOON + n) for n in range(1, 4)]
    orders = [
        [row.post_id[1] for row in log_of(values, is_file=is_file).draw_rows("ferry")]
        for is_file in (False, True)
    ]
    assert orders == [["1", "2", "3"], ["3", "2", "1"]]


def test_a_queue_asks_about_records_since_a_time() -> None:
    log = MatchLog(ROOM)
    for at in (1, 2, 3):
        message: Any = Mail(json.dumps(record(f"{at}", 0.5)).encode(), timestamp=at)
        log.apply([message], NOW)
    assert [row.post_id[1] for row in log.draw_rows("ferry", 2)] == ["2", "3"]
