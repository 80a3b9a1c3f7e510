"""The case study drawn: the confusion matrix, and the most and least similar posts."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from encoder.model.weights import I64
from train.figures.case import (
    SAMPLES,
    Result,
    as_csv,
    as_lines,
    confusion,
    judge,
    precision_and_recall,
    read_case,
)
from train.figures.style import GREY, fonts, page, shown
from train.figures.subject import MissingDataError, Sheet, Subject

POSTS_PER_BLOCK = 5
POST_COLUMNS = 84
EVENT_COLUMNS = 20
LINE = 0.1  # inches


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
    lines = as_lines(result, POSTS_PER_BLOCK, lambda text: shown(text, POST_COLUMNS))
    height = LINE * (len(lines) + 1)
    figure = page(height, arranged=False)
    figure.text(
        0.01, 1 - LINE / height, "\n".join(lines), va="top", fontsize=6,
        fontfamily=["DejaVu Sans Mono", *fonts()],
    )  # fmt: skip
    whole = "\n".join(as_lines(result, POSTS_PER_BLOCK, lambda text: " ".join(text.split())))
    beside = {"csv": as_csv(result), "txt": whole.encode(errors="backslashreplace")}
    return Sheet("case-posts", "Most and least similar posts", figure, beside)
