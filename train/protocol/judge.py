"""The figures of one scorer on one set: pairs as in the paper, crises as in a stream."""

from dataclasses import dataclass

import numpy as np

from encoder.errors import InputError
from encoder.model.weights import F32
from train.protocol.ranking import ap_of, auc_of, pair_auc_of, r_precisions
from train.protocol.sets import CrisisSet, PairSet

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
