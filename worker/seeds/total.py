"""One rate for a whole set: how far all automatic thresholds are raised, so that it holds.

Automatic thresholds at this rate let a share of the background pass each seed; the shares of many
seeds add up. One constant, added to all of them, brings the share that passes any seed down again.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from encoder.embeddings import Embeddings, reaching_pairs
from encoder.model.weights import F32, I64
from encoder.score.exact import pair_scores

FLOAT32_STEP = 2.0**-23  # no smaller than the distance of neighbouring float32 up to 1


class PassingPosts(NamedTuple):
    """Background posts that reach the threshold of a seed, and by how much."""

    posts: I64  # [p]
    margins: F32  # [p], at least 0


def passing_posts(
    background: Embeddings, skimmed: Embeddings | None, seeds: Embeddings, thresholds: F32
) -> list[PassingPosts]:
    """Where posts are skimmed first, a margin is the lesser of both readers'.

    `thresholds` are those of the scores and of the approximate scores: [k, 2].
    """
    cuts, skim_cuts = np.ascontiguousarray(thresholds.T)
    pairs, scores = reaching_pairs(seeds, background, cuts)
    margins = scores - cuts[pairs[:, 0]]
    if skimmed is not None:
        sides = (seeds.dense, seeds.lexical), (skimmed.dense, skimmed.lexical)
        approximate = pair_scores(*sides, seeds.mix, pairs)
        margins = np.minimum(margins, approximate - skim_cuts[pairs[:, 0]])
        pairs, margins = pairs[margins >= 0], margins[margins >= 0]
    rows, posts = pairs.T
    ends = np.searchsorted(rows, np.arange(1, len(seeds)))
    parts = np.split(posts, ends), np.split(margins, ends)
    return [PassingPosts(*part) for part in zip(*parts, strict=True)][: len(seeds)]


def total_rate_constant(
    passing: Iterable[PassingPosts], background_posts: int, rate: float
) -> float:
    """The least constant for which at most this share of the background passes any seed.

    A post passes a seed if its margin is at least the constant.
    """
    every = list(passing)
    best = np.full(background_posts, -1, np.float32)  # [n] each post's largest margin
    if every:
        posts, margins = map(np.concatenate, zip(*every, strict=True))
        np.maximum.at(best, posts, margins)
    most, falling = max(1, int(rate * len(best) + FLOAT32_STEP)), np.sort(best)[::-1]
    if len(falling) <= most or falling[most] < 0:
        return 0.0
    # So that the next one is excluded after rounding, too
    return max(float(falling[most - 1]), float(falling[most]) + FLOAT32_STEP)
