"""The sets that judge a model, and a model judged on one of them."""

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

UNTAUGHT = 0.9  # posts of the streams above this share are never trained on
BACKGROUND = 6_000


class PairSet(NamedTuple):
    """Posts, articles, and which belong together."""

    name: str
    posts: tuple[str, ...]
    stories: tuple[TrainingArticle, ...]
    own: I64  # [pairs, 2]: post, story
    years: tuple[int | None, ...] = ()  # of the posts, where they are known

    @property
    def label(self) -> Bool:
        """Which post and which article belong together: [posts, articles]."""
        label = np.zeros((len(self.posts), len(self.stories)), np.bool_)
        label[self.own[:, 0], self.own[:, 1]] = True
        return label


class CrisisSet(NamedTuple):
    """The reports on one event, posts gathered for it on and off topic, and posts of other days."""

    name: str
    seeds: tuple[TrainingArticle, ...]
    on: tuple[str, ...]
    off: tuple[str, ...]
    background: tuple[str, ...]

    @property
    def posts(self) -> tuple[str, ...]:
        """All its posts, in the order in which they are scored."""
        return (*self.on, *self.off, *self.background)


def pair_set(name: str, pairs: Sequence[Pair], further: Sequence[TrainingArticle] = ()) -> PairSet:
    """Every post and every article once, and further articles that no post talks about."""
    posts = {text: i for i, text in enumerate(dict.fromkeys(pair.post for pair in pairs))}
    keyed: dict[str, TrainingArticle] = {}
    for story in (*(pair.story for pair in pairs), *further):
        keyed.setdefault(story_key(story), story)
    place = {key: j for j, key in enumerate(keyed)}
    own = {(posts[pair.post], place[story_key(pair.story)]) for pair in pairs}
    index = np.array(sorted(own), dtype=np.int64).reshape(-1, 2)
    years = {pair.post: pair.year for pair in reversed(pairs)}  # the first of a text counts
    return PairSet(name, tuple(posts), tuple(keyed.values()), index, tuple(map(years.get, posts)))


def read_pair_sets(data: Path, split: Split | None, passed: SkippedRows) -> list[PairSet]:
    """The pairs of every file in `pairs/`, of one split or, with None, all of them."""
    sets = []
    for name, pairs in pair_sets(data, passed):
        further: list[TrainingArticle] = []
        if split is None:
            further = [story for kind in (CLAIMS, POOL) for story in pool(data, name, kind, passed)]
        if chosen := pairs if split is None else split_pairs(pairs)[split]:
            sets.append(pair_set(name, chosen, further))
    return sets


def read_crises(data: Path, passed: SkippedRows) -> list[CrisisSet]:
    """The events of `crisis/` that have at least one report and posts of both kinds."""
    seeds = reports(data, passed)
    posts = without_copies(crisis_posts(data, passed)) if seeds else []
    background = tuple(read_background(data, passed)) if posts else ()
    crises = []
    for event, stories in seeds.items():
        on, off = (
            tuple(post.text for post in posts if post.event == event and post.on_topic is kind)
            for kind in (True, False)
        )
        if on and off:
            crises.append(CrisisSet(event, tuple(stories), on, off, background))
    return crises


def read_background(data: Path, passed: SkippedRows) -> Iterator[str]:
    """Everyday posts that never train, a fixed number of each file."""
    for file in files(data, "tweets").values():
        judging = dict.fromkeys(
            text for text in read_posts(file, passed) if share(text) >= UNTAUGHT
        )
        yield from sorted(judging, key=share)[:BACKGROUND]


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
    there = [value for value in precision.values() if not np.isnan(value)]
    return {
        "mAP": ap_of(score, label),
        "AUC": pair_auc_of(score, label),
        "mRP": float(np.mean(there)) if there else float("nan"),
        "macro AP": float(np.mean([ap_of(score[:, j], label[:, j]) for j in columns])),
    } | {f"P@{r}": value for r, value in precision.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The best score over an event's reports, of every post of each kind."""

    on: F32
    off: F32
    background: F32

    @classmethod
    def of(cls, score: F32, crisis: CrisisSet) -> "Scores":
        """An event's score is the maximum over its seeds, out of [posts, seeds]."""
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


def threshold_figures(score: F32, cuts: F32, crisis: CrisisSet) -> Figures:
    """Precision and recall at a threshold for each seed, and how much background passes one."""
    reached = score >= cuts  # [posts, seeds]
    on, background = reached[: len(crisis.on)], reached[len(crisis.on) + len(crisis.off) :]
    recall, alarm = float(on.any(1).mean()), float(background.any(1).mean())
    return {
        "recall": recall,
        "precision": precision_of(recall, alarm),
        "passed in 1,000, a seed": float(1000 * background.mean()),
    }


def precision_of(recall: float, alarm: float) -> float:
    """The precision in a stream of which one post in 26 is on topic; nan where nothing passes."""
    hits, alarms = PREVALENCE * recall, (1 - PREVALENCE) * alarm
    return hits / (hits + alarms) if hits + alarms else float("nan")
