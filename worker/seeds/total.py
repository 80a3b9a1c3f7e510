"""One rate for a whole set: how far all automatic thresholds are raised, so that it holds.

Automatic thresholds at this rate let a share of the background pass each seed; the shares of many
seeds add up. One constant, added to all of them, brings the share that passes any seed down again.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from encoder.embeddings import Embeddings, reaching_pairs
from encoder.model.weights import F32, I64

FLOAT32_STEP = 2.0**-23  # no smaller than the distance of neighbouring float32 up to 1


class PassingPosts(NamedTuple):
    """Background posts that reach the threshold of a seed, and by how much."""

    posts: I64  # [p]
    margins: F32  # [p], at least 0


def passing_posts(background: Embeddings, seeds: Embeddings, thresholds: F32) -> list[PassingPosts]:
    pairs, scores = reaching_pairs(seeds, background, thresholds)
    rows, posts = pairs.T
    ends = np.searchsorted(rows, np.arange(1, len(seeds)))
    parts = np.split(posts, ends), np.split(scores - thresholds[rows], ends)
    return [PassingPosts(*part) for part in zip(*parts, strict=True)][: len(seeds)]


def total_rate_constant(
    passing: Iterable[PassingPosts], background: Embeddings, rate: float
) -> float:
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
    return max(
        _language_constant(part, max(1, int(rate * len(part) + FLOAT32_STEP))) for part in parts
    )


def _language_constant(margins: F32, most: int) -> float:
    """The least constant that at most `most` margins reach."""
    falling = np.sort(margins)[::-1]
    if len(falling) <= most or falling[most] < 0:
        return 0.0
    # So that the next one is excluded after rounding, too
    return max(float(falling[most - 1]), float(falling[most]) + FLOAT32_STEP)
