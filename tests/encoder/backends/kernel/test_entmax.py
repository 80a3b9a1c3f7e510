"""Logarithm, power and α-entmax on lanes against float64."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from encoder.backends.kernel.entmax import ABSENT, exp2, log2, ring_entmax, star_entmax
from encoder.simd.loads import load, load_rows, store
from encoder.simd.tile import LANES
from encoder.support.jit import jit
from tests.encoder.reference import bisect_entmax

F64 = NDArray[np.float64]


@jit(fast=True)
def log2_of(x: Any, out: Any) -> None:
    for i in range(0, len(x), 16):
        store(out, i, log2(load(1, x, i)))


@jit(fast=True)
def exp2_of(x: Any, out: Any) -> None:
    for i in range(0, len(x), 16):
        store(out, i, exp2(load(1, x, i)))


def test_log2_is_right_to_a_rounding_near_one_and_far_from_it() -> None:
    spread = np.geomspace(1e-37, 1e37, 4096)
    near = 1 + np.concatenate([-np.geomspace(1e-7, 0.2, 2048), np.geomspace(1e-7, 0.4, 2048)])
    x = np.concatenate([spread, near]).astype(np.float32)
    out = np.zeros_like(x)
    log2_of(x, out)
    expected = np.log2(x.astype(np.float64))
    # Relative near 1, as the power 1/(α−1) of up to 4,096 multiplies the error.
    assert (np.abs(out - expected) <= 5e-7 * np.abs(expected) + 1e-30).all()


def test_exp2_is_right_to_a_rounding_and_ends_at_nearly_nothing() -> None:
    x = np.linspace(-125.5, 0, 8192).astype(np.float32)
    out = np.zeros_like(x)
    exp2_of(x, out)
    np.testing.assert_allclose(out, np.exp2(x.astype(np.float64)), rtol=5e-7)
    far = np.full(16, -1e30, np.float32)
    exp2_of(far, far)
    assert (far < 1e-37).all()


@jit(fast=True)
def solve_ring(z: Any, scale: Any, out: Any) -> None:
    store(out, 0, ring_entmax(2, load_rows(6, z, 0, 16), load(1, scale, 0)))


def doubled(z: F64, own: int, alpha: float) -> F64:
    """Entmax of a row in which one entry stands twice, its two shares added."""
    p = bisect_entmax(np.append(z, z[own]), alpha)
    p[own] += p[-1]
    return p[:-1]


ALPHAS = st.lists(st.floats(1.0005, 2.0), min_size=16, max_size=16)
LOGITS = st.lists(st.floats(-30, 30), min_size=96, max_size=96)


@settings(max_examples=60, deadline=None)
@given(ALPHAS, LOGITS)
def test_the_rings_entmax_equals_bisection(alphas: list[float], logits: list[float]) -> None:
    z = np.array(logits, np.float32).reshape(6, 16)
    out = np.zeros((6, 16), np.float32)
    solve_ring(z.ravel(), np.array(alphas, np.float32) - 1, out.reshape(-1))
    for lane in range(16):
        alpha = 1 + float(np.float32(alphas[lane]) - 1)
        expected = doubled(z[:, lane].astype(np.float64), 2, alpha)
        # The weights are rounded to 1/16384 afterwards; near α = 1 rounding of u costs 6e-8/(α−1).
        assert np.abs(out[:, lane] - expected).max() < 3e-5 + 1.2e-7 / (alpha - 1)


def test_absent_entries_of_a_ring_get_nothing() -> None:
    z = np.random.default_rng(0).standard_normal((6, 16)).astype(np.float32)
    z[0], z[4] = ABSENT, ABSENT
    out = np.zeros((6, 16), np.float32)
    solve_ring(z.ravel(), np.linspace(2.0**-12, 1, 16).astype(np.float32), out.reshape(-1))
    assert not out[0].any()
    assert not out[4].any()
    np.testing.assert_allclose(out.sum(0), 1, atol=1e-6)


@jit(fast=True)
def solve_star(z: Any, p: Any, slopes: Any, at: int, count: int, scale: Any) -> None:
    star_entmax(z, p, slopes, at, count, load(1, scale, 0))


@pytest.mark.parametrize("count", [1, 2, 21, 2049])
@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 40.0])
def test_the_stars_entmax_equals_bisection(count: int, spread: float) -> None:
    z = (np.random.default_rng(count).standard_normal((count, LANES)) * spread).astype(np.float32)
    alphas = np.array([1.001, 1.01, *np.linspace(1.1, 2, 14)], np.float32)
    held = np.concatenate([np.zeros(32, np.float32), z.ravel()])
    scratch = np.zeros((2, count * LANES), np.float32)
    solve_star(held, scratch[0], scratch[1], 32, count, alphas - np.float32(1))
    for lane, alpha in enumerate(alphas):
        scale = float(np.float32(alpha) - np.float32(1))
        expected = bisect_entmax(z[:, lane].astype(np.float64), 1 + scale)
        got = held[32:].reshape(count, LANES)[:, lane]
        assert np.abs(got - expected).max() < 3e-5 + 1.2e-7 / scale
        assert abs(float(got.sum(dtype=np.float64)) - 1) < 1e-5
