"""The case study: seed articles, labelled posts, and which of them the thresholds find.

A folder holds `seeds/`, a Markdown file for each event or a folder of them, its title in the first
line, and `posts.jsonl` (or .csv, .tsv, .gz) with the keys `text` and `event`, empty for none.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32, I64
from train.data.readers import Passed, Row, Story, rows

SAMPLES = Path(__file__).parents[2] / "worker" / "samples"
NONE = "none"
OFF_TOPIC = "off-topic"
COLUMNS = ("rank", "score", "threshold", "labelled", "found", "post")


@dataclass(frozen=True, slots=True)
class LabelledPost:
    """A post and the event that it is about, if any."""

    text: str
    event: str | None


@dataclass(frozen=True, slots=True)
class Case:
    """The seed articles of one or several events, and labelled posts."""

    name: str
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


def read_case(folder: Path, passed: Passed) -> Case:
    """The case study of a folder; a post about an event without an article is passed over."""
    seeds = tuple(_seeds(folder / "seeds"))
    events = tuple(dict.fromkeys(event for event, _ in seeds))
    files = sorted(folder.glob("posts.*"))
    if not seeds or not files:
        raise InputError(f"{folder}: is no case study; it needs seeds/EVENT.md and posts.jsonl")
    posts = []
    for number, row in rows(files[0], passed):
        try:
            posts.append(_post(row, events))
        except ValueError as error:
            passed.add(files[0], number, str(error))
    if not posts:
        raise InputError(f"{files[0]}: holds no post with a text and an event of seeds/")
    return Case(folder.resolve().name, events, seeds, tuple(posts))


def judge(enc: Encoder, case: Case, rate: float) -> Result:
    """Score every post with every article, and cut at the automatic thresholds."""
    articles = enc.articles([(story.title, story.text) for _, story in case.seeds])
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


def listed(result: Result) -> list[tuple[int, str, str, str, str, str]]:
    """All posts by falling score, a row each with the columns above."""
    return [
        (
            rank, f"{result.score[i]:.4f}", f"{result.threshold[i]:.4f}",
            result.event(result.labelled[i]), result.event(result.found[i]),
            result.case.posts[i].text,
        )
        for rank, i in enumerate(ranking(result), 1)
    ]  # fmt: skip


def as_csv(result: Result) -> bytes:
    """All posts by falling score, their texts as they are."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(listed(result))
    return out.getvalue().encode(errors="backslashreplace")


def blocks(result: Result, count: int) -> list[tuple[str, Sequence[int]]]:
    """The most and the least similar posts, and where the score errs most, by their numbers."""
    order = ranking(result)
    about = result.labelled[order] >= 0
    last = order[::-1][:count][::-1]
    return [
        ("Most similar", order[:count].tolist()),
        ("Most similar of those about no event", order[~about][:count].tolist()),
        ("Least similar of those about an event", order[about][-count:].tolist()),
        ("Least similar", last.tolist()),
    ]


def _seeds(folder: Path) -> list[tuple[str, Story]]:
    files = sorted([*folder.glob("*.md"), *folder.glob("*/*.md")])
    found = []
    for file in files:
        event = file.stem if file.parent == folder else file.parent.name
        try:
            text = file.read_text("utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file}: cannot be read ({error})") from error
        first, _, rest = text.partition("\n")
        title, body = (first.lstrip("# "), rest.strip()) if first.startswith("# ") else ("", text)
        found.append((event, Story(file.stem, title, body)))
    return found


def _post(row: Row, events: Sequence[str]) -> LabelledPost:
    text, event = row.get("text"), row.get("event") or None
    if not isinstance(text, str) or not text.strip():
        raise ValueError("has no text under 'text'")
    if row.get("label") == OFF_TOPIC:
        event = None
    if event is not None and event not in events:
        raise ValueError(f"is about {event!r}, on which there is no article")
    return LabelledPost(text, event)
