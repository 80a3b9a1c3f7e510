"""One finished table of a bench, as text and as data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from train.protocol.report import aligned


@dataclass(frozen=True, slots=True)
class Part:
    """A title, a table and what is to be said about it, and the same as plain data."""

    key: str
    title: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    data: Any
    remarks: Sequence[str] = ()

    def render(self) -> str:
        """The part for a terminal; without a header the remarks alone."""
        shown = aligned(self.header, self.rows) if self.header else []
        return "\n".join([self.title, "", *shown, *self.remarks])

    @classmethod
    def where(cls, facts: Mapping[str, str]) -> "Part":
        """Where and on what something was measured."""
        lines = [f"{key}: {value}" for key, value in facts.items()]
        return cls("where", "Where and on what", (), (), facts, lines)


def number(value: float) -> str:
    """A figure with three digits that count: 61,234 stays whole, 0.0123 keeps what it has."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(float(f"{value:.3g}")))))
    return f"{value:,.{places}f}" if places < 6 else f"{value:.1e}"
