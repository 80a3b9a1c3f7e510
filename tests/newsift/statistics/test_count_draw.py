from collections import Counter

import numpy as np
import pytest

from newsift.statistics.count_draw import (
    FramePosts,
    allocate,
    count_certain_groups,
    divide,
    draw_posts,
    frame_key,
    largest_groups,
)
from newsift.statistics.labels import StratumName


def frame(groups: list[int], nonce: str = "a") -> FramePosts:
    """A post for each entry, of that group; 0 is none. The scores fall."""
    keys = np.array([frame_key(("x", str(n)), nonce) for n in range(len(groups))], np.uint64)
    named = np.where(np.array(groups) == 0, keys, np.array(groups, np.uint64))
    scores = np.linspace(0.9, 0.3, len(groups), dtype=np.float32)
    return FramePosts.of(keys, scores, np.arange(len(groups)), named)


def test_of_a_post_that_comes_again_the_first_counts() -> None:
    keys = np.array([7, 5, 7, 6], np.uint64)
    posts = FramePosts.of(keys, np.array([0.1, 0.2, 0.3, 0.4], np.float32), np.arange(4), keys)
    assert posts.times.tolist() == [1, 3, 0]
    assert posts.scores == pytest.approx([0.2, 0.4, 0.1])


def test_groups_larger_than_the_posts_of_a_label_are_asked_for_with_certainty() -> None:
    # Ten labels of 100 posts: 40 > 10, then 60 posts and nine labels, 8 > 6.7; 6 of 52 is too few.
    posts = frame([1] * 40 + [2] * 8 + [3] * 6 + [0] * 46)
    assert count_certain_groups(posts, 10) == 2
    assert set(largest_groups(posts, 2).tolist()) == {1, 2}
    assert count_certain_groups(frame([0] * 30), 30) == 0
    assert count_certain_groups(frame([4] * 30), 30) == 1


@pytest.mark.parametrize(
    ("sizes", "labels", "expected"),
    [
        ({"upper": 800, "lower": 800, "near": 3_200}, 100, {"upper": 25, "lower": 25, "near": 50}),
        ({"upper": 100, "lower": 100, "near": 10_000}, 100, {"upper": 10, "lower": 10, "near": 80}),
        ({"upper": 4, "lower": 5, "near": 0}, 100, {"upper": 4, "lower": 5, "near": 0}),
        ({"upper": 500, "lower": 500}, 3, {"upper": 10, "lower": 10}),
    ],
)  # fmt: skip
def test_labels_are_divided_by_size_and_spread(
    sizes: dict[StratumName, int], labels: int, expected: dict[StratumName, int]
) -> None:
    assert allocate(sizes, labels) == expected


def test_the_draw_asks_for_stories_first_and_then_evenly() -> None:
    posts = frame([1] * 40 + [2] * 20 + [0] * 140)
    groups = np.array([1, 2], np.uint64)
    division = divide(posts, groups)
    planned: dict[StratumName, int] = {"story": 2, "upper": 10, "lower": 20, "near": 5}
    drawn = draw_posts(posts, division, planned)
    assert {(d.stratum, d.posts) for d in drawn[:2]} == {("story", 40), ("story", 20)}
    assert Counter(d.stratum for d in drawn) == planned
    half = Counter(d.stratum for d in drawn[2:20])
    assert abs(half["upper"] - 5) <= 1 and abs(half["lower"] - 10) <= 1  # noqa: PT018
    rows = [d.number for d in drawn if d.stratum == "lower"]
    assert rows == division.rows("lower")[:20].tolist()
    assert posts.scores[rows].max() < division.cut <= posts.scores[division.rows("upper")].min()
    again = divide(posts, groups, division.cut)
    assert (again.stratum == division.stratum).all()


def test_every_post_is_drawn_as_often() -> None:
    counts = np.zeros(60)
    for nonce in range(400):
        posts = frame([0] * 60, str(nonce))
        division = divide(posts, largest_groups(posts, 0))
        drawn = draw_posts(posts, division, {"upper": 10, "lower": 5})
        counts[posts.times[[d.number for d in drawn]]] += 1
    assert (abs(counts[:30] - 400 / 3) < 45).all()
    assert (abs(counts[30:] - 400 / 6) < 35).all()
