import numpy as np
import pytest

from worker.match.reservoir import (
    MAX_FIELD_CHARS,
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
    near.add(posts, at, EVENTS[places], STRATA[places], SCORES[places])


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
    near.add(POSTS[:1], np.array([0, 0]), two, two[::-1].copy(), np.array([0.25, 0.5], np.float32))
    for event, samples in (("fire", [(), (0.25,)]), ("flood", [(0.5,), ()])):
        result = near.strata(event)
        assert [stratum.kept for stratum in result] == [
            tuple(NearMiss(POSTS[0], score) for score in scores) for scores in samples
        ]
        assert [stratum.count for stratum in result] == [len(scores) for scores in samples]


def test_unchanged_events_keep_their_samples() -> None:
    before = NearMisses(["fire", "flood"])
    add(before, np.arange(1_500))
    after = NearMisses(["storm", "flood"], before)
    assert after.strata("flood") == before.strata("flood")
    assert after.strata("storm") == (Stratum(0, ()), Stratum(0, ()))
    held = before.strata("flood")
    late = np.flatnonzero(EVENTS == 1)[-50:]
    at = np.arange(50)
    after.add([POSTS[n] for n in late], at, np.ones(50, np.int64), STRATA[late], SCORES[late])
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
    near.add(posts, np.arange(2), zeros, zeros, np.array([0.5, 0.5], np.float32))
    stratum, _ = near.strata("fire")
    assert stratum.count == 2
    cut = Post("1", "x", "a" * MAX_TEXT_CHARS, author="b" * MAX_FIELD_CHARS)
    assert stratum.kept == (NearMiss(cut, 0.5),)
