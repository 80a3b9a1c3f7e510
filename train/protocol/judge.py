"""The figures of one scorer on one set: pairs as in the paper, crises as in a stream."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from encoder import Encoder
from encoder.model.weights import F32
from train.protocol.peers import Scored, Scorer
from train.protocol.ranking import R_PRECISION_AT, Block, ap_of, auc_of, rank_pairs
from train.protocol.sets import CrisisSet, PairSet

SCORES_AT_ONCE = 2**25  # 128 MiB
PREVALENCE = 1 / 26
RECALL = 0.8

Figures = dict[str, float]


def pair_figures(ready: Scored, pairs: PairSet) -> Figures:
    """mAP, AUC, the r-precisions and their mean over all pairs, and the mean AP of an article."""
    ranking = rank_pairs(lambda: score_blocks(ready, pairs))
    named = {f"P@{r}": ranking.r_precision(r) for r in R_PRECISION_AT}
    return {
        "mAP": ranking.average_precision,
        "AUC": ranking.auc,
        "mRP": ranking.mean_r_precision,
        "macro AP": ranking.macro_ap,
    } | named


def score_blocks(ready: Scored, pairs: PairSet) -> Iterator[Block]:
    """The scores and labels of all posts with a bounded number of articles at a time."""
    width = max(1, SCORES_AT_ONCE // max(len(pairs.posts), 1))
    for start in range(0, len(pairs.stories), width):
        stop = min(start + width, len(pairs.stories))
        label = np.zeros((len(pairs.posts), stop - start), np.bool_)
        mine = pairs.own[(pairs.own[:, 1] >= start) & (pairs.own[:, 1] < stop)]
        label[mine[:, 0], mine[:, 1] - start] = True
        yield ready.block(slice(start, stop)), label


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The best score over an event's reports, of every post of each kind."""

    on: F32
    off: F32
    background: F32

    @classmethod
    def of(cls, ready: Scored, crisis: CrisisSet) -> "Scores":
        """An event's score is the maximum over its seeds."""
        best = ready.block(slice(None)).max(1)
        on, off = len(crisis.on), len(crisis.off)
        return cls(best[:on], best[on : on + off], best[on + off :])


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


def judge_threshold(enc: Encoder, scorer: Scorer, crisis: CrisisSet, rate: float) -> Figures:
    """Precision and recall at the automatic threshold, and how much background passes a seed."""
    cuts = enc.thresholds(enc.articles(crisis.seeds), rate)
    posts = (*crisis.on, *crisis.background)
    reached = scorer.prepare(posts, crisis.seeds).block(slice(None)) >= cuts  # [posts, seeds]
    on, background = reached[: len(crisis.on)], reached[len(crisis.on) :]
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
