"""Explanations of a gated mean, in closed form: vector and score are sums over tokens."""

import numpy as np
from numpy import float32

from encoder.backends.gated_mean import GatedMeanKernel, TokenTables, checked_texts
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64
from encoder.support.jit import jit
from encoder.support.readonly import fixed, frozen


@jit()
def write_shares(ids: I32, offsets: I64, tables: TokenTables, out: F32) -> None:
    """out[i] = the share of token i in its text's mean."""
    for text in range(len(offsets) - 1):
        first, last = offsets[text], offsets[text + 1]
        total = float32(0)
        for at in range(first, last):
            out[at] = tables.gates[ids[at]] * tables.positions[at - first]
            total += out[at]
        for at in range(first, last):
            out[at] /= total


@jit()
def write_contributions(
    ids: I32, offsets: I64, tables: TokenTables, shares: F32, lengths: F32,
    pairs: I64, rows: F32, ends: I64, out: F32,
) -> None:  # fmt: skip
    """Each token's part of the cosine of y with a row: share · vector · row / |y|."""
    for pair in range(len(pairs)):
        text, row = pairs[pair, 0], rows[pairs[pair, 1]]
        first = offsets[text]
        for at in range(first, offsets[text + 1]):
            token, product = ids[at], float32(0)
            codes = tables.codes[token]
            for k in range(len(row)):
                product += float32(codes[k]) * row[k]
            scale = tables.scales[token] * shares[at] / lengths[text]
            out[ends[pair] + at - first] = product * scale


class GatedMeanReader:
    """The contributions of tokens to a mean and to a score, in closed form."""

    def __init__(self, kernel: GatedMeanKernel) -> None:
        self._kernel = kernel

    def attention(self, ids: I32, side: Side) -> F32:
        """The share of each token in the mean of one text: ≥ 0 with sum 1 [n]."""
        return self.shares(ids, np.array([0, len(ids)]), side)

    def shares(self, ids: I32, offsets: I64, side: Side) -> F32:
        """The share of each token in its text's mean: ≥ 0 with sum 1 for each text."""
        tables = self._kernel.tables[side]
        ids, offsets = checked_texts(ids, offsets, len(tables.codes))
        shares = np.empty(len(ids), np.float32)
        write_shares(ids, offsets, tables, shares)
        return shares

    def parts(self, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32) -> F32:
        """Each token's part of the cosine of a text's y with a unit row, pair after pair."""
        tables = self._kernel.tables[side]
        shares = frozen(self.shares(ids, offsets, side))
        y = self._kernel.forward(ids, offsets, side)
        lengths = np.maximum(np.sqrt(np.einsum("nd,nd->n", y, y)), np.finfo(np.float32).tiny)
        ends = np.append(0, np.cumsum(np.diff(offsets)[pairs[:, 0]]))
        out = np.zeros(int(ends[-1]), np.float32)
        ids, offsets = checked_texts(ids, offsets, len(tables.codes))
        write_contributions(
            ids,
            offsets,
            tables,
            shares,
            fixed(lengths),
            fixed(pairs),
            fixed(rows),
            fixed(ends),
            out,
        )
        return out
