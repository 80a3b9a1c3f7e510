"""Products of rounded matrices against numpy in float64."""

import numpy as np
import pytest

from encoder.model.weights import F32
from worker.match.simd.rounded import LONGEST, TILE, RoundedMatrix, add_products, write_levels


def product(matrix: RoundedMatrix, rows: F32) -> F32:
    levels = matrix.padded(len(rows))
    write_levels(rows, levels)
    out = np.zeros((len(levels), matrix.room), np.float32)
    add_products(TILE, levels, matrix.panels, matrix.scale, 0, out)
    return out[: len(rows)]


def of_length(rows: F32, lengths: float | F32) -> F32:
    scaled: F32 = (rows / np.linalg.norm(rows, axis=1, keepdims=True) * lengths).astype(np.float32)
    return scaled


@pytest.mark.parametrize(("rows", "depth", "width"), [(1, 1, 1), (3, 7, 33), (25, 40, 64)])
def test_a_product_is_numpys_and_its_rows_do_not_know_each_other(
    rows: int, depth: int, width: int
) -> None:
    rng = np.random.default_rng(depth)
    a = of_length(rng.standard_normal((rows, depth)).astype(np.float32), LONGEST).clip(-1, 1)
    sizes = rng.uniform(0.01, 3, (width, 1)).astype(np.float32)
    b = of_length(rng.standard_normal((width, depth)).astype(np.float32), sizes)
    matrix = RoundedMatrix.of(b.T)
    result = product(matrix, a)
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    assert np.abs(result[:, :width] - exact).max() <= matrix.error < 2e-3
    assert not result[:, width:].any()
    for i in range(rows):
        assert product(matrix, a[i : i + 1])[0].tolist() == result[i].tolist()
    assert len(product(matrix, a[:0])) == 0


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("depth", [1, 2, 3, 8000])
def test_the_largest_sums_do_not_overflow(depth: int, sign: int) -> None:
    ones: F32 = np.ones((1, depth), np.float32)
    matrix = RoundedMatrix.of(sign * ones.T)
    row = of_length(ones, min(LONGEST, depth**0.5)).clip(-1, 1)
    assert product(matrix, row)[0, 0] == pytest.approx(sign * row.sum(), abs=matrix.error)
