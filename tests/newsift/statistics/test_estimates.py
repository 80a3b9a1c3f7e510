from bisect import bisect_left
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from encoder.errors import InputError
from newsift.statistics.estimates import (
    MAX_JUDGES,
    Agreement,
    DrawnLabels,
    LabelledScore,
    agreements,
    bin_counts,
    cohens_kappa,
    percent,
    recall_interval,
    score_grid,
    score_summaries,
    share_above,
    share_interval,
    weigh_draws,
)
from newsift.statistics.labels import Label, Verdict, joint_verdicts
from newsift.statistics.promise import FrozenCuts
from worker.posts.outcome import Post

WORDS: tuple[Verdict, ...] = ("on", "off", "unsure")


def judged(by: str, post: str, verdict: Verdict) -> Label:
    return Label(verdict, "fire", Post(post, "x", ""), by, "2026-11-22T10:00:00Z", "given")


@given(st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS)), min_size=1, max_size=60))
def test_kappa_is_scikit_learns(pairs: list[tuple[str, str]]) -> None:
    one, other = zip(*pairs, strict=True)
    result = cohens_kappa(one, other)
    if len({*one, *other}) == 1:
        assert result is None
    else:
        assert result == pytest.approx(cohen_kappa_score(one, other))


@pytest.mark.parametrize(
    ("share", "text"),
    [(1, "100"), (0, "0"), (0.5, "50"), (0.9962, "99.6"), (0.99996, "99.996"), (0.004, "0.4")],
)
def test_only_a_whole_is_a_hundred_per_cent(share: float, text: str) -> None:
    assert percent(share) == text


def test_judges_are_compared_on_the_posts_that_both_have() -> None:
    labels = [judged("ann", "1", "on"), judged("ann", "2", "off"), judged("ann", "3", "on"),
            judged("bob", "2", "off"), judged("bob", "3", "on"), judged("bob", "9", "on"),
            judged("eve", "9", "off")]  # fmt: skip
    assert agreements(labels) == [
        Agreement("ann", "bob", 2, 1, 1),
        Agreement("bob", "eve", 1, 0, 0),
    ]


def test_a_crowd_of_judges_costs_no_more_than_the_busiest_of_them() -> None:
    crowd = [judged(f"judge {n:05}", "1", "on") for n in range(5_000)]
    result = agreements([*crowd, judged("ann", "1", "on"), judged("ann", "2", "on")])
    assert len(result) == MAX_JUDGES * (MAX_JUDGES - 1) // 2
    assert result[0].judge_a == "ann"


SCORES = st.sampled_from([n / 20 for n in range(2, 20)])


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5))
def test_judges_agree_where_none_contradicts(words: list[Verdict]) -> None:
    labels = [judged(f"by {n}", "1", word) for n, word in enumerate(words)]
    (result,) = joint_verdicts([*labels, judged("x", "2", "on")]).items() - {(("x", "2"), "on")}
    if all(word == "on" for word in words):
        assert result == (("x", "1"), "on")
    elif "on" not in words and "off" in words:
        assert result == (("x", "1"), "off")
    else:
        assert result == (("x", "1"), "unsure")


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([1.0, 2.5, 8.0])), min_size=1))
def test_a_share_has_the_interval_of_clopper_and_pearson(rows: list[tuple[bool, float]]) -> None:
    on, weights = [r for r, _ in rows], [w for _, w in rows]
    low, share, high = share_interval(on, weights, 0.9)
    n = sum(weights) ** 2 / sum(w * w for w in weights)
    x = sum(w for r, w in rows if r) / sum(weights) * n
    assert share == pytest.approx(x / n)
    assert low == pytest.approx(stats.beta.ppf(0.05, x, n - x + 1) if any(on) else 0, abs=1e-9)
    assert high == pytest.approx(stats.beta.ppf(0.95, x + 1, n - x) if not all(on) else 1, abs=1e-9)
    if len(set(weights)) == 1:
        exact = stats.binomtest(sum(on), len(on)).proportion_ci(0.9, "exact")
        assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-9)


@given(st.lists(st.tuples(SCORES, st.sampled_from([None, None, True, False])), max_size=120))
def test_each_draw_has_the_weight_of_its_step(rows: list[tuple[float, bool | None]]) -> None:
    scores = [s for s, _ in rows]
    result = weigh_draws(scores, [labels for _, labels in rows])
    cuts = FrozenCuts(scores).cuts  # the steps of the walk itself
    step = [next((n for n, cut in enumerate(cuts) if s >= cut), None) for s in scores]
    assert None not in step
    empty = [
        n
        for n in range(len(cuts))
        if not any(labels is not None and step[at] == n for at, (_, labels) in enumerate(rows))
    ]
    ends = min(empty, default=len(cuts))
    assert result.lowest_covered == (cuts[ends - 1] if ends else inf)
    labelled = [n for at, (_, labels) in enumerate(rows) for n in [step[at]] if labels is not None]
    expected = sorted(
        (s, labels, step.count(step[at]) / labelled.count(step[at]))
        for at, (s, labels) in enumerate(rows)
        if labels is not None and step[at] in range(ends)
    )
    assert sorted(zip(result.scores, result.on, result.weights, strict=True)) == expected
    assert sum(result.weights) == pytest.approx(sum(s >= result.lowest_covered for s in scores))


@given(
    st.lists(st.tuples(SCORES, st.sampled_from(WORDS)), max_size=40),
    st.lists(st.tuples(SCORES, st.booleans(), st.sampled_from([1.0, 3.0])), max_size=30),
    SCORES,
)
def test_every_summary_is_what_its_labels_say(
    marks: list[tuple[float, Verdict]], drawn: list[tuple[float, bool, float]], reach: float
) -> None:
    scores, on, weights = zip(*drawn, strict=True) if drawn else ((), (), ())
    draws = DrawnLabels(scores, on, weights, reach)
    result = score_summaries(tuple(LabelledScore(*each) for each in marks), draws)
    assert [each.least for each in result] == sorted(
        {s for s, _ in marks} | {s for s, _, _ in drawn}, reverse=True
    )
    for each in result:
        above = [word for s, word in marks if s >= each.least]
        assert [each.on, each.off, each.unsure] == [sum(w == word for w in above) for word in WORDS]
        own = [(on, w) for s, on, w in drawn if s >= each.least]
        assert each.random_labels == len(own)
        if not own or each.least < draws.lowest_covered:
            assert each.share is None
            assert each.recall is None
            continue
        assert each.share == share_interval([on for on, _ in own], [w for _, w in own])
        recall = recall_interval(draws.scores, draws.on, draws.weights, each.least, reach)
        output = each.least > reach and recall != (0, 1)
        assert each.recall == (recall if output else None)


@given(st.lists(st.floats(-1, 1, width=32), max_size=60), st.lists(st.floats(0, 1, width=32)))
def test_bins_and_shares_are_those_of_a_slow_count(one: list[float], other: list[float]) -> None:
    edges = score_grid(one, other)
    assert edges[0] == 0
    assert len(edges) <= 102
    assert edges == sorted(set(edges))
    assert max([*one, *other, 0]) <= edges[-1]
    bins = bin_counts(edges, one)
    slow = [0] * (len(edges) - 1)
    for score in one:
        at = next(n for n in range(len(slow)) if score < edges[n + 1] or n == len(slow) - 1)
        slow[at] += 1
    assert bins.tolist() == slow
    rising = sorted(one)
    for edge, share in zip(edges, share_above(edges, one), strict=True):
        above = len(one) - bisect_left(rising, float(np.float32(edge)))
        assert share == pytest.approx(above / max(len(one), 1))


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
        ({"weights": [1.0, 0.5]}, "weights"),
        ({"weights": [1.0, 1e300]}, "weights"),
        ({"labels": [True, None]}, "labels"),
        ({"labels": [True, [False]]}, "labels"),
        ({"floor": 0.6}, "floor"),
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": None}, "threshold"),
        ({"floor": "0.2"}, "floor"),
        ({"confidence": 0}, "confidence"),
    ],
)
def test_nonsense_is_refused_by_name(changed: dict[str, object], named: str) -> None:
    sound = {"scores": [0.9, 0.3], "labels": [True, False], "weights": [1, 1]}
    with pytest.raises(InputError, match=f"^{named}: "):
        recall_interval(**{**sound, "threshold": 0.5, "floor": 0.2, **changed})  # type: ignore[arg-type]
