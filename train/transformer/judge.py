"""Judge the teacher and stars on a split, each with our words.

python -m train.transformer.judge --data ../shared/data --split dev [--star DIR] [--teacher]
    [--mix 0.65 --mix 0.75] [--every 4]

The first row is the model that ships; recall is at the score that 1 in 1,000 of the set's own
background reaches, for each seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

import encoder
from encoder import Encoder
from encoder.model.weights import F32
from train.command import run_command
from train.data.readers import SkippedRows, Split, TrainingArticle, split_of_event
from train.protocol.metrics import ap_of, recall_figure
from train.protocol.peers import Scorer
from train.protocol.sets import (
    CrisisSet,
    PairSet,
    Scores,
    crisis_figures,
    read_crises,
    read_pair_sets,
)
from train.teacher.minilm import readable, whole
from train.teacher.star import TrainedStar
from train.transformer.mpnet import Mpnet

RATE = 0.001
Vectors = Callable[[Sequence[str], Sequence[TrainingArticle]], tuple[F32, F32]]
"""The unit vectors of posts and of articles."""


def teacher_vectors() -> Vectors:
    """The teacher's: an article is the mean of its chunks."""
    teacher = Mpnet.open()

    def read(posts: Sequence[str], stories: Sequence[TrainingArticle]) -> tuple[F32, F32]:
        return teacher.texts(list(map(readable, posts))), whole(stories, teacher.texts)

    return read


def star_vectors(folder: Path) -> Vectors:
    """Those of a star in training."""
    star = TrainedStar.open(folder)

    def read(posts: Sequence[str], stories: Sequence[TrainingArticle]) -> tuple[F32, F32]:
        return star.posts(posts), star.articles(stories)

    return read


def with_words(vectors: Vectors, words: Encoder, mixes: Sequence[float]) -> dict[str, Scorer]:
    """A scorer for each λ; texts are read once for all."""

    @cache
    def halves(posts: tuple[str, ...], stories: tuple[TrainingArticle, ...]) -> tuple[F32, F32]:
        own, others = vectors(posts, stories)
        lexical = words.posts(posts).lexical.dot(words.articles(stories).lexical)
        return own @ others.T, lexical

    def scorer(mix: float) -> Scorer:
        def score(posts: Sequence[str], stories: Sequence[TrainingArticle]) -> F32:
            dense, lexical = halves(tuple(posts), tuple(stories))
            return np.asarray((1 - mix) * dense + mix * lexical, np.float32)

        return score

    return {f"λ {mix:g}": scorer(mix) for mix in mixes}


def figures(score: F32, judged: PairSet | CrisisSet) -> str:
    """The figures of one scorer on one set, × 100."""
    if isinstance(judged, PairSet):
        return f"mAP {100 * ap_of(score, judged.label):.1f}"
    found = crisis_figures(Scores.of(score, judged))
    on, background = score[: len(judged.on)], score[len(judged.on) + len(judged.off) :]
    each = (np.ones(len(part), np.int64) for part in (on, background))
    recall = recall_figure(on, background, RATE)(*each)
    values = [*(found[name] for name in ("AUC off", "AUC background", "P@R80")), recall]
    return " · ".join(f"{100 * value:.1f}" for value in values)


def thin(crisis: CrisisSet, every: int) -> CrisisSet:
    """Keep one in so many of the posts."""
    on, off, background = (posts[::every] for posts in (crisis.on, crisis.off, crisis.background))
    return crisis._replace(on=on, off=off, background=background)


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """The options of the command."""

    data: Path
    split: Split
    stars: Sequence[Path]
    teacher: bool
    mixes: Sequence[float]
    every: int
    threads: int


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--split", type=click.Choice(["dev", "test"]), default="dev", show_default=True)
@click.option("--star", "stars", type=click.Path(path_type=Path, exists=True), multiple=True)
@click.option("--teacher", is_flag=True, help="Judge MPNet itself, too.")
@click.option("--mix", "mixes", type=float, multiple=True, default=(0.65, 0.75), show_default=True)
@click.option("--every", type=click.IntRange(1), default=1, help="One post of a crisis in so many.")
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True)
def main(**options: Any) -> None:
    """Print AUC off topic · background · P@R80 · recall of crises, and the mAP of pairs."""
    judge(JudgeOptions(**options))


def judge(order: JudgeOptions) -> None:
    torch.set_num_threads(order.threads)
    words = encoder.load("default", device="cpu")
    sets: list[PairSet | CrisisSet] = list(read_pair_sets(order.data, order.split, SkippedRows()))
    sets += [
        thin(crisis, order.every)
        for crisis in read_crises(order.data, SkippedRows())
        if split_of_event(crisis.name) == order.split
    ]
    rows: dict[str, Scorer] = {
        "the model that ships": lambda posts, stories: words.posts(posts).similarity(
            words.articles(stories)
        )
    }
    sources = {"MPNet": teacher_vectors()} if order.teacher else {}
    sources |= {folder.name: star_vectors(folder) for folder in order.stars}
    for name, vectors in sources.items():
        scorers = with_words(vectors, words, order.mixes).items()
        rows |= {f"{name}, {mix}": scorer for mix, scorer in scorers}
    for name, scorer in rows.items():
        for judged in sets:
            stories = judged.seeds if isinstance(judged, CrisisSet) else judged.stories
            score = scorer(judged.posts, stories)
            click.echo(f"{name:28} {judged.name:28} {figures(score, judged)}")


if __name__ == "__main__":
    run_command(main)
