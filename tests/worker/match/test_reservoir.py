from collections import Counter
from unittest.mock import ANY

import numpy as np
import pytest

from worker.match.near import (
    MAX_FIELD_CHARS,
    MAX_HOURS,
    MAX_ID_CHARS,
    MAX_SAMPLE,
    MAX_TEXT_CHARS,
    NearMiss,
    NearMisses,
    Stratum,
    merge_strata,
)
from worker.posts.outcome import Post

POSTS = [Post(str(name), "x", f"post {name}") for name in range(3_000)]
RANDOM = np.random.default_rng(7)
EVENTS, STRATA = RANDOM.integers(0, 2, (2, len(POSTS)))
SCORES = RANDOM.uniform(0.1, 0.3, len(POSTS)).astype(np.float32)


def add(near: NearMisses, places: np.ndarray) -> None:
    """A batch of some of the posts, each a near miss of one event."""
    posts = [POSTS[n] for n in places]
    at = np.arange(len(posts))
    near.add(posts, at, EVENTS[places], STRATA[places], SCORES[places], 60_000 * places)


def places(event: int, stratum: int) -> list[int]:
    return [n for n in range(len(POSTS)) if (EVENTS[n], STRATA[n]) == (event, stratum)]


def names(stratum: Stratum) -> list[int]:
    return [int(near.post.id) for near in stratum.kept]


@pytest.mark.parametrize("batch", [1, 57, 3_000])
def test_the_sample_is_full_and_without_repeats_and_all_are_counted(batch: int) -> None:
    near = NearMisses(["fire", "flood"])
    order = RANDOM.permutation(len(POSTS))
    for begin in range(0, len(order), batch):
        add(near, order[begin : begin + batch])
        add(near, order[begin : begin + 1])  # redelivered: counted again, and kept once
    again = -(-len(order) // batch)
    for event, name in enumerate(near.events):
        for number, stratum in enumerate(near.strata(name)):
            own = places(event, number)
            assert len(own) <= stratum.count <= len(own) + again
            assert len(set(names(stratum))) == len(stratum.kept) == MAX_SAMPLE
            assert set(names(stratum)) <= set(own)
            assert list(stratum.priorities) == sorted(stratum.priorities)
            assert len(stratum.priorities) == MAX_SAMPLE
            assert all(each.score == SCORES[int(each.post.id)] for each in stratum.kept)


def test_every_near_miss_is_as_likely_in_the_merged_sample_of_workers() -> None:
    own, times = places(1, 0), np.zeros(len(POSTS))
    for draw in range(60):
        workers = [NearMisses(["fire", "flood"], nonce=f"{draw} {n}") for n in range(3)]
        for number, worker in enumerate(workers):
            add(worker, np.arange(number, len(POSTS), 3))
        result = merge_strata([worker.strata("flood")[0] for worker in workers])
        assert len(set(names(result))) == len(result.kept) == MAX_SAMPLE
        times[names(result)] += 1
    expected = 60 * MAX_SAMPLE / len(own)
    spread = np.sqrt(expected * (1 - MAX_SAMPLE / len(own)))
    # Python's hash differs from run to run, so the bound is wide.
    assert (np.abs(times[own] - expected) < 6 * spread).all()
    assert merge_strata([]) == Stratum(0, ())


def test_a_post_can_be_a_near_miss_of_several_events() -> None:
    near = NearMisses(["fire", "flood"])
    two = np.array([0, 1])
    scores = np.array([0.25, 0.5], np.float32)
    near.add(POSTS[:1], np.array([0, 0]), two, two[::-1].copy(), scores, two - 1)
    fire, flood = NearMiss(POSTS[0], 0.25, -1), NearMiss(POSTS[0], 0.5, 0)
    assert near.strata("fire") == (Stratum(0, ()), Stratum(1, (fire,), ANY))  # without a time
    assert near.strata("flood") == (Stratum(1, (flood,), ANY, {0: 1}), Stratum(0, ()))


def test_unchanged_events_keep_their_samples() -> None:
    before = NearMisses(["fire", "flood"])
    add(before, np.arange(1_500))
    after = NearMisses(["storm", "flood"], before)
    assert after.strata("flood") == before.strata("flood")
    assert after.strata("storm") == (Stratum(0, ()), Stratum(0, ()))
    held = before.strata("flood")
    late = np.flatnonzero(EVENTS == 1)[-50:]
    at = np.arange(50)
    ones = np.ones(50, np.int64)
    after.add([POSTS[n] for n in late], at, ones, STRATA[late], SCORES[late], ones)
    assert before.strata("flood") == held
    assert sum(stratum.count for stratum in after.strata("flood")) == 50 + sum(
        stratum.count for stratum in held
    )


def test_long_strings_are_cut_and_posts_with_too_long_ids_only_counted() -> None:
    near = NearMisses(["fire"])
    posts = [
        Post("1", "x", "a" * 10**6, author="b" * 10**6),
        Post("2" * (MAX_ID_CHARS + 1), "x", "c"),
    ]
    zeros = np.zeros(2, np.int64)
    near.add(posts, np.arange(2), zeros, zeros, np.array([0.5, 0.5], np.float32), zeros)
    stratum, _ = near.strata("fire")
    assert stratum.count == 2
    cut = Post("1", "x", "a" * MAX_TEXT_CHARS, author="b" * MAX_FIELD_CHARS)
    assert stratum.kept == (NearMiss(cut, 0.5, 0),)


def test_near_misses_are_counted_by_the_hour() -> None:
    workers = [NearMisses(["fire", "flood"], nonce=str(n)) for n in range(2)]
    for number, worker in enumerate(workers):
        add(worker, np.arange(number, len(POSTS), 2))
    answers = [worker.strata("fire")[1] for worker in workers]
    expected = Counter(n // 60 * 3_600_000 for n in places(0, 1))
    assert merge_strata(answers).hours == expected
    for stratum in answers:
        assert all(near.timestamp == 60_000 * int(near.post.id) for near in stratum.kept)
        assert sum(stratum.hours.values()) == stratum.count


def test_the_latest_hours_are_counted_apart() -> None:
    near, zero = NearMisses(["fire"]), np.zeros(1, np.int64)
    for hour in range(MAX_HOURS + 2):
        near.add(POSTS[:1], zero, zero, zero, SCORES[:1], zero + hour * 3_600_000)
    stratum, _ = near.strata("fire")
    assert list(stratum.hours) == [hour * 3_600_000 for hour in range(2, MAX_HOURS + 2)]
    assert stratum.count == MAX_HOURS + 2
