"""Tables line up, and figures keep three digits that count."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.table import number, table, width

CELL = st.text(st.characters(codec="utf-8", exclude_categories=("C", "M", "Z")), max_size=9)


def test_a_table_as_it_is_printed() -> None:
    assert table(("path", "rate"), [("kernel", "61,000"), ("× é", "5"), ("minilm: absent",)]) == (
        "path      rate\n──────  ──────\nkernel  61,000\n× é          5\nminilm: absent"
    )


@given(st.lists(st.tuples(CELL, CELL, CELL), max_size=6))
def test_columns_end_at_the_same_place(rows: list[tuple[str, str, str]]) -> None:
    lines = table(("a", "b", "c"), rows).split("\n")
    ends = [len(rule) for rule in lines[1].split("  ")]
    assert all(width(line) <= sum(ends) + 4 for line in lines)
    for line, row in zip(lines[2:], rows, strict=True):
        if row[2]:
            assert width(line) == sum(ends) + 4
            assert line.endswith(row[2])


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells under 3 columns"):
        table(("a", "b", "c"), [("1", "2")])


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
        (2.36e10, "2.36e+10"),
        (0, "0"),
        (math.nan, "–"),
        (-12.34, "-12.3"),
    ],
)
def test_figures(value: float, shown: str) -> None:
    assert number(value) == shown
