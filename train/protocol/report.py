"""The figures as tables for a terminal."""

from collections.abc import Sequence
from math import isnan

from train.protocol.bootstrap import Interval
from train.protocol.evaluate import Judged
from train.protocol.ranking import R_PRECISION_AT

RANKED = ("mAP", "AUC", "mRP", "macro AP")
EVENT = ("AUC off", "AUC background", "AP off", "AP background", "P@R80", "precision", "recall")
PER_MILLE = "passed in 1,000, a seed"


def percent(value: float | None) -> str:
    """A share in percent as the paper prints it; a dash for what could not be measured."""
    return "–" if value is None or isnan(value) else f"{100 * value:.2f}"


def tables(judged: Sequence[Judged]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Every table as its title, its header and its rows."""
    made = []
    for one in judged:
        made += _pairs(one) if one.kind == "pairs" else _crisis(one)
        for figure, drawn in one.intervals.items():
            first = next(iter(drawn))
            rows = [
                [name, between(own), "" if name == first else between(apart)]
                for name, (own, apart) in drawn.items()
            ]
            title = f"{one.name}: {figure} with 95 % intervals, clusters drawn again"
            made.append((title, ["", figure, f"against {first}"], rows))
    return made


def _pairs(one: Judged) -> list[tuple[str, list[str], list[list[str]]]]:
    names = list(one.figures)
    at = [r for r in R_PRECISION_AT if any(not isnan(f[f"P@{r}"]) for f in one.figures.values())]
    precision = [[str(r), *(percent(one.figures[n][f"P@{r}"]) for n in names)] for r in at]
    ranked = [[n, *(percent(one.figures[n][key]) for key in RANKED)] for n in names]
    return [
        (f"{one.name}: r-precision, {one.size}", ["r", *names], precision),
        (f"{one.name}: {one.size}", ["", *RANKED], ranked),
    ]


def _crisis(one: Judged) -> list[tuple[str, list[str], list[list[str]]]]:
    rows = []
    for name, figures in one.figures.items():
        passed = figures.get(PER_MILLE)
        cells = [percent(figures.get(key)) for key in EVENT]
        rows.append([name, *cells, "–" if passed is None else f"{passed:.2f}"])
    return [(f"{one.name}: {one.size}", ["", *EVENT, PER_MILLE], rows)]


def between(found: Interval) -> str:
    """A value in percent with its interval."""
    return f"{100 * found.value:.2f} ({100 * found.low:.2f} … {100 * found.high:.2f})"


def as_text(judged: Sequence[Judged]) -> str:
    """Tables aligned for a terminal."""
    return "\n\n".join(
        "\n".join([title, "", *aligned(header, rows)]) for title, header, rows in tables(judged)
    )


def examples(judged: Sequence[Judged]) -> str:
    """The highest of the wrong posts of each set, with the words that carried them."""
    lines = []
    for one in judged:
        for wrong in one.trust.examples if one.trust else ():
            words = ", ".join(f"{visible(word)} {100 * part:.1f}" for word, part in wrong.words)
            score = f"{100 * wrong.score:.1f}, threshold {100 * wrong.threshold:.1f}"
            lines += [f"{one.name}: {score}; {wrong.carrier}: {words}"]
            lines += [f"  article: {visible(wrong.title)}", f"  post: {visible(wrong.post)}"]
    return "\n".join(lines)


def visible(text: str) -> str:
    """A text of the data in one line, without what would steer a terminal."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, its first column to the left and the others to the right."""
    if not header:
        return []
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in (header, ["─" * width for width in widths], *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines
