"""Two judges: κ is scikit-learn's, and each pair is compared on what both have labelled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from newsift.statistics.estimates import MOST_JUDGES, Agreement, agreements, cohens_kappa
from newsift.statistics.labels import Label
from worker.posts.outcome import Post

SAID = st.sampled_from(["on", "off", "unsure"])


def label(by: str, post: str, said: str) -> Label:
    at = "2026-11-22T10:00:00Z"
    return Label(said, "fire", Post(post, "x", ""), by, at, "given")  # type: ignore[arg-type]


@given(st.lists(st.tuples(SAID, SAID), min_size=1, max_size=60))
def test_kappa_is_scikit_learns(pairs: list[tuple[str, str]]) -> None:
    one, other = zip(*pairs, strict=True)
    result = cohens_kappa(one, other)
    if len({*one, *other}) == 1:
        assert result is None
    else:
        assert result == pytest.approx(cohen_kappa_score(one, other))


def test_judges_are_compared_on_the_posts_that_both_have() -> None:
    labels = [label("ann", "1", "on"), label("ann", "2", "off"), label("ann", "3", "on"),
            label("bob", "2", "off"), label("bob", "3", "on"), label("bob", "9", "on"),
            label("eve", "9", "off")]  # fmt: skip
    assert agreements(labels) == [
        Agreement("ann", "bob", 2, 1, 1),
        Agreement("bob", "eve", 1, 0, 0),
    ]


def test_a_crowd_of_judges_costs_no_more_than_the_busiest_of_them() -> None:
    crowd = [label(f"judge {n:05}", "1", "on") for n in range(5_000)]
    result = agreements([*crowd, label("ann", "1", "on"), label("ann", "2", "on")])
    assert len(result) == MOST_JUDGES * (MOST_JUDGES - 1) // 2
    assert result[0].one == "ann"
