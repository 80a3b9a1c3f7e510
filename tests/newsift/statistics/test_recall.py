import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from encoder.errors import InputError
from newsift.statistics import recall_interval
from newsift.statistics.queues import Candidate, draw_order
from worker.match.reservoir import NearMisses
from worker.posts.outcome import Post

DRAWS = st.lists(
    st.tuples(st.sampled_from([0.9, 0.7, 0.5, 0.35, 0.2, 0.1]), st.booleans()), max_size=40
)
WEIGHTS = {0.9: 2.0, 0.7: 2.0, 0.5: 2.0, 0.35: 6.0, 0.2: 30.0, 0.1: 99.0}  # by score


def as_written(drawn: list[tuple[float, bool]], alpha: float) -> tuple[float, float]:
    """The formulas of the literature, term by term, at threshold 0.5 and floor 0.2."""
    above = [y for s, y in drawn if s >= 0.5]
    below = [(WEIGHTS[s], y) for s, y in drawn if 0.2 <= s < 0.5]
    if not any(above):
        return 0.0, 1.0
    ci = stats.binomtest(sum(above), len(above)).proportion_ci(1 - alpha, "exact")
    many = 2.0 * len(above)
    t, t_l, t_u = 2.0 * sum(above), many * ci.low, many * ci.high
    if not below:
        return 0.0, 1.0
    b, v, w = sum(w * y for w, y in below), sum(w * w * y for w, y in below), max(below)[0]
    b_l = v / (2 * b) * stats.chi2.ppf(alpha / 2, 2 * b * b / v) if b else 0.0
    b_u, v_u = b + w, v + w * w
    b_u = v_u / (2 * b_u) * stats.chi2.ppf(1 - alpha / 2, 2 * b_u * b_u / v_u)
    root = np.sqrt((b * t) ** 2 - b_u * t_l * (2 * b - b_u) * (2 * t - t_l))
    upper = (b * t + root) / (t_l * (2 * t - t_l))
    root = np.sqrt((b * t) ** 2 - b_l * t_u * (2 * b - b_l) * (2 * t - t_u))
    lower = (b * t - root) / (t_u * (2 * t - t_u))
    return 1 / (1 + upper), 1 / (1 + lower)


@given(DRAWS, st.sampled_from([0.8, 0.9, 0.99]))
def test_the_interval_fits_the_formulas(drawn: list[tuple[float, bool]], confidence: float) -> None:
    scores, labels = [s for s, _ in drawn], [y for _, y in drawn]
    weights = [WEIGHTS[s] for s in scores]
    result = recall_interval(scores, labels, weights, 0.5, 0.2, confidence)
    assert result == pytest.approx(as_written(drawn, 1 - confidence), rel=1e-6, abs=1e-9)
    assert 0 <= result[0] <= result[1] <= 1


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"weights": [1.0]}, "weights"),
        ({"weights": [1.0, 0.0]}, "weights"),
        ({"floor": 0.6}, "floor"),
        ({"threshold": float("nan")}, "threshold"),
        ({"confidence": 0}, "confidence"),
    ],
)
def test_nonsense_is_refused_by_name(changed: dict[str, object], named: str) -> None:
    sound = {"scores": [0.9, 0.3], "labels": [True, False], "weights": [1, 1]}
    with pytest.raises(InputError, match=f"^{named}: "):
        recall_interval(**{**sound, "threshold": 0.5, "floor": 0.2, **changed})  # type: ignore[arg-type]


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
    questions = draw_order(candidates)[:60]
    return [(each.score, on[each.post.id], among / len(questions)) for each in questions]
