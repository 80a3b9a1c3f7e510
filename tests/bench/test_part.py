"""Tables line up, and figures keep three digits that count."""

import math

import pytest

from bench.part import Part, number


def test_a_part_as_it_is_printed() -> None:
    rows = [("kernel", 61_000.4), ("× é", 5)]
    part = Part("speed", "Posts", ("path", "rate"), rows, ["minilm: absent"])
    assert part.plain() == {
        "rows": [{"path": "kernel", "rate": 61_000.4}, {"path": "× é", "rate": 5}],
        "remarks": ["minilm: absent"],
    }
    assert part.render() == (
        "Posts\n\npath      rate\n──────  ──────\nkernel  61,000\n× é          5\nminilm: absent"
    )
    assert Part.where({"cpu": "one"}).render() == "Where and on what\n\ncpu: one"


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
