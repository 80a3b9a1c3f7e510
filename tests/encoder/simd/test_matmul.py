"""The matrix product, and the folding of a vocabulary, against numpy."""

from typing import Any

import numpy as np
import pytest

from encoder.backends.kernel.arrays import aligned
from encoder.backends.kernel.fold import projection
from encoder.backends.kernel.quantise import BLOCK, levels, parted, quantised
from encoder.backends.kernel.row_layout import Shape
from encoder.model.config import AstConfig
from encoder.model.weights import random_weights
from encoder.simd.matmul import Strided, multiply, panels, starts
from encoder.simd.tile import Tile
from encoder.support.jit import jit

RNG = np.random.default_rng(3)


@jit(fast=True)
def product(tile: Any, rows: int, a: Any, depth: int, b: Any, width: int, out: Any) -> None:
    multiply(tile, rows, Strided(a, 3, depth + 5), depth, b, width, Strided(out, 2, width + 7))


@pytest.mark.parametrize(("vectors", "width"), [(4, 304), (4, 64), (3, 48), (2, 32), (1, 16)])
@pytest.mark.parametrize("rows", [1, 12, 24])
def test_multiply_is_the_matrix_product(vectors: int, width: int, rows: int) -> None:
    tile, depth = Tile(vectors), 37
    whole = 24 + tile.rows
    a = RNG.standard_normal((whole, depth + 5)).astype(np.float32)
    b = RNG.standard_normal((depth, width)).astype(np.float32)
    out = np.zeros((whole, width + 7), np.float32)
    product(tile, rows, a.ravel(), depth, panels(b, tile).ravel(), width, out.reshape(-1))
    left = a.ravel()[3:].copy()
    got = out.ravel()[2:]
    for i in range(rows):
        expected = left[i * (depth + 5) :][:depth].astype(np.float64) @ b
        row = got[i * (width + 7) :][:width]
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-4)


def test_a_rows_bits_do_not_depend_on_the_number_of_rows() -> None:
    tile, a = Tile(4), RNG.standard_normal(24 * 42 + 3).astype(np.float32)
    b = panels(RNG.standard_normal((37, 80)).astype(np.float32), tile).ravel()
    many, one = np.zeros((2, 24 * 87 + 2), np.float32)
    product(tile, 24, a, 37, b, 80, many)
    product(tile, 1, a, 37, b, 80, one)
    assert (many[2:82] == one[2:82]).all()


def test_panels_cover_every_column() -> None:
    assert starts(304, Tile(4)) == [0, 64, 128, 192, 240]
    assert starts(64, Tile(4)) == [0]


@pytest.mark.parametrize(("heads", "head_dim", "dim"), [(10, 30, 300), (3, 5, 21)])
def test_a_table_row_is_the_projected_embedding_to_half_a_step(
    heads: int, head_dim: int, dim: int
) -> None:
    config = AstConfig(dim=dim, heads=heads, head_dim=head_dim)
    weights = random_weights(config, 2 * BLOCK + 17)
    shape = Shape.of(config)
    fold = projection(shape, weights)
    table, scales = parted(shape, quantised(shape, weights, 2))
    matrix = fold.matrix.astype(np.float64)
    exact = weights.embedding.astype(np.float64) @ matrix + fold.bias
    error = np.abs(table.reshape(len(exact), -1) - exact * scales)
    assert error.max() < 0.52 + 0.5  # a second rounding, on a scale up to as coarse as the first
    assert np.median(error[:, fold.matrix.any(0)]) < 0.3
    peaks = np.abs(table.reshape(len(exact), -1)).max(0)
    keys, values = levels(shape)
    assert abs(int(peaks[: shape.key_at].max()) - keys) <= 1
    assert abs(int(peaks[shape.value_at : shape.embedding_at].max()) - values) <= 1


@pytest.mark.parametrize("heads", [1, 10, 17, 64])
@pytest.mark.parametrize("head_dim", [1, 30, 64])
def test_no_sum_of_products_can_leave_int32(heads: int, head_dim: int) -> None:
    shape = Shape(heads, head_dim, 3, 300)
    keys, values = levels(shape)
    assert head_dim * keys * keys < 2**31
    assert shape.slots * (16384 + shape.entries / 2) * values < 2**31
    assert max(keys, values) <= 2**31


def test_tables_begin_at_a_cache_line() -> None:
    assert aligned(100).ctypes.data % 64 == 0
    assert Shape(10, 30, 2, 300).row % 32 == 0
