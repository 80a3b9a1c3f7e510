"""Rows of CSV that no spreadsheet runs, and that steer no terminal."""

import csv
import io
import re
from collections.abc import Sequence

from worker.visible import one_line

Cell = str | int | float | None

# What a spreadsheet passes over, or cuts a line at, before a sign that begins a formula: "; =1".
BEFORE_A_FORMULA = re.compile(r'(?<![;\s\0"])[;\s\0"]*+(?=[=+\-@＝＋－＠])')
CUTS = ";\t\r\n"  # what some spreadsheets end a cell at, even inside one of ours
NUMBER = re.compile(r"[+-]?+[0-9]++(?:[.,][0-9]++)?+(?:[eE][+-]?+[0-9]++)?+")
BLANK = ("\t", "\r", "\n")


def csv_row(
    cells: Sequence[Cell], terminal: bool = False, delimiter: str = ",", own: Sequence[Cell] = ()
) -> str:
    """A line of CSV, safe to open in a spreadsheet; for a terminal each cell is on one line.

    Numbers in the user's own cells, which come last, stay numbers: -73.9 is a longitude.
    """
    both = [*cells, *own]
    seen = [one_line(cell) if terminal and isinstance(cell, str) else cell for cell in both]
    safe = [
        cell if at >= len(cells) and is_number(cell) else harmless(cell)
        for at, cell in enumerate(seen)
    ]
    line = io.StringIO(newline="")
    csv.writer(line, delimiter=delimiter).writerow(safe)  # \r\n at its end: a lone \r is quoted
    return line.getvalue()


def is_number(cell: Cell) -> bool:
    """Whether a cell is a number and nothing besides, which no spreadsheet runs."""
    return isinstance(cell, str) and NUMBER.fullmatch(cell) is not None


def harmless(cell: Cell) -> Cell:
    """A cell that no spreadsheet takes for a formula, nor any part of it."""
    if not isinstance(cell, str):
        return cell
    quiet = BEFORE_A_FORMULA.sub(_quoted, cell)
    return f"'{quiet}" if quiet.startswith(BLANK) else quiet


def plain(cell: str) -> str:
    """What `harmless` made this cell of, as far as it put an apostrophe before it."""
    bare = cell.removeprefix("'")
    return bare if bare != cell and harmless(bare) == cell else cell


def _quoted(found: re.Match[str]) -> str:
    """What stands before a formula, with an apostrophe where the cell of a spreadsheet begins."""
    before = found[0]
    start = max(map(before.rfind, CUTS)) + 1
    if not start and found.start():
        return before  # in the midst of a cell: 1 + 1
    return f"{before[:start]}'{before[start:]}"
