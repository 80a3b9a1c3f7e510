"""Pauses between attempts, by hand."""

from typing import Any

import pytest

from worker.sources.backoff import Backoff


def pauses(backoff: Backoff, count: int) -> list[float]:
    return [backoff.pause() for _ in range(count)]


def test_pauses_double_to_the_longest_and_begin_again_after_progress() -> None:
    backoff = Backoff(0.25, 30, jitter=0)
    assert pauses(backoff, 9) == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]
    backoff.reset()
    assert backoff.pause() == 0.25


def test_pauses_by_a_step_may_begin_with_none() -> None:
    assert pauses(Backoff(0, 1, factor=1, step=0.4, jitter=0), 5) == [0, 0.4, 0.8, 1, 1]


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_chance_makes_a_pause_longer_but_never_than_the_longest(chance: float) -> None:
    backoff = Backoff(10, 25, jitter=0.5, chance=lambda: chance)
    assert pauses(backoff, 3) == [10 * (1 + chance / 2), min(25, 20 * (1 + chance / 2)), 25]


@pytest.mark.parametrize("given", [
    {"first": -1, "longest": 1}, {"first": 2, "longest": 1},
    {"first": 1, "longest": 2, "factor": 0}, {"first": 1, "longest": 2, "factor": 1, "step": -1},
    {"first": 1, "longest": 2, "jitter": 2},
])  # fmt: skip
def test_pauses_that_do_not_grow_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"pauses|jitter"):
        Backoff(**given)
