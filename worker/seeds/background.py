"""The background for automatic thresholds: the model's or the user's own.

It has two parts: posts that a profile is separated from never calibrate its threshold. An eighth is
enough to separate; the tail of a threshold needs the rest.
"""

from dataclasses import dataclass
from math import ceil, sqrt
from zlib import crc32

import numpy as np

from encoder.embeddings import Background, Embeddings
from encoder.errors import InputError
from encoder.model.weights import I64

MIN_TAIL_POSTS = 3
HASH_PARTS = 8  # The first part separates events; the others calibrate.


@dataclass(frozen=True, slots=True, eq=False)
class OwnBackground:
    """A background file's posts; `digest` has the first 12 hex digits of its SHA-256."""

    posts: Background
    digest: str


def split_background(background: Embeddings) -> tuple[Embeddings, Embeddings]:
    """The posts that separate events and those that calibrate."""
    calibrating = calibrating_rows(background)
    separating = np.delete(np.arange(len(background)), calibrating)
    return background[separating], background[calibrating]


def calibrating_rows(background: Embeddings) -> I64:
    """The posts that calibrate, chosen by hashes of vectors that were read.

    Copies of a post are always on the same side.
    """
    words, ends = background.lexical, background.lexical.indptr
    sides = np.array([
        crc32(words.slots[begin:end].tobytes(), crc32(dense.tobytes())) % HASH_PARTS
        for dense, begin, end in zip(background.dense, ends, ends[1:], strict=False)
    ], bool)  # fmt: skip
    return np.flatnonzero(sides)


def tail_size(posts: int, rate: float) -> int:
    """The posts that reach a threshold at this rate."""
    return round(rate * posts)


def tail_error(tail: int) -> float:
    """The relative error of the rate."""
    return 1 / sqrt(tail) if tail else float("inf")


RATE_KEY = "matching.background_rate"


def refuse_small(name: object, posts: int, rate: float, key: str = RATE_KEY) -> None:
    """Raises if too few posts reach a threshold at this rate."""
    if (tail := tail_size(posts, rate)) < MIN_TAIL_POSTS:
        raise InputError(
            f"{name}: {posts:,} posts are too few for {key} {rate:g}, with "
            f"{tail} of them above a threshold and not {MIN_TAIL_POSTS}; "
            f"{ceil(MIN_TAIL_POSTS / rate):,} are needed"
        )
