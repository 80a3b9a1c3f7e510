"""One rate for a whole set: how far all automatic thresholds are raised, so that it holds.

Automatic thresholds at this rate let a share of the background pass each seed; the shares of many
seeds add up. One constant, added to all of them, brings the share that passes any seed down again.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from encoder.embeddings import Embeddings
from encoder.model.weights import F32, I64
from encoder.score.exact import pair_scores, rounding

STEP = 2.0**-23  # at least the distance of neighbouring float32 numbers up to 1
SEEDS_AT_ONCE = 256


class Passing(NamedTuple):
    """The background posts that reach the threshold of a seed, and by how much."""

    posts: I64  # [p]
    margins: F32  # [p], at least 0


def passing_posts(background: Embeddings, seeds: Embeddings, thresholds: F32) -> list[Passing]:
    """For each seed."""
    result: list[Passing] = []
    slack = np.float32(rounding(seeds.dense.shape[1]))
    for start in range(0, len(seeds), SEEDS_AT_ONCE):
        block, cuts = (
            seeds[start : start + SEEDS_AT_ONCE],
            thresholds[start : start + SEEDS_AT_ONCE],
        )
        pairs = np.argwhere(block.similarity(background) >= cuts[:, None] - slack)
        sides = (block.dense, block.lexical), (background.dense, background.lexical)
        margins = pair_scores(*sides, block.mix, pairs) - cuts[pairs[:, 0]]
        (rows, posts), margins = pairs[margins >= 0].T, margins[margins >= 0]
        ends = np.searchsorted(rows, np.arange(1, len(block)))
        parts = zip(np.split(posts, ends), np.split(margins, ends), strict=True)
        result += (Passing(*part) for part in parts)
    return result


def raise_for_all(passing: Iterable[Passing], background: Embeddings, rate: float) -> float:
    """The least constant for which at most this share of each language's posts passes any seed.

    A post passes a seed if its margin is at least the constant.
    """
    every = list(passing)
    best = np.full(len(background), -1, np.float32)  # [n] each post's largest margin
    if every:
        posts, margins = map(np.concatenate, zip(*every, strict=True))
        np.maximum.at(best, posts, margins)
    ends = background.ends or (len(background),)
    parts = np.split(best, ends[:-1])
    return max(_raise_for(part, max(1, int(rate * len(part) + STEP))) for part in parts)


def _raise_for(margins: F32, most: int) -> float:
    """The least constant that at most so many margins reach."""
    falling = np.sort(margins)[::-1]
    if len(falling) <= most or falling[most] < 0:
        return 0.0
    # So that the next one is excluded after rounding, too
    return max(float(falling[most - 1]), float(falling[most]) + STEP)
