"""The case study drawn: the confusion matrix, and the most and least similar posts."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from encoder.model.weights import I64
from train.figures.case import (
    SAMPLES,
    Result,
    as_csv,
    blocks,
    confusion,
    judge,
    precision_and_recall,
    read_case,
)
from train.figures.style import GREY, page, shown
from train.figures.subject import MissingDataError, Sheet, Subject

POSTS_PER_BLOCK = 5
POST_COLUMNS, POST_LINES = 78, 2
EVENT_COLUMNS = 20
LINE = 0.145  # inches
PLACES = (0.0, 0.55, 1.65, 2.75)  # inches: score, labelled, found, post
HEADS = ("score", "labelled", "found for", "post")


def draw_case(subject: Subject) -> list[Sheet]:
    """A sheet for the matrix and one for the posts, with all posts as text and CSV."""
    folder = subject.case or SAMPLES
    if not folder.is_dir():
        raise MissingDataError(f"needs --case FOLDER with seeds/ and posts.jsonl; {folder} is none")
    result = judge(subject.encoder, read_case(folder, subject.passed), subject.rate)
    return [matrix_sheet(result), posts_sheet(result)]


def matrix_sheet(result: Result) -> Sheet:
    """The confusion matrix at the automatic thresholds."""
    table = confusion(result)
    side = 1.5 + 0.42 * len(table)
    figure = page(side + 0.1, side + 0.2)
    axes = figure.subplots()
    events = [shown(event, EVENT_COLUMNS) for event in result.case.events]
    cells(axes, table, [*events, "no event"], [*events, "not found"])
    precision, recall = (100 * x for x in precision_and_recall(table))
    axes.set_title(
        f"{len(result.case.posts)} posts at the automatic threshold:\n"
        f"precision {precision:.1f} %, recall {recall:.1f} %"
    )
    return Sheet("case-confusion", "Confusion matrix of the case study", figure)


def cells(axes: Axes, table: I64, rows: Sequence[str], columns: Sequence[str]) -> None:
    """The counts, shaded by the share of their row, the numbers in ink that stands out."""
    share = table / np.maximum(table.sum(1, keepdims=True), 1)
    axes.imshow(share, cmap="Greys", vmin=0, vmax=1.25)
    for (i, j), count in np.ndenumerate(table):
        ink = "white" if share[i, j] > 0.6 else "black" if count else GREY
        axes.text(j, i, str(count), ha="center", va="center", color=ink, fontsize=9)
    axes.set_xticks(range(len(columns)), columns, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel="found for (number of posts)", ylabel="labelled as")
    axes.spines[:].set_visible(True)
    axes.set_xticks(np.arange(len(columns)) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(rows)) - 0.5, minor=True)
    axes.grid(True, which="minor", color=GREY, linewidth=0.4)
    axes.tick_params(which="minor", length=0)


def posts_sheet(result: Result) -> Sheet:
    """The most and least similar posts as a table; the texts whole in the files beside it."""
    drawn = [(title, rows_of(result, chosen)) for title, chosen in chosen_blocks(result)]
    lines = sum(2 + sum(len(row[-1]) for row in rows) for _, rows in drawn)
    height = LINE * (lines + 2)
    figure = page(height, arranged=False)
    axes = figure.add_axes((0.01, 0, 0.98, 1))
    axes.set(xlim=(0, 6.76), ylim=(height, 0))
    axes.set_axis_off()
    place = LINE
    for x, head in zip(PLACES, HEADS, strict=True):
        axes.text(x, place, head, fontsize=7, fontweight="bold", va="center")
    for title, rows in drawn:
        place += 1.6 * LINE
        axes.text(0, place, title, fontsize=7, fontstyle="italic", va="center")
        axes.axhline(place + 0.6 * LINE, color="black", linewidth=0.4)
        place += 0.4 * LINE
        for row in rows:
            place = table_row(axes, place, row)
    beside = {"csv": as_csv(result), "txt": as_text(result)}
    return Sheet("case-posts", "Most and least similar posts", figure, beside)


def table_row(axes: Axes, place: float, row: tuple[str, str, str, list[str]]) -> float:
    """One post, its text in one or more lines; where the next one goes on."""
    place += LINE
    for x, cell in zip(PLACES, row[:3], strict=False):
        axes.text(x, place, cell, fontsize=7, va="center")
    for number, line in enumerate(row[3]):
        axes.text(PLACES[3], place + number * LINE, line, fontsize=7, va="center")
    return place + (len(row[3]) - 1) * LINE


def chosen_blocks(result: Result) -> list[tuple[str, Sequence[int]]]:
    """The blocks of the table that hold a post."""
    return [block for block in blocks(result, POSTS_PER_BLOCK) if block[1]]


def rows_of(result: Result, chosen: Sequence[int]) -> list[tuple[str, str, str, list[str]]]:
    """Score, label, event found for, and the lines of the text as they can be drawn."""
    return [
        (
            f"{result.score[i]:.4f}",
            shown(result.event(result.labelled[i]), EVENT_COLUMNS),
            shown(result.event(result.found[i]), EVENT_COLUMNS),
            shown(result.case.posts[i].text, POST_COLUMNS, POST_LINES).split("\n"),
        )
        for i in chosen
    ]


def as_text(result: Result) -> bytes:
    """The same blocks for a terminal or a mail, the texts whole and one to a line."""
    lines = []
    for title, chosen in chosen_blocks(result):
        lines += [title, "-" * len(title)]
        for i in chosen:
            label, found = result.event(result.labelled[i]), result.event(result.found[i])
            text = " ".join(result.case.posts[i].text.split())
            lines.append(f"{result.score[i]:.4f}  {label:<18} {found:<18} {text}")
        lines.append("")
    return "\n".join(lines).encode(errors="backslashreplace")
