"""The case study: seed articles, labelled posts, and which of them the thresholds find.

A folder contains `seeds/` with a Markdown file or folder per event, title first, and `posts.jsonl`
(or .csv, .tsv, .gz) with the keys `text` and `event`, which is empty for no event.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32, I64
from train.data.readers import (
    Row,
    SkippedRows,
    TrainingArticle,
    read_markdown,
    read_rows,
    text_under,
)
from train.figures.subject import GREY, MissingDataError, Sheet, Subject, fonts, page, shorten

SAMPLES = Path(__file__).parents[2] / "worker" / "samples"
NONE = -1  # the number of no event
OFF_TOPIC = "off-topic"
LIST_SIZE = 10  # most similar posts, and as many least similar
POST_COLUMNS = 84
EVENT_COLUMNS = 20
LINE = 0.105  # inches


class LabelledPost(NamedTuple):
    text: str
    event: str | None


@dataclass(frozen=True, slots=True)
class Case:
    """The seed articles of one or several events, and labelled posts."""

    events: tuple[str, ...]
    seeds: tuple[tuple[str, TrainingArticle], ...]  # event, article
    posts: tuple[LabelledPost, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The best score, the label and the matched event of every post."""

    case: Case
    score: F32  # [n], the maximum over all seeds
    labels: I64  # [n]
    matched: I64  # [n]


def draw_case(subject: Subject) -> list[Sheet]:
    """A sheet for the matrix and one for the posts."""
    folder = subject.case or SAMPLES
    if not folder.is_dir():
        raise MissingDataError(f"needs --case FOLDER with seeds/ and posts.jsonl; {folder} is none")
    result = judge(subject.encoder, read_case(folder, subject.skips), subject.rate)
    return [matrix_sheet(result), posts_sheet(result)]


def read_case(folder: Path, skips: SkippedRows) -> Case:
    """Read a case study; posts on events without an article are skipped."""
    articles = sorted([*folder.glob("seeds/*.md"), *folder.glob("seeds/*/*.md")])
    seeds = tuple(
        (file.stem if file.parent.name == "seeds" else file.parent.name, read_markdown(file))
        for file in articles
    )
    events = tuple(dict.fromkeys(event for event, _ in seeds))
    files = sorted(folder.glob("posts.*"))
    if not seeds or not files:
        raise InputError(f"{folder}: is not a case study; it needs seeds/EVENT.md and posts.jsonl")
    posts = tuple(read_rows(files[0], skips, lambda row: _post(row, events)))
    if not posts:
        raise InputError(f"{files[0]}: holds no post with a text and an event of seeds/")
    return Case(events, seeds, posts)


def _post(row: Row, events: Sequence[str]) -> LabelledPost:
    event = None if row.get("label") == OFF_TOPIC else row.get("event") or None
    if event is not None and event not in events:
        raise ValueError(f"is about {event!r}, on which there is no article")
    return LabelledPost(text_under(row, "text"), event)


def judge(enc: Encoder, case: Case, rate: float) -> Result:
    """Score every post with every article, and apply the automatic thresholds."""
    articles = enc.articles([story for _, story in case.seeds])
    scores = enc.posts([post.text for post in case.posts]).similarity(articles)
    number = {None: NONE} | {event: i for i, event in enumerate(case.events)}
    owner = np.array([number[event] for event, _ in case.seeds])
    labels = np.array([number[post.event] for post in case.posts])
    matched = decide(scores, enc.thresholds(articles, rate), owner)
    return Result(case, scores.max(1), labels, matched)


def decide(scores: F32, thresholds: F32, owner: I64) -> I64:
    """Return the event of each post's best match, or NONE: [n]."""
    passing = np.where(scores >= thresholds, scores, -np.inf)
    return np.where(np.isfinite(passing).any(1), owner[passing.argmax(1)], NONE)


def confusion(result: Result) -> I64:
    """Count posts by label (row) and matched event (column); the last is none."""
    table = np.zeros([len(result.case.events) + 1] * 2, np.int64)
    np.add.at(table, (result.labels, result.matched), 1)
    return table


def precision_and_recall(table: I64) -> tuple[float, float]:
    right = np.trace(table[:-1, :-1])
    matches, about = table[:, :-1].sum(), table[:-1].sum()
    nan = float("nan")
    return (float(right / matches) if matches else nan), (float(right / about) if about else nan)


def matrix_sheet(result: Result) -> Sheet:
    """The confusion matrix at the automatic thresholds."""
    table = confusion(result)
    side = 1.5 + 0.42 * len(table)
    figure = page(side + 0.1, side + 0.2)
    axes = figure.subplots()
    events = [shorten(event, EVENT_COLUMNS) for event in result.case.events]
    cells(axes, table, [*events, "no event"], [*events, "not found"])
    precision, recall = (100 * x for x in precision_and_recall(table))
    axes.set_title(
        f"{len(result.case.posts)} posts at the automatic threshold:\n"
        f"precision {precision:.1f} %, recall {recall:.1f} %"
    )
    return Sheet("case-confusion", "Confusion matrix of the case study", figure)


def cells(axes: Axes, table: I64, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Draw the counts, shaded by their share of the row."""
    share = table / np.maximum(table.sum(1, keepdims=True), 1)
    axes.imshow(share, cmap="Greys", vmin=0, vmax=1.25)
    for (i, j), count in np.ndenumerate(table):
        ink = "white" if share[i, j] > 0.6 else "black" if count else GREY
        axes.text(j, i, str(count), ha="center", va="center", color=ink, fontsize=9)
    axes.set_xticks(range(len(columns)), columns, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel="found for (number of posts)", ylabel="labelled as")
    axes.spines[:].set_visible(True)


def posts_sheet(result: Result) -> Sheet:
    """The most and the least similar posts as a table."""
    lines = post_table(result)
    height = LINE * (len(lines) + 1)
    figure = page(height, constrained=False)
    figure.text(
        0.01, 1 - LINE / height, "\n".join(lines), va="top", fontsize=6,
        fontfamily=["DejaVu Sans Mono", *fonts()],
    )  # fmt: skip
    return Sheet("case-posts", "Most and least similar posts", figure)


def post_table(result: Result) -> list[str]:
    """Format the most and the least similar posts as a table."""
    order = np.argsort(-result.score, kind="stable").tolist()
    names = [*result.case.events, "none"]  # NONE is the last
    lines = [f"{'score':>7}  {'labelled':<19}{'matched for':<19}post"]
    ends = (("Most similar", order[:LIST_SIZE]), ("Least similar", order[-LIST_SIZE:]))
    for title, selection in ends:
        lines += ["", title, "-" * len(title)]
        for i in selection:
            label, matched = (names[numbers[i]] for numbers in (result.labels, result.matched))
            post = shorten(result.case.posts[i].text, POST_COLUMNS)
            lines.append(f"{result.score[i]:>7.4f}  {label:<18} {matched:<18} {post}")
    return lines
