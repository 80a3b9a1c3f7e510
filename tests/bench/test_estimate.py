import pytest

from bench.estimate import LabelledStream, exact_width, flat, simulate


@pytest.mark.parametrize(("one_in", "labels"), [(10, 40), (10, 100), (100, 100), (1_000, 40)])
def test_intervals_of_flat_streams_have_the_truth_in_them(one_in: int, labels: int) -> None:
    row = simulate(flat(one_in), labels, 150)
    assert row["covered %"] >= 88
    assert row["always %"] >= 88
    assert row["periods %"] >= 88
    if row["exact width"] is not None:
        assert row["width"] <= 1.5 * row["exact width"]
    assert row["labels"] == labels
    assert row["truth"] == 6_000 // one_in


def test_looking_again_and_again_at_an_interval_for_a_fixed_number_misses_the_truth() -> None:
    row = simulate(flat(10), 100, 150)
    assert row["wrong: always %"] < 85 < row["always %"]


def test_a_drift_is_seen() -> None:
    stream = LabelledStream("fire", "", {"upper": 900, "lower": 900}, {"upper": 200, "lower": 200})
    assert simulate(stream, 400, 40)["warned %"] > 80


def test_the_exact_width_of_one_stratum_is_that_of_its_interval() -> None:
    stream = LabelledStream("one", "", {"upper": 300}, {"upper": 60})
    row = simulate(stream, 60, 40)
    assert row["exact width"] == row["width"]
    assert exact_width(flat(1_000), {"upper": 25, "lower": 25, "near": 50}, {}) is None
