"""Register vectors against numpy, one operation at a time."""

from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError

from encoder.simd.across import highest_lane, largest
from encoder.simd.lanewise import maximum
from encoder.simd.loads import filled, load
from encoder.simd.pointers import bare
from encoder.support.jit import jit

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
