"""Reports of an evaluation: tables, and the model card."""

import math
import re
from collections.abc import Mapping, Sequence
from math import isnan

from train.protocol.evaluate import SetResult
from train.protocol.metrics import R_PRECISION_AT, Interval
from train.protocol.sets import PREVALENCE
from train.protocol.trust import KINDS, MAX_ERRORS, Trust

RANKING_METRICS = ("mAP", "AUC", "mRP", "macro AP")
EVENT_METRICS = (
    "AUC off", "AUC background", "AP off", "AP background", "P@R80", "precision", "recall",
)  # fmt: skip
PER_MILLE = "passed in 1,000, a seed"


def percent(value: float | None) -> str:
    """Format a share in percent; a dash for nan."""
    return "–" if value is None or isnan(value) else f"{100 * value:.2f}"


def per_mille(value: float | None) -> str:
    """Format a rate in 1,000; a dash for nan."""
    return "–" if value is None or isnan(value) else f"{value:.2f}"


def tables(results: Sequence[SetResult]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return every table as title, header and rows."""
    every = []
    for result in results:
        every += _pairs(result) if result.kind == "pairs" else _crisis(result)
        for figure, intervals in result.intervals.items():
            first = next(iter(intervals))
            rows = [
                [name, between(own), "" if name == first else between(apart)]
                for name, (own, apart) in intervals.items()
            ]
            title = f"{result.name}: {figure} with 95 % intervals, clusters drawn again"
            every.append((title, ["", figure, f"against {first}"], rows))
    return every


def _pairs(result: SetResult) -> list[tuple[str, list[str], list[list[str]]]]:
    names = list(result.figures)
    at = [r for r in R_PRECISION_AT if any(not isnan(f[f"P@{r}"]) for f in result.figures.values())]
    precision = [[str(r), *(percent(result.figures[n][f"P@{r}"]) for n in names)] for r in at]
    rows = [[n, *(percent(result.figures[n][key]) for key in RANKING_METRICS)] for n in names]
    return [
        (f"{result.name}: r-precision, {result.size}", ["r", *names], precision),
        (f"{result.name}: {result.size}", ["", *RANKING_METRICS], rows),
    ]


def _crisis(result: SetResult) -> list[tuple[str, list[str], list[list[str]]]]:
    rows = []
    for name, figures in result.figures.items():
        pass_rate = figures.get(PER_MILLE)
        cells = [percent(figures.get(key)) for key in EVENT_METRICS]
        rows.append([name, *cells, per_mille(pass_rate)])
    return [(f"{result.name}: {result.size}", ["", *EVENT_METRICS, PER_MILLE], rows)]


def between(value: Interval) -> str:
    return f"{percent(value.value)} ({percent(value.low)} … {percent(value.high)})"


def as_text(results: Sequence[SetResult]) -> str:
    """Format the tables for a terminal."""
    return "\n\n".join(
        "\n".join([title, "", *align(header, rows)]) for title, header, rows in tables(results)
    )


def examples(results: Sequence[SetResult]) -> str:
    """Format the highest-scoring wrong posts of each set, with their main words."""
    lines = []
    for result in results:
        for error in result.trust.examples if result.trust else ():
            words = ", ".join(f"{visible(word)} {100 * part:.1f}" for word, part in error.words)
            score = f"{100 * error.score:.1f}, threshold {100 * error.threshold:.1f}"
            lines += [f"{result.name}: {score}; {error.kind}: {words}"]
            lines += [f"  article: {visible(error.title)}", f"  post: {visible(error.post)}"]
    return "\n".join(lines)


def visible(text: str) -> str:
    """Put a text on one line, without control characters."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def align(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Align a table: the first column left, the others right."""
    if not header:
        return []
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in (header, ["─" * width for width in widths], *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


Columns = dict[str, dict[str, str]]
"""The cells of a table: by column, then by row."""
PLAIN = ("P@R80", "recall", "precision")


def as_markdown(results: Sequence[SetResult]) -> str:
    """Format the card's section on the first model."""
    trust = {result.name: result.trust for result in results if result.trust is not None}
    rate = f"one post in {1 / PREVALENCE:.0f} is on topic"
    parts = [
        f"In percent, with 95 % intervals; P@R80 and precision where {rate}.",
        *figures(results),
    ]
    for title, columns in (
        (f"Precision by score where {rate} (number on topic, number off topic)", by_score(trust)),
        ("Share of posts found at the automatic threshold (of how many)", by_group(trust)),
        (f"The {MAX_ERRORS} highest-scoring false positives, by their main word", kinds(trust)),
    ):
        parts += [f"**{title}:**", *grid(columns)] if columns else []
    return "\n\n".join(parts)


NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def grid(columns: Columns) -> list[str]:
    """Format columns as a table; a dash for a missing cell."""
    row_names = dict.fromkeys(row for cells in columns.values() for row in cells)
    # numbers, which are years or scores, last and in order
    rows = sorted(row_names, key=lambda row: float(row) if NUMBER.fullmatch(row) else -math.inf)
    lines = [f"| {' | '.join(['', *columns])} |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        cells = [cells_by_row.get(row, "–") for cells_by_row in columns.values()]
        lines.append(f"| {' | '.join([row, *cells])} |")
    return ["\n".join(lines)]


def figures(results: Sequence[SetResult]) -> list[str]:
    """Format the first model's figures, and the other scorers' differences from them."""
    columns: Columns = {}
    for result in results:
        first = next(iter(result.figures))
        for figure, intervals in result.intervals.items():
            columns[f"{result.name} {figure}"] = {
                name if name == first else f"difference of {name}": between(
                    own if name == first else apart
                )
                for name, (own, apart) in intervals.items()
            }
        if result.kind == "crisis":
            columns |= {f"{result.name} {key}": plain(result, key) for key in PLAIN}
            pass_rate = result.figures[first].get(PER_MILLE)
            if pass_rate is not None:
                columns[f"{result.name} {PER_MILLE}"] = {first: per_mille(pass_rate)}
    return grid(columns) if columns else []


def plain(result: SetResult, figure: str) -> dict[str, str]:
    """Format a figure without an interval, for every scorer that has it."""
    first = next(iter(result.figures))
    return {
        name if name == first else f"difference of {name}": (
            percent(value[figure]) + ("" if name == first else " (its own)")
        )
        for name, value in result.figures.items()
        if figure in value
    }


def by_score(trust: Mapping[str, Trust]) -> Columns:
    """The precision of each score bin, by set and kind of wrong posts."""
    return {
        f"{name}, {kind}": {
            f"{bin.low:.2f}": f"{whole(bin.precision)} ({bin.on:,}, {bin.other:,})"
            for bin in sorted(bins)
        }
        for name, report in trust.items()
        for kind, bins in report.reliability.items()
    }


def by_group(trust: Mapping[str, Trust]) -> Columns:
    """The recall of each group of posts, by set."""
    return {
        name: {
            group: f"{whole(own.recall)} ({own.posts:,})" for group, own in report.groups.items()
        }
        for name, report in trust.items()
    }


def kinds(trust: Mapping[str, Trust]) -> Columns:
    """The number of wrong posts by kind of main word, by set."""
    return {
        f"{name}, {where}": {kind: str(counts[kind]) for kind in KINDS}
        for name, report in trust.items()
        for where, counts in report.errors.items()
    }


def whole(value: Interval) -> str:
    if isnan(value.value):
        return "–"
    return f"{100 * value.value:.0f} [{100 * value.low:.0f} … {100 * value.high:.0f}]"
