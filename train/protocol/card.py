"""The section "Figures" of a model's card, in Markdown, without a text of the data."""

from collections.abc import Mapping, Sequence
from math import isnan

from train.protocol.bootstrap import Interval
from train.protocol.evaluate import Judged
from train.protocol.judge import PREVALENCE
from train.protocol.report import PER_MILLE, between, percent
from train.protocol.trust import Trust
from train.protocol.wrong import KINDS, MOST

Columns = dict[str, dict[str, str]]
"""The cells of a table: by column, then by row."""
PLAIN = ("P@R80", "recall", "precision")


def as_markdown(judged: Sequence[Judged]) -> str:
    """All that the section says of the first model: copied, it renews the card."""
    trust = {one.name: one.trust for one in judged if one.trust is not None}
    rate = f"one post in {1 / PREVALENCE:.0f} is on topic"
    parts = [
        f"In percent, with 95 % intervals; P@R80 and precision where {rate}.",
        *figures(judged),
    ]
    for title, columns in (
        (f"Precision by score where {rate} (so many on topic, so many not)", by_score(trust)),
        ("Share of posts found at the automatic threshold (of so many)", by_group(trust)),
        (f"The {MOST} highest wrong posts above it, by what carries them", kinds(trust)),
    ):
        parts += [f"**{title}:**", *grid(columns)] if columns else []
    return "\n\n".join(parts)


def grid(columns: Columns, corner: str = "") -> list[str]:
    """A table of columns; a dash where a row has no cell."""
    named = dict.fromkeys(row for cells in columns.values() for row in cells)
    rows = sorted(named, key=lambda row: row if row.isdigit() else "")  # years in order, at the end
    lines = [f"| {' | '.join([corner, *columns])} |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        cells = [one.get(row, "–") for one in columns.values()]
        lines.append(f"| {' | '.join([row, *cells])} |")
    return ["\n".join(lines)]


def figures(judged: Sequence[Judged]) -> list[str]:
    """The first model's figures, and how far each other scorer's lie from them."""
    columns: Columns = {}
    for one in judged:
        first = next(iter(one.figures))
        for figure, drawn in one.intervals.items():
            columns[f"{one.name} {figure}"] = {
                name if name == first else f"difference of {name}": between(
                    own if name == first else apart
                )
                for name, (own, apart) in drawn.items()
            }
        if one.kind == "crisis":
            columns |= {f"{one.name} {key}": plain(one, key) for key in PLAIN}
            passed = one.figures[first].get(PER_MILLE)
            if passed is not None:
                columns[f"{one.name} {PER_MILLE}"] = {first: f"{passed:.2f}"}
    return grid(columns) if columns else []


def plain(one: Judged, figure: str) -> dict[str, str]:
    """A figure that has no interval, for every scorer that has it; in its row of the table."""
    first = next(iter(one.figures))
    return {
        name if name == first else f"difference of {name}": (
            percent(found[figure]) + ("" if name == first else " (its own)")
        )
        for name, found in one.figures.items()
        if figure in found
    }


def by_score(trust: Mapping[str, Trust]) -> Columns:
    """The precision of each bin of scores, a column for each set and kind of wrong posts."""
    return {
        f"{name}, {kind}": {
            f"{bin.low:.2f}": f"{whole(bin.precision)} ({bin.on:,}, {bin.other:,})"
            for bin in sorted(bins)
        }
        for name, one in trust.items()
        for kind, bins in one.reliability.items()
    }


def by_group(trust: Mapping[str, Trust]) -> Columns:
    """The recall of each group of posts, a column for each set."""
    return {
        name: {
            group: f"{whole(found.recall)} ({found.posts:,})" for group, found in one.found.items()
        }
        for name, one in trust.items()
    }


def kinds(trust: Mapping[str, Trust]) -> Columns:
    """How many wrong posts each kind of word carries, a column for each set."""
    return {
        f"{name}, {where}": {kind: str(counts[kind]) for kind in KINDS}
        for name, one in trust.items()
        for where, counts in one.wrong.items()
    }


def whole(found: Interval) -> str:
    """A share in whole percent with its interval."""
    if isnan(found.value):
        return "–"
    return f"{100 * found.value:.0f} [{100 * found.low:.0f} … {100 * found.high:.0f}]"
