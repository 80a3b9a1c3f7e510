import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsift.files.rows import csv_row, escape_formulas

FORMULA = tuple("=+-@＝＋－＠")
WILD = st.text(st.sampled_from("a;=＝+@-\t\r\n \"',\0\u3000"), max_size=12)


def formulas(line: str, delimiter: str) -> list[str]:
    """The cells of a line that a spreadsheet would run, which passes over white space."""
    rows = csv.reader(io.StringIO(line, newline=""), delimiter=delimiter)
    return [cell for row in rows for cell in row if cell.strip().strip('"\0 ').startswith(FORMULA)]


@given(WILD, WILD)
def test_no_cell_of_any_text_is_a_formula(first: str, second: str) -> None:
    line = csv_row([f"x{first}", second])
    assert formulas(line, ",") == formulas(line, ";") == []


@pytest.mark.parametrize(
    "cell", ["1 + 1", "a-b", "https://x.y/?a=b", "a@b.c", "me; you", -0.5, None]
)
def test_keeps_what_is_no_formula(cell: str | float | None) -> None:
    assert escape_formulas(cell) == cell


def test_a_row_for_a_terminal_is_on_one_line() -> None:
    assert csv_row(["a\x1b[31m\nb\u202e", 1.0], terminal=True) == "a[31m b,1.0\r\n"


@pytest.mark.parametrize(
    ("cell", "kept"),
    [
        ("-73.9", True), ("+4", True), ("-1,5", True), ("-2e-3", True), ("-5+1", False),
        ("-", False), ("-1\n", False), ("-1.", False), ("=1", False), ("-١", False), (" -1", False),
    ],
)  # fmt: skip
def test_a_number_of_the_user_s_own_stays_a_number(cell: str, kept: bool) -> None:
    own = next(csv.reader(io.StringIO(csv_row([cell], user_cells=[cell]), newline="")))
    assert own[0] != cell
    assert (own[1] == cell) is kept
