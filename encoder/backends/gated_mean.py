"""The gated mean on a CPU: token vectors in int8, weighted and summed by compiled code.

Thread-safe; each call works in its own thread. A text's vector is summed in token order, so it has
the same bits in any batch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy import float32

from encoder.backends.validate import refuse_outside
from encoder.errors import InputError
from encoder.model.config import MAX_TOKENS, Side
from encoder.model.weights import CODES, F32, I8, I32, I64, SCALES, Weights, position_buckets
from encoder.support.jit import jit
from encoder.support.readonly import fixed


class TokenTables(NamedTuple):
    """The tables by token and position on one side of the pair."""

    codes: I8  # [vocabulary, d], the token vectors over their scales
    scales: F32  # [vocabulary]
    gates: F32  # [vocabulary], how much a token counts
    positions: F32  # [MAX_TOKENS], how much a position counts


def token_tables(weights: Weights) -> Sequence[TokenTables]:
    """The tables of each side, for a model without a star."""
    if weights.config.has_star:
        raise InputError("star: the model has one; use the torch backend")
    codes, scales = weights[CODES], weights[SCALES]
    buckets = position_buckets(MAX_TOKENS)
    gates, positions = weights["residual.gates"], weights["residual.positions"]
    return [
        TokenTables(
            fixed(codes), fixed(scales), fixed(gates[side]), fixed(positions[side][buckets])
        )
        for side in Side
    ]


class GatedMeanKernel:
    """The forward pass of one model without a star."""

    def __init__(self, weights: Weights, threads: int = 1) -> None:
        if threads < 1:
            raise InputError(f"threads: {threads} is not a whole number from 1")
        self.threads, self._dim = threads, weights.config.dim
        self.tables = token_tables(weights)

    def forward(self, ids: I32, offsets: I64, side: Side) -> F32:
        """y of every text, not normalised [n, d]; text i is ids[offsets[i]:offsets[i + 1]]."""
        ids, offsets = checked_texts(ids, offsets, len(self.tables[side].codes))
        out = np.empty((len(offsets) - 1, self._dim), np.float32)
        write_means(ids, offsets, self.tables[side], out)
        return out


def checked_texts(ids: I32, offsets: I64, vocabulary: int) -> tuple[I32, I64]:
    """The texts for compiled code, which checks no index."""
    ids, offsets = fixed(np.asarray(ids, np.int32)), fixed(np.asarray(offsets, np.int64))
    refuse_outside(ids, offsets, vocabulary)
    longest = np.diff(offsets).max(initial=0)
    if longest > MAX_TOKENS:
        raise InputError(f"a text of {longest} tokens; cut it to {MAX_TOKENS}")
    return ids, offsets


@jit()
def write_means(ids: I32, offsets: I64, tables: TokenTables, out: F32) -> None:
    """out[i] = the weighted mean of text i; 0 without tokens."""
    for text in range(len(out)):
        y, first = out[text], offsets[text]
        y[:] = float32(0)
        total = float32(0)
        for at in range(first, offsets[text + 1]):
            token = ids[at]
            weight = tables.gates[token] * tables.positions[at - first]
            total += weight
            factor, codes = weight * tables.scales[token], tables.codes[token]
            for k in range(len(y)):
                y[k] += factor * float32(codes[k])
        if total > 0:
            for k in range(len(y)):
                y[k] /= total
