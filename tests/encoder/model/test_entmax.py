import math

import numpy as np
import pytest
import torch
from entmax import entmax_bisect, sparsemax
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.errors import InputError
from encoder.model import entmax as solver
from encoder.model.entmax import entmax, entmax_ragged
from tests.encoder.slow_star import F64, bisect_entmax

ALPHAS = (1.0, 1.0001, 1.001, 1.01, 1.1, 1.3, 1.5, 1.75, 1.9, 1.99, 2.0)


def draws(length: int, rows: int) -> list[F64]:
    """Rows of several kinds: spread out, flat, nearly at the edge of the support."""
    rng = np.random.default_rng(0)
    edge = -9.5 * rng.uniform(0.8, 1.02, (rows, length))
    edge[:, 0] = 0
    plain = [rng.standard_normal((rows, length)) * scale for scale in (0.01, 1, 5)]
    return [x.astype(np.float32).astype(np.float64) for x in (*plain, edge, edge / 9.5)]


@pytest.mark.parametrize("length", [1, 2, 6, 40, 700])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_float32_is_within_2e_7_of_float64_bisection(length: int, alpha: float) -> None:
    alpha = float(np.float32(alpha))
    for z in draws(length, 8):
        expected = np.stack([bisect_entmax(row, alpha) for row in z])
        got = entmax(torch.tensor(z, dtype=torch.float32), alpha).numpy()
        assert np.abs(got - expected).max() <= 2e-7
        double = entmax(torch.tensor(z), alpha).numpy()
        assert np.abs(double - expected).max() <= 1e-11


@pytest.mark.parametrize("length", [1, 6, 40, 700])
def test_a_device_that_cannot_look_takes_enough_steps(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    z = torch.tensor(np.concatenate(draws(length, 50)), dtype=torch.float32)
    for alpha in ALPHAS:
        monkeypatch.undo()
        expected = entmax(z, alpha)
        monkeypatch.setattr(solver, "iterations", lambda z: solver.sufficient_steps(len(z)))
        assert (entmax(z, alpha) - expected).abs().max() <= 2e-7


def test_agrees_with_the_entmax_package_and_its_sparsemax() -> None:
    z = torch.randn(200, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for alpha in (1.2, 1.5, 1.8):
        expected = entmax_bisect(z, alpha=alpha, n_iter=100)
        assert (entmax(z, alpha) - expected).abs().max() <= 1e-12
    assert (entmax(z, 2.0) - sparsemax(z)).abs().max() <= 1e-12
    assert (entmax(z, 1.0) - torch.softmax(z, -1)).abs().max() <= 1e-12


def test_every_head_has_its_own_alpha_along_any_dimension() -> None:
    z = torch.randn(4, 3, 6, generator=torch.Generator().manual_seed(0))
    alpha = torch.tensor([1.05, 1.5, 2.0])
    expected = torch.stack([entmax(z[:, h], float(alpha[h])) for h in range(3)], 1)
    assert torch.allclose(entmax(z, alpha), expected, atol=1e-7)
    assert torch.allclose(entmax(z.movedim(-1, 1), alpha, 1).movedim(1, -1), expected, atol=1e-7)


def numeric(z: F64, alpha: float, weigh: F64) -> tuple[F64, float]:
    """Central differences of weigh·entmax(z) by bisection; one-sided in α at its two ends."""

    def value(x: F64, a: float) -> float:
        return float(weigh @ bisect_entmax(x, a))

    h = 1e-5
    by_z = [
        (value(z + h * unit, alpha) - value(z - h * unit, alpha)) / (2 * h)
        for unit in np.eye(len(z))
    ]
    low, high = max(alpha - 1e-4, 1.0), min(alpha + 1e-4, 2.0)
    if low == 1.0:  # second order from one side
        steps = [value(z, 1 + k * 1e-4) for k in range(3)]
        return np.array(by_z), (-3 * steps[0] + 4 * steps[1] - steps[2]) / 2e-4
    return np.array(by_z), (value(z, high) - value(z, low)) / (high - low)


@pytest.mark.parametrize("alpha", [1.0, 1.001, 1.01, 1.2, 1.5, 1.75, 1.95])
def test_float32_gradients_are_right_to_1e_4(alpha: float) -> None:
    rng = np.random.default_rng(3)
    alpha = float(np.float32(alpha))
    by_z, by_alpha, expected_z, expected_alpha = [], [], [], []
    for _ in range(20):
        z, weigh = rng.standard_normal((2, 7)).astype(np.float32).astype(np.float64)
        x = torch.tensor(z, dtype=torch.float32, requires_grad=True)
        a = torch.tensor(alpha, dtype=torch.float32, requires_grad=True)
        loss = (entmax(x, a) * torch.tensor(weigh, dtype=torch.float32)).sum()
        x_grad, a_grad = torch.autograd.grad(loss, (x, a))
        by_z.append(x_grad.numpy())
        by_alpha.append(a_grad.item())
        row, single = numeric(z, alpha, weigh)
        expected_z.append(row)
        expected_alpha.append(single)
    for got, expected in ((by_z, expected_z), (by_alpha, expected_alpha)):
        error = np.linalg.norm(np.array(got) - np.array(expected))
        assert error <= 1e-4 * np.linalg.norm(np.array(expected))


def test_gradcheck_in_float64_dense_and_ragged() -> None:
    make = torch.Generator().manual_seed(1)
    z = torch.randn(5, 3, 7, dtype=torch.float64, generator=make).requires_grad_()
    alpha = torch.tensor([1.05, 1.4, 1.7], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(entmax, (z, alpha))
    flat = torch.randn(11, 3, dtype=torch.float64, generator=make).requires_grad_()
    member = torch.tensor([2, 0, 0, 3, 2, 2, 0, 3, 3, 3, 2])  # row 1 is empty
    assert torch.autograd.gradcheck(
        lambda x, a: entmax_ragged(x, a, member, 4), (flat, alpha), fast_mode=False
    )


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 999), st.floats(1.0, 2.0)
)
def test_ragged_rows_equal_the_same_rows_alone(lengths: list[int], seed: int, alpha: float) -> None:
    make = torch.Generator().manual_seed(seed)
    member = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    shuffled = member[torch.randperm(len(member), generator=make)]
    z = torch.randn(len(member), 2, generator=make) * 3
    p = entmax_ragged(z, alpha, shuffled, len(lengths))
    for row in range(len(lengths)):
        assert torch.allclose(p[shuffled == row], entmax(z[shuffled == row], alpha, 0), atol=3e-7)


wild = st.floats(width=32, allow_nan=False) | st.sampled_from([-math.inf, math.inf, 0.0, 3e38])


@settings(max_examples=100)
@given(st.lists(wild, max_size=7), st.floats(1.0, 2.0, width=32))
def test_wild_rows_never_give_nan_and_masked_entries_exactly_nothing(
    row: list[float], alpha: float
) -> None:
    z = torch.tensor(row, dtype=torch.float32, requires_grad=True)
    a = torch.tensor(alpha, requires_grad=True)
    dense = entmax(z, a)
    ragged = entmax_ragged(z, a, torch.zeros(len(row), dtype=torch.int64), 1)
    gradients = torch.autograd.grad((dense * torch.arange(len(row)) + ragged).sum(), (z, a))
    for x in (dense, ragged, *gradients):
        assert torch.isfinite(x).all()
    tops = [1.0 if x == math.inf else 0.0 for x in row]
    if any(tops):
        expected = np.array(tops) / sum(tops)
    else:
        expected = bisect_entmax(np.array(row, dtype=np.float32).astype(np.float64), alpha)
    for p in (dense, ragged):
        assert np.abs(p.detach().numpy() - expected).max(initial=0) <= 2e-7
        assert (p[z == -math.inf] == 0).all()


def test_nan_shapes_without_entries_and_half_precision() -> None:
    assert torch.isnan(entmax(torch.tensor([0.0, math.nan]), 1.5)).all()
    for shape in ((3, 0), (0, 3), (0,)):
        z = torch.zeros(shape, requires_grad=True)
        alpha = torch.tensor(1.5, requires_grad=True)
        p = entmax(z, alpha)
        assert p.shape == z.shape
        assert all((grad == 0).all() for grad in torch.autograd.grad(p.sum(), (z, alpha)))
    half = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).bfloat16()
    p = entmax(half, 1.5)
    assert p.dtype == torch.bfloat16
    assert (p.float() - entmax(half.float(), 1.5)).abs().max() < 0.01


@pytest.mark.parametrize("alpha", [0.99, 2.01, math.nan])
def test_alpha_outside_its_range_is_refused(alpha: float) -> None:
    with pytest.raises(InputError, match="alpha"):
        entmax(torch.zeros(3), alpha)
