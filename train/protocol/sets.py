"""Evaluation sets, and the figures of scores on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from encoder.errors import InputError
from encoder.model.weights import F32, I64
from train.data.readers import (
    CLAIMS,
    POOL,
    Pair,
    SkippedRows,
    Split,
    TrainingArticle,
    copy_key,
    crisis_posts,
    files,
    pair_sets,
    pool,
    read_posts,
    reports,
    share,
    split_pairs,
    story_key,
    without_copies,
)
from train.protocol.metrics import Bool, ap_of, auc_of, pair_auc_of, r_precisions

HELD_OUT_FROM = 0.9  # the hash of everyday posts that only evaluate
BACKGROUND = 6_000


class PairSet(NamedTuple):
    """Posts and articles, and the pairs that belong together."""

    name: str
    posts: tuple[str, ...]
    stories: tuple[TrainingArticle, ...]
    own: I64  # [pairs, 2]: post, story
    years: tuple[int | None, ...] = ()  # of the posts, if known

    @property
    def label(self) -> Bool:
        """The mask of pairs that belong together: [posts, articles]."""
        label = np.zeros((len(self.posts), len(self.stories)), np.bool_)
        label[self.own[:, 0], self.own[:, 1]] = True
        return label


class CrisisSet(NamedTuple):
    """The reports on one event, its on-topic and off-topic posts, and background posts."""

    name: str
    seeds: tuple[TrainingArticle, ...]
    on: tuple[str, ...]
    off: tuple[str, ...]
    background: tuple[str, ...]

    @property
    def posts(self) -> tuple[str, ...]:
        """All posts: on topic, off topic, background."""
        return (*self.on, *self.off, *self.background)


def pair_set(name: str, pairs: Sequence[Pair], further: Sequence[TrainingArticle] = ()) -> PairSet:
    """Make a set of distinct posts and articles, and further articles without posts."""
    posts = {text: i for i, text in enumerate(dict.fromkeys(pair.post for pair in pairs))}
    by_key: dict[str, TrainingArticle] = {}
    for story in (*(pair.story for pair in pairs), *further):
        by_key.setdefault(story_key(story), story)
    place = {key: j for j, key in enumerate(by_key)}
    own = {(posts[pair.post], place[story_key(pair.story)]) for pair in pairs}
    index = np.array(sorted(own), dtype=np.int64).reshape(-1, 2)
    years = {pair.post: pair.year for pair in reversed(pairs)}  # the first year of a text wins
    return PairSet(name, tuple(posts), tuple(by_key.values()), index, tuple(map(years.get, posts)))


def read_pair_sets(data: Path, split: Split | None, skips: SkippedRows) -> list[PairSet]:
    """Read the pairs of every file in `pairs/`, of one split or all."""
    sets = []
    for name, pairs in pair_sets(data, skips):
        further: list[TrainingArticle] = []
        if split is None:
            further = [story for kind in (CLAIMS, POOL) for story in pool(data, name, kind, skips)]
        if of_split := pairs if split is None else split_pairs(pairs)[split]:
            sets.append(pair_set(name, of_split, further))
    return sets


def read_crises(data: Path, skips: SkippedRows) -> list[CrisisSet]:
    """Read the events of `crisis/` that have a report, posts on topic, and others."""
    seeds = reports(data, skips)
    posts = without_copies(crisis_posts(data, skips)) if seeds else []
    background = tuple(read_background(data, skips)) if posts else ()
    crises = []
    for event, stories in seeds.items():
        on, off = (
            tuple(post.text for post in posts if post.event == event and post.on_topic is kind)
            for kind in (True, False)
        )
        if on and (off or background):
            crises.append(CrisisSet(event, tuple(stories), on, off, background))
    return crises


def read_background(data: Path, skips: SkippedRows) -> Iterator[str]:
    """Read everyday posts that only evaluate, a fixed number per file.

    None is a near-copy of a post that trains or sets automatic thresholds.
    """
    texts = [list(read_posts(file, skips)) for file in files(data, "tweets").values()]
    other_keys = {copy_key(text) for file in texts for text in file if share(text) < HELD_OUT_FROM}
    other_keys.discard("")
    for file in texts:
        posts = {
            text
            for text in file
            if share(text) >= HELD_OUT_FROM and copy_key(text) not in other_keys
        }
        yield from sorted(posts, key=share)[:BACKGROUND]


PREVALENCE = 1 / 26
RECALL = 0.8

Figures = dict[str, float]


def pair_figures(score: F32, pairs: PairSet) -> Figures:
    """mAP, AUC, the r-precisions and their mean over all pairs, and the mean AP of an article."""
    label = pairs.label
    columns = np.flatnonzero(label.any(0))
    if not len(columns):
        raise InputError(f"{pairs.name}: no post of this set belongs to one of its articles")
    precision = r_precisions(score, label)
    numbers = [value for value in precision.values() if not np.isnan(value)]
    return {
        "mAP": ap_of(score, label),
        "AUC": pair_auc_of(score, label),
        "mRP": float(np.mean(numbers)) if numbers else float("nan"),
        "macro AP": float(np.mean([ap_of(score[:, j], label[:, j]) for j in columns])),
    } | {f"P@{r}": value for r, value in precision.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The maximum score over an event's reports, for posts of each kind."""

    on: F32
    off: F32
    background: F32

    @classmethod
    def of(cls, score: F32, crisis: CrisisSet) -> "Scores":
        """Take the maximum over the seeds of `score` [posts, seeds]."""
        on, off = len(crisis.on), len(crisis.off)
        return cls(*np.split(score.max(1), [on, on + off]))


def crisis_figures(scores: Scores) -> Figures:
    """AUC and AP of on- against off-topic and against background, and precision in a stream."""
    figures = {}
    for name, other in (("off", scores.off), ("background", scores.background)):
        if len(other):
            both = np.concatenate([scores.on, other])
            figures[f"AUC {name}"] = auc_of(scores.on, other)
            figures[f"AP {name}"] = ap_of(both, np.arange(len(both)) < len(scores.on))
    if len(scores.background):
        cut = np.sort(scores.on)[::-1][int(np.ceil(RECALL * len(scores.on))) - 1]
        shares = (float((kind >= cut).mean()) for kind in (scores.on, scores.background))
        figures["P@R80"] = precision_of(*shares)
    return figures


def threshold_figures(score: F32, thresholds: F32, crisis: CrisisSet) -> Figures:
    """Precision and recall at each seed's threshold, and the share of background above it."""
    hits = score >= thresholds  # [posts, seeds]
    on, background = hits[: len(crisis.on)], hits[len(crisis.on) + len(crisis.off) :]
    recall, alarm, passed = float(on.any(1).mean()), float("nan"), float("nan")
    if len(background):
        alarm, passed = float(background.any(1).mean()), float(1000 * background.mean())
    return {
        "recall": recall,
        "precision": precision_of(recall, alarm),
        "passed in 1,000, a seed": passed,
    }


def precision_of(recall: float, alarm: float) -> float:
    """The precision in a stream with one on-topic post in 26; nan without matches."""
    hits, alarms = PREVALENCE * recall, (1 - PREVALENCE) * alarm
    return hits / (hits + alarms) if hits + alarms else float("nan")
