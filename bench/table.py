"""Plain-text tables, aligned so that a terminal and a README show them alike."""

import math
import unicodedata
from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under their header: the first column to the left, the others to the right.

    A row of a single cell is a remark and spans the table.
    """
    full = [list(header), *(list(row) for row in rows if len(row) > 1)]
    odd = [row for row in full if len(row) != len(header)]
    if odd:
        raise ValueError(f"table: {len(odd[0])} cells under {len(header)} columns: {odd[0]}")
    widths = [max(width(row[i]) for row in full) for i in range(len(header))]
    lines = [_line(header, widths), "  ".join("─" * w for w in widths)]
    return "\n".join(lines + [_line(row, widths) if len(row) > 1 else row[0] for row in rows])


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def number(value: float) -> str:
    """A figure with three digits that count: 61,234 stays whole, 0.0123 keeps what it has."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 1e8:
        return f"{value:.2e}"
    places = max(0, 2 - math.floor(math.log10(abs(float(f"{value:.3g}")))))
    return f"{value:,.{places}f}" if places < 6 else f"{value:.1e}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    gaps = [" " * (w - width(cell)) for cell, w in zip(cells, widths, strict=True)]
    padded = [g + cell for g, cell in zip(gaps[1:], cells[1:], strict=True)]
    return "  ".join([cells[0] + gaps[0], *padded]).rstrip()
