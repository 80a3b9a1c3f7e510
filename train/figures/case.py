"""The case study: seed articles, labelled posts, and which of them the thresholds find.

A folder holds `seeds/`, a Markdown file for each event or a folder of them, its title in the first
line, and `posts.jsonl` (or .csv, .tsv, .gz) with the keys `text` and `event`, empty for none.
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32, I64
from train.data.readers import Passed, Row, Story, read_markdown, read_rows, text_under

SAMPLES = Path(__file__).parents[2] / "worker" / "samples"
NONE = "none"
OFF_TOPIC = "off-topic"
COLUMNS = ("rank", "score", "threshold", "labelled", "found", "post")


class LabelledPost(NamedTuple):
    """A post and the event that it is about, if any."""

    text: str
    event: str | None


@dataclass(frozen=True, slots=True)
class Case:
    """The seed articles of one or several events, and labelled posts."""

    events: tuple[str, ...]
    seeds: tuple[tuple[str, Story], ...]  # event, article
    posts: tuple[LabelledPost, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What came of every post: its best score, the event that found it, or -1."""

    case: Case
    score: F32  # [n], the maximum over all seeds
    threshold: F32  # [n], that of the seed with the best score, or of the one that found the post
    labelled: I64  # [n], -1 for no event
    found: I64  # [n], -1 for none

    def event(self, number: int) -> str:
        """The name of an event by its number."""
        return NONE if number < 0 else self.case.events[number]

    def cells(self, i: int) -> tuple[str, str, str, str]:
        """Score, threshold, label and event found of a post."""
        numbers = f"{self.score[i]:.4f}", f"{self.threshold[i]:.4f}"
        return *numbers, self.event(self.labelled[i]), self.event(self.found[i])


def read_case(folder: Path, passed: Passed) -> Case:
    """The case study of a folder; a post about an event without an article is passed over."""
    articles = sorted([*folder.glob("seeds/*.md"), *folder.glob("seeds/*/*.md")])
    seeds = tuple(
        (file.stem if file.parent.name == "seeds" else file.parent.name, read_markdown(file))
        for file in articles
    )
    events = tuple(dict.fromkeys(event for event, _ in seeds))
    files = sorted(folder.glob("posts.*"))
    if not seeds or not files:
        raise InputError(f"{folder}: is no case study; it needs seeds/EVENT.md and posts.jsonl")
    posts = tuple(read_rows(files[0], passed, lambda row: _post(row, events)))
    if not posts:
        raise InputError(f"{files[0]}: holds no post with a text and an event of seeds/")
    return Case(events, seeds, posts)


def judge(enc: Encoder, case: Case, rate: float) -> Result:
    """Score every post with every article, and cut at the automatic thresholds."""
    articles = enc.articles([story for _, story in case.seeds])
    scores = enc.posts([post.text for post in case.posts]).similarity(articles)
    number = {event: i for i, event in enumerate(case.events)}
    owner = np.array([number[event] for event, _ in case.seeds], np.int64)
    labelled = [-1 if post.event is None else number[post.event] for post in case.posts]
    cuts = enc.thresholds(articles, rate)
    found, seed = decide(scores, cuts, owner)
    return Result(case, scores.max(1), cuts[seed], np.array(labelled, np.int64), found)


def decide(scores: F32, cuts: F32, owner: I64) -> tuple[I64, NDArray[np.int64]]:
    """For each post the event whose seed finds it with the highest score, or -1; and that seed."""
    passing = np.where(scores >= cuts, scores, -np.inf)
    reached = np.isfinite(passing).any(1)
    seed = np.where(reached, passing.argmax(1), scores.argmax(1))
    return np.where(reached, owner[seed], -1), seed


def confusion(result: Result) -> I64:
    """How many posts of each label (row) each event found (column); the last are none."""
    count = len(result.case.events) + 1
    table = np.zeros((count, count), np.int64)
    np.add.at(table, (result.labelled % count, result.found % count), 1)
    return table


def precision_and_recall(table: I64) -> tuple[float, float]:
    """Of the found posts the share found for their own event; of those about one, the same."""
    right = np.trace(table[:-1, :-1])
    found, about = table[:, :-1].sum(), table[:-1].sum()
    nan = float("nan")
    return (float(right / found) if found else nan), (float(right / about) if about else nan)


def ranking(result: Result) -> I64:
    """The posts by falling score, equal ones in their own order."""
    return np.argsort(-result.score, kind="stable").astype(np.int64)


def as_csv(result: Result) -> bytes:
    """All posts by falling score, their texts as they are."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    for rank, i in enumerate(ranking(result), 1):
        table.writerow((rank, *result.cells(i), result.case.posts[i].text))
    return out.getvalue().encode(errors="backslashreplace")


def as_lines(result: Result, count: int, shown: Callable[[str], str]) -> list[str]:
    """The blocks of posts as lines of columns, the text as it is shown last."""
    lines = [f"{'score':>7}  {'labelled':<19}{'found for':<19}post", ""]
    for title, chosen in listed(result, count):
        lines += [title, "-" * len(title)]
        for i in chosen:
            score, _, label, found = result.cells(i)
            lines.append(f"{score:>7}  {label:<18} {found:<18} {shown(result.case.posts[i].text)}")
        lines.append("")
    return lines


def listed(result: Result, count: int) -> list[tuple[str, Sequence[int]]]:
    """The most and the least similar posts, and where the score errs most, by their numbers."""
    order = ranking(result)
    about = result.labelled[order] >= 0
    found = {
        "Most similar": order[:count],
        "Most similar of those about no event": order[~about][:count],
        "Least similar of those about an event": order[about][-count:],
        "Least similar": order[-count:],
    }
    return [(title, chosen.tolist()) for title, chosen in found.items() if len(chosen)]


def _post(row: Row, events: Sequence[str]) -> LabelledPost:
    event = None if row.get("label") == OFF_TOPIC else row.get("event") or None
    if event is not None and event not in events:
        raise ValueError(f"is about {event!r}, on which there is no article")
    return LabelledPost(text_under(row, "text"), event)
