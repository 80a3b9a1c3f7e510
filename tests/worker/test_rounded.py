import numpy as np
import pytest

from encoder.model.weights import F32
from worker.simd.registers import Tile
from worker.simd.rounded import INT16_TILE, TILES, RoundedMatrix

KINDS = pytest.mark.parametrize("tile", TILES)


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
    result, errors = matrix.product(a)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=0).max()
    assert (np.abs(result[:, :width] - exact).max(axis=1) <= errors + 1e-6 * lengths).all()
    assert (errors <= (3e-3 if tile == INT16_TILE else 0.03) * lengths).all()
    assert not result[:, width:].any()
    for i in range(rows):
        assert matrix.product(a[i : i + 1])[0][0].tolist() == result[i].tolist()
    assert len(matrix.product(a[:0])[0]) == 0


@KINDS
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("depth", [1, 2, 3, 8000])
def test_the_largest_sums_do_not_overflow(depth: int, sign: int, tile: Tile) -> None:
    ones: F32 = np.ones((1, depth), np.float32)
    matrix = RoundedMatrix.of(sign * ones.T, tile)
    assert matrix.product(ones)[0][0, 0] == pytest.approx(sign * depth)
