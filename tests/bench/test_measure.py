"""Rates, ratios and percentiles, on a clock that the test turns."""

import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench import measure
from bench.measure import (
    ResultTable,
    Run,
    interleave,
    number,
    percentile,
    rate_of,
    ratio,
    set_threads,
    spread,
)


class Clock:
    """A clock that stands still but for the work done."""

    def __init__(self) -> None:
        self.now = 0.0
        self.done: list[str] = []

    def __call__(self) -> float:
        return self.now

    def work(self, name: str, items: int, seconds: float) -> Run:
        def run() -> int:
            self.now += seconds
            self.done.append(name)
            return items

        return run


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "REST", 0.0)


def test_a_rate_counts_whole_batches_until_the_time_is_up() -> None:
    clock = Clock()
    assert rate_of(clock.work("a", 10, 0.4), 1.0, clock) == pytest.approx(30 / 1.2)
    assert len(clock.done) == 3


def test_rows_take_turns_and_the_first_round_is_dropped() -> None:
    clock = Clock()
    runs = {("a", 1): clock.work("a", 10, 1.0), ("b", 2): clock.work("b", 5, 1.0)}
    rates = interleave(runs, 2, 0.5, clock=clock)
    assert clock.done == ["a", "b"] * 3
    assert rates == {("a", 1): [10.0, 10.0], ("b", 2): [5.0, 5.0]}


def test_each_row_runs_on_its_own_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    before = torch.get_num_threads()
    seen: list[int] = []

    def look() -> int:
        seen.append(torch.get_num_threads())
        return 1

    try:
        interleave({("a", 1): look, ("b", 2): look}, 1, 0.0)
    finally:
        set_threads(before)
    assert seen == [1, 2, 1, 2]


def test_ratios_are_taken_round_by_round() -> None:
    assert ratio([10.0, 30.0, 8.0], [5.0, 10.0, 8.0]) == 2.0
    assert ratio([10.0], []) is None
    assert ratio([], [10.0]) is None


def test_the_spread_of_an_even_number_lies_between() -> None:
    assert spread([4.0, 1.0, 2.0, 3.0]) == (2.5, 1.0, 4.0)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_the_least_value_that_covers_its_share(
    values: list[float], share: float
) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(v <= found for v in values) >= share * len(values) - 1e-9
    assert sum(v < found for v in values) < share * len(values)


def test_the_median_of_an_odd_number_is_the_middle() -> None:
    values = [5.0, 1.0, 9.0, 3.0, 7.0]
    assert percentile(values, 0.5) == statistics.median(values)
    assert percentile(values, 0.99) == 9.0


def test_a_part_as_it_is_printed() -> None:
    rows = [("kernel", 61_000.4), ("× é", 5)]
    part = ResultTable("speed", "Posts", ("path", "rate"), rows, ["minilm: absent"])
    assert part.plain() == {
        "rows": [{"path": "kernel", "rate": 61_000.4}, {"path": "× é", "rate": 5}],
        "remarks": ["minilm: absent"],
    }
    assert part.render() == (
        "Posts\n\npath      rate\n──────  ──────\nkernel  61,000\n× é          5\nminilm: absent"
    )
    assert ResultTable.where({"cpu": "one"}).render() == "Where and on what\n\ncpu: one"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (61_234.4, "61,234"),
        (540.2, "540"),
        (113.02, "113"),
        (3.456, "3.46"),
        (0.0421, "0.0421"),
        (9.999, "10.0"),
        (2e-7, "2.0e-07"),
        (0, "0"),
        (math.nan, "–"),
        (-12.34, "-12.3"),
    ],
)
def test_figures(value: float, shown: str) -> None:
    assert number(value) == shown
