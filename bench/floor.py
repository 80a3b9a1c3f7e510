"""The floor: bytes and multiply-adds that one text costs in the folded form, however written.

Counted for one layer whose tables hold 16-bit numbers: per token a query, a key, a value already
multiplied by the output projection for every head, and the token vector. Left out, so that it
stays a floor: α-entmax itself, the maximum, the front end. Attention that is exactly zero is free,
so the mean number of entries above zero, measured on the same texts, is part of the sum.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from encoder.model.config import AstConfig, Side
from encoder.model.weights import I32, I64, Weights
from encoder.support.jit import jit

U64 = NDArray[np.uint64]

NUMBER_BYTES = 2
PAIRS = 2  # one instruction multiplies and adds twice as many 16-bit numbers as 32-bit ones


@dataclass(frozen=True, slots=True)
class Support:
    """Entries above zero per head: of a ring row (E_i is h_i: one entry), and of the star's row."""

    ring: float
    star: float


@dataclass(frozen=True, slots=True)
class Work:
    """What one text costs."""

    bytes: float
    multiply_adds: float


def row_bytes(config: AstConfig) -> int:
    """The bytes of one token's rows in all tables."""
    numbers = 2 * config.inner + config.heads * config.dim + config.dim
    return NUMBER_BYTES * numbers


def window_entries(tokens: int, window: int) -> int:
    """How many neighbours inside the text all its tokens have together, themselves included."""
    return sum(min(i + window, tokens - 1) - max(i - window, 0) + 1 for i in range(tokens))


def work(config: AstConfig, tokens: int, support: Support) -> Work:
    """The cost of one text of at least one token."""
    d, inner, heads = config.dim, config.inner, config.heads
    logits = (window_entries(tokens, config.window) + tokens) * inner
    nodes = tokens * heads * support.ring * d
    relay = tokens * (d + inner) + min(tokens * heads * d, 2 * inner * d)
    star = (1 + tokens + support.star) * heads * d + 4 * inner * d
    gated = tokens * d + d if config.residual else 0
    return Work(tokens * row_bytes(config), logits + nodes + relay + star + gated)


def mean_work(config: AstConfig, offsets: I64, support: Support) -> Work:
    """The mean cost of these texts; one without tokens costs nothing."""
    counts, times = np.unique(np.diff(offsets), return_counts=True)
    each = [work(config, int(n), support) if n else Work(0, 0) for n in counts]
    share = times / times.sum()
    return Work(
        sum(w.bytes * s for w, s in zip(each, share, strict=True)),
        sum(w.multiply_adds * s for w, s in zip(each, share, strict=True)),
    )


def measure_support(weights: Weights, ids: I32, offsets: I64) -> Support:
    """The mean support over these posts, from the attention of the reference."""
    from encoder.explain.reference import ReferenceReader

    reader, ring, star, rows = ReferenceReader(weights), 0.0, [], 0
    for low, high in pairwise(offsets):
        if low == high:
            continue
        around, across = reader.looks(ids[low:high], Side.POST)  # [n, h, 2c+2], [h, 1+n]
        ring += (around > 0).sum()
        rows += around.shape[0] * around.shape[1]
        star.append(float((across > 0).sum(axis=1).mean()))
    return Support(ring / max(rows, 1), float(np.mean(star)) if star else 0.0)


@jit()
def touch(table: U64, ids: I32) -> np.uint64:
    """Read every row once and do nothing with it: the time that its bytes alone take."""
    mixed = np.uint64(0)
    for i in range(len(ids)):
        row = table[ids[i]]
        for j in range(len(row)):
            mixed ^= row[j]
    return mixed


def written_tables(config: AstConfig, vocabulary: int) -> U64:
    """Memory of the size of the tables, every page of it written."""
    return np.ones((vocabulary, -(-row_bytes(config) // 8)), np.uint64)
