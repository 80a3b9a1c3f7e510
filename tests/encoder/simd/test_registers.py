"""Register vectors against numpy, one operation at a time."""

from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError

from encoder.simd.across import double_own, highest_lane, largest, row_dots, sum_registers
from encoder.simd.lanewise import (
    as_bits,
    from_bits,
    maximum,
    nearest,
    to_float,
    to_int,
    where_positive,
)
from encoder.simd.loads import (
    filled,
    load,
    load_halves,
    load_rows,
    prefetch,
    store,
    store_halves,
)
from encoder.simd.pointers import bare
from encoder.support.jit import jit

RNG = np.random.default_rng(1)


def floats(size: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return RNG.standard_normal(size).astype(np.float32)


@jit(fast=True)
def arithmetic(x: Any, y: Any, out: Any) -> None:
    a, b = load(2, x, 0), load(2, y, 0)
    store(out, 0, a + b)
    store(out, 32, a - b)
    store(out, 64, a * b)
    store(out, 96, a / b)
    store(out, 128, maximum(a, b))
    store(out, 160, where_positive(a, b))
    store(out, 192, a * 2.5 + 1)
    store(out, 224, a + load(1, y, 0))
    store(out, 256, 1 - a)


def test_float_operators_do_what_numpy_does() -> None:
    x, y, out = floats(32), floats(32), np.zeros(288, np.float32)
    arithmetic(x, y, out)
    one = np.tile(y[:16], 2)
    expected = [x + y, x - y, x * y, x / y, np.maximum(x, y), np.where(x > 0, y, 0)]
    expected += [x * 2.5 + 1, x + one, 1 - x]
    np.testing.assert_allclose(out.reshape(9, 32), expected, rtol=3e-7, atol=1e-7)


@jit(fast=True)
def integers(x: Any, out: Any, back: Any) -> None:
    a = load(1, x, 0)
    bits = as_bits(a)
    store(out, 0, bits)
    store(out, 16, (bits >> 3) & 255)
    store(out, 32, (bits << 1) + 7)
    store(out, 48, to_int(a * 100))
    store(out, 64, nearest(a * 100))
    store(back, 0, from_bits(bits))
    store(back, 16, to_float(to_int(a * 100)))


def test_integer_operators_and_conversions() -> None:
    x, out, back = floats(16), np.zeros(80, np.int32), np.zeros(32, np.float32)
    integers(x, out, back)
    bits, cut = x.view(np.int32), np.trunc(x * np.float32(100)).astype(np.int32)
    assert (out[:16] == bits).all()
    assert (out[16:32] == (bits >> 3 & 255)).all()
    assert (out[32:48] == (bits << 1) + 7).all()
    assert (out[48:64] == cut).all()
    assert (out[64:80] == np.floor(x * np.float32(100) + 0.5)).all()
    assert (back[:16] == x).all()
    assert (back[16:] == cut).all()


@jit(fast=True)
def moves(x: Any, half: Any, out: Any, halves: Any, words: Any) -> None:
    prefetch(x, 0)
    store(out, 3, load_rows(2, x, 1, 20))
    store(out, 40, filled(1, np.float32(7)))
    store(words, 0, load_halves(2, half, 5))
    store_halves(halves, 1, 20, load_halves(2, half, 5))


def test_loads_and_stores_need_no_alignment() -> None:
    x, half = floats(64), RNG.integers(-32768, 32768, 64).astype(np.int16)
    out, halves, words = np.zeros(64, np.float32), np.zeros(64, np.int16), np.zeros(32, np.int32)
    moves(x, half, out, halves, words)
    assert (out[3:35] == np.concatenate([x[1:17], x[21:37]])).all()
    assert (out[40:56] == 7).all()
    assert (words == half[5:37]).all()
    assert (halves[1:17] == half[5:21]).all()
    assert (halves[21:37] == half[21:37]).all()
    assert not halves[17:21].any()


@jit(fast=True)
def reductions(x: Any, out: Any) -> float:
    a = load(3, x, 0)
    store(out, 0, largest(a))
    store(out, 16, sum_registers(a))
    store(out, 32, sum_registers(double_own(1, a)))
    return highest_lane(largest(a))  # type: ignore[no-any-return]


def test_reductions_across_registers_and_lanes() -> None:
    x, out = floats(48), np.zeros(48, np.float32)
    assert reductions(x, out) == x.max()
    rows = x.reshape(3, 16)
    expected = [rows.max(0), rows.sum(0), rows.sum(0) + rows[1]]
    np.testing.assert_allclose(out.reshape(3, 16), expected, rtol=1e-5, atol=1e-6)


@jit(fast=True)
def dots_of_ten(x: Any, rows: Any, out: Any) -> None:
    store(out, 0, row_dots(10, load(3, x, 0), rows, 2, 50))


@jit(fast=True)
def dots_of_sixteen(x: Any, rows: Any, out: Any) -> None:
    store(out, 0, row_dots(16, load(1, x, 0), rows, 2, 50))


@pytest.mark.parametrize(
    ("run", "count", "width"), [(dots_of_ten, 10, 48), (dots_of_sixteen, 16, 16)]
)
def test_row_dots_puts_each_product_into_its_lane(run: Any, count: int, width: int) -> None:
    x, rows, out = floats(width), floats(16 * 50 + 2), np.ones(16, np.float32)
    run(x, rows, out)
    expected = [x @ rows[2 + 50 * i : 2 + 50 * i + width] for i in range(count)]
    np.testing.assert_allclose(out[:count], expected, rtol=1e-4, atol=1e-5)
    assert not out[count:].any()


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
def unknown_count(n: int, x: Any) -> None:
    store(x, 0, filled(n, np.float32(0)))


def test_a_count_that_is_no_constant_is_refused_when_compiling() -> None:
    with pytest.raises(TypingError, match="must be a constant"):
        unknown_count(3, floats(64))
