"""Products with a fixed matrix: numpy's, and the same bits in any company."""

import numpy as np
import pytest

from encoder.model.weights import F32
from encoder.simd.matmul import Matrix


def product(matrix: Matrix, rows: F32) -> F32:
    asked = matrix.padded(len(rows))
    asked[: len(rows)] = rows
    return matrix.times(asked)[: len(rows)]


@pytest.mark.parametrize(("rows", "depth", "width"), [(1, 1, 1), (3, 7, 33), (25, 40, 64)])
def test_a_product_is_numpys_and_its_rows_do_not_know_each_other(
    rows: int, depth: int, width: int
) -> None:
    rng = np.random.default_rng(depth)
    a: F32 = rng.standard_normal((rows, depth)).astype(np.float32)
    b: F32 = rng.standard_normal((width, depth)).astype(np.float32)
    matrix = Matrix.of(b.T)
    found = product(matrix, a)[:, :width]
    assert found.shape == (rows, width)
    np.testing.assert_allclose(found, a @ b.T, atol=1e-4)
    for i in range(rows):
        assert product(matrix, a[i : i + 1])[0, :width].tolist() == found[i].tolist()
    assert len(product(matrix, a[:0])) == 0
