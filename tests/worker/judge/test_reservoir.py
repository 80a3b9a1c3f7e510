"""The near misses that are kept are those of the lowest hashes, of one worker or of several."""

import numpy as np
import pytest

from worker.judge.draw import draw_key
from worker.judge.reservoir import (
    KEPT,
    MOST_CHARS,
    MOST_ID,
    MOST_REST,
    NearMiss,
    NearMisses,
    Stratum,
    merged,
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


def obvious(event: int, stratum: int, places: np.ndarray) -> Stratum:
    """The stratum by sorting all there is."""
    own = [n for n in places.tolist() if (EVENTS[n], STRATA[n]) == (event, stratum)]
    own.sort(key=lambda n: draw_key(("x", POSTS[n].id)))
    kept = tuple(NearMiss(POSTS[n], float(SCORES[n])) for n in own[:KEPT])
    return Stratum(len(own), kept)


@pytest.mark.parametrize("batch", [1, 57, 3_000])
def test_the_lowest_hashes_are_kept_and_all_are_counted(batch: int) -> None:
    near = NearMisses(["fire", "flood"])
    order = RANDOM.permutation(len(POSTS))
    for begin in range(0, len(order), batch):
        add(near, order[begin : begin + batch])
    for event, name in enumerate(near.events):
        assert near.strata(name) == (obvious(event, 0, order), obvious(event, 1, order))
        assert sum(stratum.count for stratum in near.strata(name)) > 2 * KEPT


def test_the_samples_of_several_workers_are_those_of_one() -> None:
    workers = [NearMisses(["fire", "flood"]) for _ in range(3)]
    for number, worker in enumerate(workers):
        add(worker, np.arange(number, len(POSTS), 3))
    for stratum in (0, 1):
        parts = [worker.strata("flood")[stratum] for worker in workers]
        assert merged(parts) == obvious(1, stratum, np.arange(len(POSTS)))
    assert merged([]) == Stratum(0, ())


def test_a_post_may_just_miss_several_events() -> None:
    near = NearMisses(["fire", "flood"])
    two = np.array([0, 1])
    near.add(POSTS[:1], np.array([0, 0]), two, two[::-1].copy(), np.array([0.25, 0.5], np.float32))
    assert near.strata("fire") == (Stratum(0, ()), Stratum(1, (NearMiss(POSTS[0], 0.25),)))
    assert near.strata("flood") == (Stratum(1, (NearMiss(POSTS[0], 0.5),)), Stratum(0, ()))


def test_events_that_go_on_keep_what_they_have() -> None:
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


def test_long_strings_are_cut_and_what_no_label_can_name_is_only_counted() -> None:
    near = NearMisses(["fire"])
    posts = [Post("1", "x", "a" * 10**6, author="b" * 10**6), Post("2" * (MOST_ID + 1), "x", "c")]
    zeros = np.zeros(2, np.int64)
    near.add(posts, np.arange(2), zeros, zeros, np.array([0.5, 0.5], np.float32))
    stratum, _ = near.strata("fire")
    assert stratum.count == 2
    cut = Post("1", "x", "a" * MOST_CHARS, author="b" * MOST_REST)
    assert stratum.kept == (NearMiss(cut, 0.5),)
    assert stratum.candidates()[0].post_id == ("x", "1")
