"""Register vectors against numpy, one operation at a time."""

from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError

from encoder.model.weights import F32
from encoder.support.jit import jit
from encoder.support.pointers import bare
from worker.match.simd.registers import filled, highest_lane, largest, load, maximum
from worker.match.simd.rounded import LONGEST, TILE, RoundedMatrix, add_products, write_levels

RNG = np.random.default_rng(1)


def floats(size: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return RNG.standard_normal(size).astype(np.float32)


@jit(fast=True)
def highest_difference(x: Any, y: Any) -> float:
    return highest_lane(largest(load(3, x, 1) - load(3, y, 1)))  # type: ignore[no-any-return]


@jit(fast=True)
def highest_of_both(x: Any, y: Any, least: float) -> float:
    both = maximum(load(1, x, 1), load(1, y, 1))
    return highest_lane(maximum(filled(1, np.float32(least)), both))  # type: ignore[no-any-return]


def test_differences_and_maxima_are_numpys_and_need_no_alignment() -> None:
    x, y = floats(49), floats(49)
    assert highest_difference(x, y) == (x - y)[1:].max()
    assert highest_of_both(x, y, -9) == np.maximum(x, y)[1:17].max()
    assert highest_of_both(x, y, 9) == 9


@jit(fast=True)
def through_pointers(held: Any) -> float:
    x, (y, number) = bare(held[0]), bare(held[1])
    later = x + 2
    later[1] = y[3] + number
    return x[3] + later[0]  # type: ignore[no-any-return]


def test_bare_pointers_read_write_and_shift() -> None:
    x, y = np.arange(5, dtype=np.float32), np.arange(5, dtype=np.int32)
    assert through_pointers((x, (y, 10))) == 13 + 2
    assert x.tolist() == [0, 1, 2, 13, 4]


@jit(fast=True)
def unknown_count(n: int) -> float:
    return highest_lane(filled(n, np.float32(0)))  # type: ignore[no-any-return]


def test_a_count_that_is_no_constant_is_refused_when_compiling() -> None:
    with pytest.raises(TypingError, match="must be a constant"):
        unknown_count(3)


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
    found = product(matrix, a)
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    assert np.abs(found[:, :width] - exact).max() <= matrix.error < 2e-3
    assert not found[:, width:].any()
    for i in range(rows):
        assert product(matrix, a[i : i + 1])[0].tolist() == found[i].tolist()
    assert len(product(matrix, a[:0])) == 0


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("depth", [1, 2, 3, 8000])
def test_the_largest_sums_do_not_overflow(depth: int, sign: int) -> None:
    ones: F32 = np.ones((1, depth), np.float32)
    matrix = RoundedMatrix.of(sign * ones.T)
    row = of_length(ones, min(LONGEST, depth**0.5)).clip(-1, 1)
    assert product(matrix, row)[0, 0] == pytest.approx(sign * row.sum(), abs=matrix.error)


def test_what_is_added_to_stays() -> None:
    matrix = RoundedMatrix.of(np.eye(4, dtype=np.float32))
    levels = matrix.padded(1)
    write_levels(np.array([[0, 1, 0, -1]], np.float32), levels)
    out = np.full((len(levels), matrix.room), 2, np.float32)
    add_products(TILE, levels, matrix.panels, matrix.scale, 0, out)
    assert out[0, :5].tolist() == [2, 3, 2, 1, 2]
    assert not product(
        RoundedMatrix.of(np.zeros((3, 2), np.float32)), np.eye(3, dtype=np.float32)
    ).any()
