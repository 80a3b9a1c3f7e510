"""Sums of int16 products against numpy's in int64."""

from typing import Any

import numpy as np
import pytest

from encoder.backends.kernel.fold import head_columns
from encoder.backends.kernel.row_layout import Shape
from encoder.simd.int16_pairs import add_scaled, head_logits, join_pairs
from encoder.simd.loads import address, filled, load, store
from encoder.support.jit import jit

RNG = np.random.default_rng(2)


@jit(fast=True)
def scaled(table: Any, weight: Any, out: Any) -> None:
    total = add_scaled(filled(2, np.int32(5)), address(table, 3), weight[0])
    store(out, 0, total)


def test_add_scaled_multiplies_each_pair_by_the_pair_of_weights() -> None:
    table = RNG.integers(-8000, 8000, 80).astype(np.int16)
    pair, out = np.array([-3, 16384], np.int16), np.zeros(32, np.int32)
    scaled(table, pair.view(np.int32), out)
    assert (out == 5 + (table[3:67].reshape(32, 2).astype(np.int64) * pair).sum(1)).all()


@jit(fast=True)
def joined(low: Any, high: Any, out: Any) -> None:
    store(out, 0, join_pairs(load(2, low, 0), load(2, high, 0)))


def test_join_pairs_interleaves_low_and_high_halves() -> None:
    low, high = RNG.integers(-32768, 32768, (2, 32)).astype(np.int32)
    out = np.zeros(64, np.int16)
    joined(low, high, out)
    assert (out.reshape(32, 2) == np.stack([low, high], 1)).all()


@jit(fast=True)
def logits(shape: Any, queries: Any, keys: Any, out: Any) -> None:
    for bank in range(shape.banks):
        at = bank * shape.bank_size
        q = load(shape.bank_vectors, queries, at)
        store(out, bank * shape.bank_heads, head_logits(shape, q, keys, at))


@pytest.mark.parametrize(
    ("heads", "head_dim"), [(10, 30), (6, 50), (1, 7), (5, 64), (16, 2), (17, 3), (64, 64)]
)
def test_head_logits_are_the_products_of_each_heads_query_and_key(
    heads: int, head_dim: int
) -> None:
    shape = Shape(heads, head_dim, 2, 32)
    q, k = RNG.integers(-5000, 5000, (2, heads, head_dim))
    columns = head_columns(shape)
    laid = [np.append(x.ravel(), 0)[columns].astype(np.int16) for x in (q, k)]
    out = np.zeros(shape.slots + 16, np.int32)
    logits(shape, laid[0], laid[1], out)
    assert (out[:heads] == (q * k).sum(1)).all()
    assert len(columns) == shape.key_at
    assert sorted(columns[columns >= 0]) == list(range(heads * head_dim))
