import json
import random
from collections import Counter
from collections.abc import Iterable
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from newsift.desk import matches
from newsift.desk.matches import MatchMirror, StoryFilter
from newsift.desk.period import FilePass, FilePeriod, Period, StreamPeriod
from newsift.operations.matches import MAX_RECORD_MATCHES, MAX_VERSIONS, MatchLog, MatchRow
from tests.newsift.desk.match_records import HOUR, NOON, firsts, many, record, topic
from tests.worker.small_encoder import Mail
from worker.config import Config

NOW = NOON + 40 * HOUR


def mail(records: Iterable[dict[str, Any]]) -> list[Any]:
    return [
        Mail(json.dumps(each).encode(), timestamp=each["source"]["timestamp"]) for each in records
    ]


def mirror(period: Period | None = None) -> MatchMirror:
    return MatchMirror(Config(), period or StreamPeriod(lambda: NOW), lambda: None)


def mirror_of(records: Iterable[dict[str, Any]]) -> MatchMirror:
    created = mirror()
    created.take(mail(records))
    return created


def rows_of(store: MatchMirror) -> list[MatchRow]:
    stories = [story for name in store.events() for story in store.stories(name)]
    return [row for story in stories for row in story.rows]


def test_the_first_match_of_each_post_counts_in_its_hour() -> None:
    records = many(1, 200)
    counts, log = mirror_of(records).counts("ferry"), MatchLog(2**30)
    log.apply(mail(records), NOW)
    counted = firsts(records).values()
    for back in range(24):
        hour = NOW // HOUR - 23 + back
        own = [r for r in counted if r["source"]["timestamp"] // HOUR == hour]
        assert counts.posts[back] == len(own)
        alone = log.of("ferry").counts(range(hour, hour + 1))
        stories = sum(each["new"] for each in own)
        assert (alone.all_posts, alone.all_stories) == (len(own), stories)
    assert counts.platforms == {"plain": 200}


def test_stories_are_those_of_a_slow_loop() -> None:
    dice, records = random.Random(1), many(1, 200)
    for each in records:
        each["post"]["text"] = dice.choice(["The FERRY sank", "a fire"])
        each["post"]["lang"] = dice.choice(["en", "de"])
    records = [*firsts(records).values()]
    required = StoryFilter(least=0.4, most=0.8, lang="en", text="ferry", count=1000)
    stories: dict[str, list[dict[str, Any]]] = {}
    for each in records:
        stories.setdefault(each["group"], []).append(each)

    def fits(each: dict[str, Any]) -> bool:
        post, score = each["post"], each["matches"][0]["score"]
        return 0.4 <= score <= 0.8 and post["lang"] == "en" and "FERRY" in post["text"]

    expected = {
        group: (next(filter(fits, own))["post"]["id"], len(own))
        for group, own in stories.items() if any(map(fits, own))
    }  # fmt: skip
    store = mirror_of(records)
    result = store.find("ferry", required)
    assert {s.group: (row.post_id[1], len(s.rows)) for row, s in result.stories} == expected
    assert result.total == len(expected)
    times = [row.at for row, _ in result.stories]
    assert times == sorted(times, reverse=True)
    best_first = store.find("ferry", structs.replace(required, order="score")).stories
    scores = [row.score for row, _ in best_first]
    assert (len(scores), scores) == (len(times), sorted(scores, reverse=True))
    pages = [store.find("ferry", StoryFilter(skip=n, count=7)).stories for n in range(0, 200, 7)]
    assert [row for page in pages for row, _ in page] == [
        row for row, _ in store.find("ferry", StoryFilter(count=1000)).stories
    ]


def test_a_held_page_counts_new_stories_and_does_not_show_them() -> None:
    store = mirror_of([record("1", 0.5, group="a"), record("2", 0.6, group="b")])
    earlier = store.find("ferry", StoryFilter()).last
    store.take(mail([record("3", 0.5, group="a"), record("4", 0.5, group="c")]))
    result = store.find("ferry", StoryFilter(up_to=earlier))
    assert ({s.group: len(s.rows) for _, s in result.stories}, result.newer) == (
        {"a": 2, "b": 1},
        1,
    )


def test_a_post_that_matches_again_counts_once_with_its_latest_score() -> None:
    store = mirror_of([record("1", s, NOW, group=g) for s, g in ((0.5, "a"), (0.7, "b"))])
    ((row, story),) = store.find("ferry", StoryFilter()).stories
    assert (row.score, len(story.rows), sum(store.counts("ferry").posts)) == (0.7, 1, 1)


def test_posts_of_the_last_hour_count_by_the_version_that_they_matched() -> None:
    dice, records = random.Random(1), many(1, 300)
    for each in records:
        at = NOW - dice.randrange(2 * HOUR)
        each["source"]["timestamp"] = at - at % 60_000  # of the post; all matches come at once
        own = each["matches"][0]
        own["seed_version"], own["seed_id"] = dice.choice("abc"), "profile|ferry"
        each["matches"].append(own | {"seed_id": "beside", "seed_version": "b", "score": 0.99})
    records.sort(key=lambda each: dice.random())
    counted = firsts(records).values()
    hour = [each for each in counted if each["source"]["timestamp"] > NOW - HOUR]
    expected = Counter(each["matches"][0]["seed_version"] for each in hour)
    store = mirror()
    late: list[Any] = [Mail(json.dumps(each).encode(), timestamp=NOW) for each in records]
    store.take(late)
    assert {name: store.pass_count("ferry", name) for name in "abc"} == expected
    assert store.pass_count("ferry", "none") == store.pass_count("quake", "a") == 0


def test_an_hour_that_is_not_read_whole_has_no_count() -> None:
    store, long = (
        mirror(),
        topic(0, matches.MAX_READ_RECORDS + 1),
    )
    store.begin(long)
    store.take(mail([record("1", 0.5, NOW - HOUR + 1)]))
    assert store.pass_count("ferry", "a") is None
    store.begin(long)
    store.take(mail([record("1", 0.5, NOW - HOUR)]))
    assert store.pass_count("ferry", "a") == 0


def test_a_day_of_which_records_were_deleted_begins_at_the_first_that_is_there() -> None:
    store = mirror()
    assert store.begin(topic(7, 9)) == {0: 7}
    store.take(mail([record(name, 0.5, NOW - at) for name, at in (("1", 5 * HOUR), ("2", HOUR))]))
    assert store.since == NOW - 5 * HOUR


@pytest.mark.parametrize("is_first", [False, True], ids=["after the match", "before it"])
def test_a_deleted_post_is_counted_and_loses_its_content(is_first: bool) -> None:
    told = list[int]()
    store = MatchMirror(Config(), StreamPeriod(lambda: NOW), lambda: told.append(1))
    deleted = {"post": {"id": "1", "platform": "plain"}, "deleted_at": "2026-03-01T10:00:00Z"}
    deletion: Any = [Mail(json.dumps(deleted).encode())]
    names = {"1": "gone", "2": "kept"}
    records = [record(id, 0.5, NOW, event=event, text=text)
               for id, text in names.items() for event in ("ferry", "quake")]  # fmt: skip
    given = [mail(records), deletion]
    for batch in reversed(given) if is_first else given:
        version = store.version("ferry")
        store.take(batch)
        assert store.version("ferry") > version or is_first
    store.take(mail(records[:2]))  # delivered again
    assert {row.post_id[1]: row.record.post.text for row in rows_of(store)} == {
        "1": "",
        "2": "kept",
    }
    assert b"gone" not in b"".join(row.value for row in rows_of(store))
    assert [row.record.matches[0].why == [] for row in rows_of(store)] == [True, False] * 2
    assert store.find("ferry", StoryFilter(text="gone")).total == 0
    assert sum(store.counts("ferry").posts) == store.find("ferry", StoryFilter()).total == 2
    assert (store.is_deleted(("plain", "1")), store.is_deleted(("plain", "2"))) == (True, False)
    assert told == [1]


def test_a_deletion_counts_only_for_the_post_of_its_instance() -> None:
    given: list[Any] = []
    for host in (b"a.example", b"b.example"):
        own = record("1", 0.5, NOW, event=host.decode())
        own["post"]["platform"] = "mastodon"
        given.append(Mail(json.dumps(own).encode(), headers=[("instance", host)]))
    deleted = {"post": {"id": "1", "platform": "mastodon"}, "deleted_at": "2026-03-01T10:00:00Z"}
    given.append(Mail(json.dumps(deleted).encode(), headers=[("instance", b"b.example")]))
    store = mirror()
    store.take(given)
    rows = {name: store.row(name, ("mastodon", "1")) for name in store.events()}
    assert {name: row.is_deleted for name, row in rows.items() if row} == {
        "a.example": False, "b.example": True,
    }  # fmt: skip


def test_the_store_answers_while_the_broker_does_not() -> None:
    asked, go, answers = Event(), Event(), list[list[str]]()

    def wait(_topic: str) -> dict[int, int]:
        asked.set()
        go.wait(10)
        return {0: 0}

    store, slow = mirror(), topic()
    slow.ends = wait
    begin = Thread(target=store.begin, args=(slow,))
    reader = Thread(target=lambda: answers.append(store.events()), daemon=True)
    begin.start()
    assert asked.wait(10)
    reader.start()
    reader.join(2)
    go.set()
    begin.join(10)
    assert answers == [[]]


def test_the_latest_of_many_versions_are_counted() -> None:
    by = ({"seed_id": "profile|ferry", "seed_version": f"{n}"} for n in range(99))
    store = mirror_of(record(f"{n}", 0.5, NOW, match=each) for n, each in enumerate(by))
    counted = [n for n in range(99) if store.pass_count("ferry", f"{n}")]
    assert counted == list(range(99 - MAX_VERSIONS, 99))


def test_a_record_with_too_many_matches_is_skipped() -> None:
    created = record("1", 0.5)
    crowd = [created["matches"][0] | {"event": f"{n}"} for n in range(MAX_RECORD_MATCHES + 1)]
    store = mirror_of([created | {"matches": crowd}])
    assert store.events() == []
    store = mirror_of([created | {"matches": crowd[1:]}])
    assert len(store.events()) == MAX_RECORD_MATCHES


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)  # fmt: skip
PLACES = ["post", "matches", "group", "new", "source", "processed_at", "model"]
IN_MATCH = ["event", "score", "why", "match_id", "threshold", "seed_id"]


@given(st.sampled_from(PLACES), st.sampled_from(IN_MATCH), ODD, ODD, st.integers(), st.binary())
def test_any_record_is_skipped_or_counted(
    place: str, of_match: str, odd: object, other: object, at: int, raw: bytes
) -> None:
    wild = record("1", 0.5, group="g") | {place: odd}
    wild_match = record("2", 0.5, group="g", match={of_match: other})
    values = [json.dumps(each).encode() for each in (wild, wild_match)]
    store = mirror()
    odd_mail: Any = [Mail(value, timestamp=at) for value in (*values, raw, None)]
    store.take(odd_mail)
    store.take(mail([record("3", 0.5, NOW, group="h")]))
    assert {row.number for row in rows_of(store)} <= {1, 2, 3, 4, 5}
    assert sum(store.counts("ferry").posts) >= 1
    for name in store.events():
        store.find(name, StoryFilter(text="x", least=0.1))


def test_a_match_that_comes_late_counts_in_the_hour_of_its_post() -> None:
    """As those of a backfill do."""
    store = mirror_of([])
    old = record("1", 0.5, NOW - 30 * HOUR)
    older, newer = record("2", 0.5, NOW - 5 * HOUR), record("3", 0.5, NOW - HOUR)
    late: list[Any] = [
        Mail(json.dumps(each).encode(), timestamp=NOW) for each in (newer, old, older)
    ]
    store.take(late)
    counts = store.counts("ferry")
    assert [n for n, count in enumerate(counts.posts) if count] == [18, 22]
    assert (counts.all_posts, counts.last) == (2, NOW - HOUR)
    rows = [row.at for row, _ in store.find("ferry", StoryFilter()).stories]
    assert rows == [NOW - HOUR, NOW - 5 * HOUR, NOW - 30 * HOUR]
    assert store.find("ferry", StoryFilter(minutes=60)).total == 1
    between = StoryFilter(since=NOW - 5 * HOUR, until=NOW - HOUR)
    assert [row.at for row, _ in store.find("ferry", between).stories] == [NOW - 5 * HOUR]


def file_records(times: Iterable[int], text: str = "the ferry") -> list[dict[str, Any]]:
    return [record(f"{n}", 0.5, at, text=text, group=f"g{n % 3}") for n, at in enumerate(times)]


def test_a_file_is_told_by_the_times_of_its_posts() -> None:
    first, last = NOON - 1000 * HOUR, NOON - 2 * HOUR
    dice = random.Random(2)
    times = [first, last, *(dice.randrange(first, last) for _ in range(200)), 0, 0]
    period = FilePeriod()
    period.latest = FilePass(version=1, first=first, last=last)
    store = mirror(period)
    store.take(mail(file_records(times)))
    counts, step = store.counts("ferry"), period.hours.step
    assert (len(counts.posts) <= 24, step) == (True, 42)  # 999 hours in 24 steps
    for n, count in enumerate(counts.posts):
        begin = (first // HOUR + n * step) * HOUR
        assert count == sum(begin <= at < begin + step * HOUR for at in times)
    assert (counts.all_posts, counts.last, store.since) == (len(times), last, first)
    day = store.find("ferry", StoryFilter(minutes=24 * 60, count=100)).stories
    assert {row.at for row, _ in day} <= {at for at in times if at >= last - 24 * HOUR}
    assert day[0][0].at == last


def test_matches_of_an_earlier_pass_over_a_file_are_forgotten() -> None:
    period = FilePeriod()
    period.latest = FilePass(version=1, first=NOON, last=NOON + HOUR)
    store = mirror(period)
    store.take(mail(file_records([NOON] * 9)))
    period.latest = structs.replace(period.latest, version=2, begin={"tweets": {0: 100}})
    assert (store.events(), store.counts("ferry").all_posts) == ([], 0)
    late = [
        Mail(json.dumps(record(name, 0.5, group="g0") | {"new": False}).encode(), offset=offset)
        for name, offset in (("1", 99), ("2", 100), ("3", 101))
    ]  # fmt: skip
    store.take(late)  # type: ignore[arg-type]
    ((row, story),) = store.find("ferry", StoryFilter()).stories
    assert (row.post_id[1], row.new, len(story.rows)) == ("2", True, 2)
