"""The gated mean on a CPU: compiled code that sums weighted int8 token vectors.

Thread-safe. A text's vector is summed in token order, so it has the same bits in any batch.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import float32

from encoder.errors import InputError
from encoder.model.config import MAX_TOKENS, Side
from encoder.model.weights import CODES, F32, I8, I32, I64, SCALES, Weights, position_buckets
from encoder.readers.validate import check_tokens
from encoder.support.jit import jit
from encoder.support.pointers import pointers_to, prefetch
from encoder.support.readonly import fixed

TOKENS_AHEAD = 8  # Their vectors are loaded while one is added: the table exceeds a core's cache.
CACHE_LINE = 64  # bytes


class TokenTables(NamedTuple):
    """The tables by token and position on one side of the pair."""

    codes: I8  # [vocabulary, d], token vectors divided by their scales
    scales: F32  # [vocabulary]
    gates: F32  # [vocabulary], token weights
    positions: F32  # [MAX_TOKENS], position weights


class ReadTexts(NamedTuple):
    """Texts whose vectors are known, for the contributions of their tokens."""

    ids: I32  # [tokens]
    offsets: I64  # [n + 1]
    shares: F32  # [tokens]
    lengths: F32  # [n], of y


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
    """The forward pass of one model without a star, and the contribution of each token."""

    def __init__(self, weights: Weights, threads: int = 1) -> None:
        if threads < 1:
            raise InputError(f"threads: {threads} is not a whole number from 1")
        self.threads, self._dim = threads, weights.config.dim
        self.tables = token_tables(weights)

    def forward(self, ids: I32, offsets: I64, side: Side) -> F32:
        """y of every text, not normalised [n, d]; text i is ids[offsets[i]:offsets[i + 1]]."""
        ids, offsets = validate_tokens(ids, offsets, len(self.tables[side].codes))
        out = np.empty((len(offsets) - 1, self._dim), np.float32)
        write_means(ids, offsets, self.tables[side], out)
        return out

    def attention(self, ids: I32, side: Side) -> F32:
        """The share of each token in the mean of one text: ≥ 0 with sum 1 [n]."""
        return self.shares(ids, np.array([0, len(ids)]), side)

    def shares(self, ids: I32, offsets: I64, side: Side) -> F32:
        """The share of each token in its text's mean: ≥ 0 with sum 1 for each text."""
        tables = self.tables[side]
        ids, offsets = validate_tokens(ids, offsets, len(tables.codes))
        shares = np.empty(len(ids), np.float32)
        write_shares(ids, offsets, tables, shares)
        return shares

    def parts(self, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32) -> F32:
        """Each token's part of the cosine of a text's y with a unit row, pair after pair."""
        tables = self.tables[side]
        shares = self.shares(ids, offsets, side)
        y = self.forward(ids, offsets, side)
        lengths = np.maximum(np.sqrt(np.einsum("nd,nd->n", y, y)), np.finfo(np.float32).tiny)
        out = np.zeros(int(np.diff(offsets)[pairs[:, 0]].sum()), np.float32)
        ids, offsets = validate_tokens(ids, offsets, len(tables.codes))
        texts = ReadTexts(ids, offsets, fixed(shares), fixed(lengths))
        write_contributions(texts, tables, fixed(pairs), fixed(rows), out)
        return out


def validate_tokens(ids: I32, offsets: I64, vocabulary: int) -> tuple[I32, I64]:
    """Validate texts for compiled code, which does not check indices."""
    ids, offsets = fixed(np.asarray(ids, np.int32)), fixed(np.asarray(offsets, np.int64))
    check_tokens(ids, offsets, vocabulary)
    longest = np.diff(offsets).max(initial=0)
    if longest > MAX_TOKENS:
        raise InputError(f"a text of {longest} tokens; cut it to {MAX_TOKENS}")
    return ids, offsets


@jit()
def write_means(ids: I32, offsets: I64, tables: TokenTables, out: F32) -> None:
    """out[i] = the weighted mean of text i; 0 without tokens."""
    table, dim = pointers_to(tables.codes), out.shape[1]
    for text in range(len(out)):
        y, first = out[text], offsets[text]
        y[:] = float32(0)
        total = float32(0)
        for at in range(first, offsets[text + 1]):
            if at + TOKENS_AHEAD < len(ids):
                for k in range(0, dim, CACHE_LINE):
                    prefetch(table, ids[at + TOKENS_AHEAD] * np.int64(dim) + k)
            token = ids[at]
            weight = tables.gates[token] * tables.positions[at - first]
            total += weight
            factor, codes = weight * tables.scales[token], tables.codes[token]
            for k in range(len(y)):
                y[k] += factor * float32(codes[k])
        if total > 0:
            for k in range(len(y)):
                y[k] /= total


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
def write_contributions(texts: Any, tables: TokenTables, pairs: I64, rows: F32, out: F32) -> None:
    """Each token's part of the cosine of y with a row: share · vector · row / |y|."""
    end = 0
    for pair in range(len(pairs)):
        text, row = pairs[pair, 0], rows[pairs[pair, 1]]
        for at in range(texts.offsets[text], texts.offsets[text + 1]):
            token, product = texts.ids[at], float32(0)
            codes = tables.codes[token]
            for k in range(len(row)):
                product += float32(codes[k]) * row[k]
            scale = tables.scales[token] * texts.shares[at] / texts.lengths[text]
            out[end] = product * scale
            end += 1
