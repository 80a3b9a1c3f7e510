from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.measure import TableRow
from bench.promise import (
    FEW,
    MANY,
    METHODS,
    CrisisStream,
    PromiseOptions,
    flat,
    simulate,
)

OPTIONS = PromiseOptions(Path(), "default", "read", 300, 0.8, 0.9, unsure=0.0)
RANDOM = np.random.default_rng(8)
STREAM = CrisisStream(
    "fire", "1 in 50", RANDOM.normal(0.6, 0.1, 900), RANDOM.normal(0.3, 0.1, 500),
    on_all=1_000, off_all=20_000, share=0.02, posts=10_000,
)  # fmt: skip


def test_the_matches_of_a_stream_are_as_many_and_as_right_as_it_says() -> None:
    drawn = [STREAM.draw(np.random.default_rng(seed)) for seed in range(300)]
    assert all((np.diff(scores) <= 0).all() for scores, _ in drawn)
    hits = np.mean([right.sum() for _, right in drawn])
    falses = np.mean([(~right).sum() for _, right in drawn])
    assert hits == pytest.approx(10_000 * 0.02 * 900 / 1_000, rel=0.02)
    assert falses == pytest.approx(10_000 * 0.98 * 500 / 20_000, rel=0.02)
    above = np.concatenate([right[scores >= 0.5] for scores, right in drawn])
    assert above.mean() == pytest.approx(STREAM.precision(0.5), abs=0.01)


def test_the_oracle_takes_the_loosest_threshold_of_all() -> None:
    result = STREAM.oracle(0.8)
    assert result is not None
    every = np.concatenate([STREAM.on, STREAM.off])
    assert result == min(score for score in every if STREAM.precision(score) >= 0.8)
    assert replace(STREAM, on=STREAM.on[:0]).oracle(0.8) is None
    assert STREAM.recall(result) == (result <= STREAM.on).sum() / 1_000
    assert STREAM.recall(None) == 0
    assert STREAM.precision(9) == 0  # an empty top


def test_the_simulation_tells_the_ways_that_keep_the_promise_from_those_that_break_it() -> None:
    rows = {row["method"]: row for row in simulate([flat()], OPTIONS, lambda _: None)}
    assert list(rows) == list(METHODS)
    for name, row in rows.items():
        assert row["broken %"] == row["threshold %"]  # on a flat stream any threshold breaks it
        assert (row["broken %"] > 13) == name.startswith("wrong"), name


def test_where_there_is_much_to_find_it_is_found() -> None:
    rows = {
        row["method"]: row
        for row in simulate([STREAM], replace(OPTIONS, repetitions=40), lambda _: None)
    }
    for name, most in (("60 labels", FEW), ("a look after each, 200 at most", MANY)):
        assert rows[name]["threshold %"] > 50
        assert rows[name]["broken %"] <= 10
        assert 0 < rows[name]["recall"] <= rows[name]["oracle's"] + 0.05
        assert rows[name]["labels"] <= most


def test_unsure_labels_cost_promises_and_break_none() -> None:
    def anytime(unsure: float) -> TableRow:
        options = replace(OPTIONS, repetitions=60, unsure=unsure)
        rows = simulate([STREAM], options, lambda _: None)
        return next(row for row in rows if row["method"].startswith("a look"))

    assert anytime(0.0)["threshold %"] > anytime(0.2)["threshold %"]
    assert anytime(0.2)["broken %"] <= 10
