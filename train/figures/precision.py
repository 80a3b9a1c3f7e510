"""Precision and recall over all pairs of a set, for every place to cut the ranking."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from train.figures.style import MARKERS, dashes, grid, page, shown
from train.figures.subject import Sheet, Subject
from train.protocol.judge import blocks
from train.protocol.ranking import Ranking, rank_pairs

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Recall rising, the precision there, and the score that reaches it."""

    recall: F64
    precision: F64
    score: F64


def curve(ranking: Ranking) -> Curve:
    """A point for each different score of a pair that belongs together."""
    score = ranking.positive.astype(np.float64)  # falling
    last = np.append(np.diff(score) != 0, True)
    found = np.flatnonzero(last) + 1
    reached = (ranking.higher + ranking.level)[last]
    return Curve(found / len(score), found / reached, score[last])


def draw_precision(subject: Subject) -> list[Sheet]:
    """A line for each set of pairs."""
    figure = page(3.4, 4.4)
    axes = figure.subplots()
    for number, pairs in enumerate(subject.pair_sets):
        ready = subject.scorer.prepare(pairs.posts, pairs.stories)
        ranking = rank_pairs(lambda ready=ready, pairs=pairs: blocks(ready, pairs))  # type: ignore[misc]
        points = curve(ranking)
        axes.plot(
            100 * points.recall, 100 * points.precision, drawstyle="steps-pre",
            label=f"{shown(pairs.name)}: mAP {100 * ranking.average_precision:.1f} %",
            marker=MARKERS[number % len(MARKERS)], markersize=4, markevery=0.2, **dashes(number),
        )  # fmt: skip
    axes.set(xlim=(0, 101), ylim=(0, 101), xlabel="recall (% of the pairs that belong together)")
    axes.set_ylabel("precision (% of the pairs found)")
    grid(axes)
    split = f", split {subject.split}" if subject.split else ""
    axes.set_title(f"All pairs of a post and an article ranked by score{split}")
    figure.legend(loc="outside lower center", ncols=2, handlelength=4)
    return [Sheet("precision-recall", "Precision and recall on pairs", figure)]
