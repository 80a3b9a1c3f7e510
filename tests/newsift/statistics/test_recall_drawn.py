"""From matches and near misses to an interval: the draws' probabilities make the right weights."""

import numpy as np

from newsift.statistics import recall_interval
from newsift.statistics.queues import Candidate, draw_order
from worker.match.reservoir import NearMisses
from worker.posts.outcome import Post

THRESHOLD, MIDDLE, FLOOR = 0.5, 0.4, 0.3


def test_the_interval_holds_the_recall_of_the_stream_that_was_drawn_from() -> None:
    random, missed, width, tries = np.random.default_rng(4), 0, 0.0, 40
    for n in range(tries):
        scores = random.uniform(FLOOR, 0.6, 3_000).astype(np.float32)
        right = random.uniform(size=3_000) < np.interp(scores, [0.3, 0.5, 0.6], [0.0, 0.1, 1.0])
        posts = [Post(f"{n}-{place}", "x", "") for place in range(3_000)]
        on = {post.id: bool(truth) for post, truth in zip(posts, right, strict=True)}
        low, high = interval(posts, scores, on)
        recall = right[scores >= THRESHOLD].sum() / right.sum()
        missed += not low <= recall <= high
        width += (high - low) / tries
    assert missed <= 0.1 * tries
    assert width < 0.3


def interval(posts: list[Post], scores: np.ndarray, on: dict[str, bool]) -> tuple[float, float]:
    """The interval from the labels of 60 matches, and of 60 near misses of each stratum."""
    matches = [
        Candidate(post, float(score))
        for post, score in zip(posts, scores, strict=True)
        if score >= THRESHOLD
    ]
    drawn = labelled(matches, len(matches), on)
    reservoir = NearMisses(["fire"])
    which = np.flatnonzero(scores < THRESHOLD)
    strata = (scores[which] < MIDDLE).astype(np.int64)
    reservoir.add(posts, which, np.zeros(len(which), np.int64), strata, scores[which])
    for stratum in reservoir.strata("fire"):
        near = [Candidate(each.post, each.score) for each in stratum.kept]
        drawn += labelled(near, stratum.count, on)
    drawn_scores, truths, weights = zip(*drawn, strict=True)
    return recall_interval(drawn_scores, truths, weights, THRESHOLD, FLOOR)


def labelled(
    candidates: list[Candidate], among: int, on: dict[str, bool]
) -> list[tuple[float, bool, float]]:
    """Score, label and weight of 60 that were drawn, of the lowest hashes among so many posts."""
    questions = draw_order(candidates)[:60]
    return [(each.score, on[each.post.id], among / len(questions)) for each in questions]
