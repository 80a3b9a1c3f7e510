"""Products of rounded matrices against numpy in float64, with each kind of factors."""

import numpy as np
import pytest

from encoder.model.weights import F32
from worker.match.simd.registers import Tile
from worker.match.simd.rounded import BYTES, HALVES, TILE, RoundedMatrix, add_products

KINDS = pytest.mark.parametrize("tile", [HALVES, TILE] if TILE != HALVES else [HALVES])


def product(matrix: RoundedMatrix, rows: F32) -> F32:
    rounded = matrix.rounded(rows)
    out = np.zeros((len(rounded.groups), matrix.room), np.float32)
    add_products(
        *(matrix.tile, rounded.groups, rounded.scales),
        *(matrix.panels, matrix.scale, matrix.excess, 0, out),
    )
    return out[: len(rows)]


@KINDS
@pytest.mark.parametrize(("rows", "depth", "width"), [(1, 1, 1), (3, 7, 33), (25, 40, 5000)])
def test_a_product_is_numpys_and_its_rows_do_not_know_each_other(
    rows: int, depth: int, width: int, tile: Tile
) -> None:
    rng = np.random.default_rng(depth)
    a = rng.standard_normal((rows, depth)).astype(np.float32)
    a[rows // 2, depth // 2 :] = 0
    b = (rng.standard_normal((depth, width)) * rng.uniform(0.01, 3, width)).astype(np.float32)
    b[:, width // 2] = 0
    matrix = RoundedMatrix.of(b, tile)
    result, errors = product(matrix, a), matrix.rounded(a).errors
    exact = a.astype(np.float64) @ b.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=0).max()
    assert (np.abs(result[:, :width] - exact).max(axis=1) <= errors + 1e-6 * lengths).all()
    assert (errors <= (0.03 if tile == BYTES else 3e-3) * lengths).all()
    assert not result[:, width:].any()
    for i in range(rows):
        assert product(matrix, a[i : i + 1])[0].tolist() == result[i].tolist()
    assert len(product(matrix, a[:0])) == 0


@KINDS
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("depth", [1, 2, 3, 8000])
def test_the_largest_sums_do_not_overflow(depth: int, sign: int, tile: Tile) -> None:
    ones: F32 = np.ones((1, depth), np.float32)
    matrix = RoundedMatrix.of(sign * ones.T, tile)
    assert product(matrix, ones)[0, 0] == pytest.approx(sign * depth)
