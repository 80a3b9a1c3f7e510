"""One finished table of a bench, as text and as data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from train.protocol.report import aligned

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Part:
    """A title, a table and what is to be said about it."""

    key: str
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    remarks: Sequence[str] = ()

    def render(self) -> str:
        """The part for a terminal; without a header the remarks alone."""
        rows = [[shown(cell) for cell in row] for row in self.rows]
        return "\n".join([self.title, "", *aligned(self.header, rows), *self.remarks])

    def plain(self) -> dict[str, Any]:
        """The part as plain data."""
        rows = [dict(zip(self.header, row, strict=True)) for row in self.rows]
        return {"rows": rows, "remarks": list(self.remarks)}

    @classmethod
    def where(cls, facts: Mapping[str, str]) -> "Part":
        """Where and on what something was measured."""
        lines = [f"{key}: {value}" for key, value in facts.items()]
        return cls("where", "Where and on what", (), (), lines)


def shown(cell: Cell) -> str:
    """A cell as it is printed; of a float three digits count."""
    if isinstance(cell, float):
        return number(cell)
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell


def number(value: float) -> str:
    """A figure with three digits that count: 61,234 stays whole, 0.0123 keeps what it has."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(float(f"{value:.3g}")))))
    return f"{value:,.{places}f}" if places < 6 else f"{value:.1e}"
