"""The numpy forward pass against the oracle: entmax by bisection, the rest token by token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.explain.reference import entmax, read
from encoder.model.config import AstConfig, Side
from encoder.model.weights import I32, random_weights
from tests.encoder.reference import bisect_entmax, reference, reference_star

VOCABULARY = 12


Model = tuple[AstConfig, int, int]

models = st.tuples(
    st.builds(
        AstConfig,
        dim=st.integers(1, 9),
        heads=st.integers(1, 3),
        head_dim=st.integers(1, 4),
        window=st.integers(0, 3),
        layers=st.integers(1, 3),
        residual=st.booleans(),
    ),
    st.just(VOCABULARY),
    st.integers(0, 10_000),
)


def tolerance(model: Model) -> float:
    """How far float32 may be off: every random layer makes the rounding before it larger."""
    return float(10.0 ** (model[0].layers - 6))


texts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=10).map(
    lambda ids: np.array(ids, np.int32)
)


@given(
    st.lists(st.floats(-40, 40, width=32) | st.just(-np.inf), min_size=1, max_size=40),
    st.sampled_from([1.000001, 1.001, 1.25, 1.5, 1.75, 1.999, 2.0]),
)
def test_entmax_is_the_bisected_one(row: list[float], alpha: float) -> None:
    scores = np.array([0.0, *row], np.float32)
    found = entmax(scores[None], np.array([alpha], np.float32))[0]
    wanted = bisect_entmax(scores.astype(np.float64), float(np.float32(alpha)))
    np.testing.assert_allclose(found, wanted, atol=3e-7)


@pytest.mark.parametrize("alpha", [1.0000002, 1.3, 1.7, 2.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_entmax_of_long_rows_of_every_scale(alpha: float, scale: float) -> None:
    scores = np.random.default_rng(3).standard_normal((4, 2, 1025), np.float32) * np.float32(scale)
    found = entmax(scores, np.full(2, alpha, np.float32))
    for i, h in np.ndindex(4, 2):
        wanted = bisect_entmax(scores[i, h].astype(np.float64), float(np.float32(alpha)))
        np.testing.assert_allclose(found[i, h], wanted, atol=3e-7)


def test_entmax_of_many_near_ties_takes_no_early_end() -> None:
    scores = np.array([[0.0] + [-1e-6] * 1000 + [-1e-3] * 1000], np.float32)
    for alpha in (1.5, 1.9, 2.0):
        found = entmax(scores, np.array([alpha], np.float32))[0]
        wanted = bisect_entmax(scores[0].astype(np.float64), float(np.float32(alpha)))
        np.testing.assert_allclose(found, wanted, atol=3e-7)


def test_entmax_keeps_exact_zeros() -> None:
    found = entmax(np.array([[0, 3, -2, -np.inf]], np.float32), np.array([2.0], np.float32))
    assert found.tolist() == [[0.0, 1.0, 0.0, 0.0]]


@settings(max_examples=40, deadline=None)
@given(models, texts, st.sampled_from(Side))
def test_the_vector_is_the_oracles(model: Model, ids: I32, side: Side) -> None:
    weights = random_weights(*model)
    wanted = reference(weights, ids.tolist(), side)
    found = read(weights, ids, side).y
    np.testing.assert_allclose(
        found, wanted, atol=tolerance(model) * max(1.0, float(np.abs(wanted).max()))
    )


@settings(max_examples=40, deadline=None)
@given(models, texts, st.sampled_from(Side))
def test_the_attention_kept_is_the_oracles(model: Model, ids: I32, side: Side) -> None:
    weights = random_weights(*model)
    n, c = len(ids), weights.config.window
    trace = read(weights, ids, side)
    wanted = reference_star(weights, weights.embedding[ids].astype(np.float64))
    for found, ring, star in zip(trace.rounds, wanted.ring, wanted.star, strict=True):
        np.testing.assert_allclose(found.star, star, atol=tolerance(model))
        for i in range(n):
            inside = [c + j - i for j in range(i - c, i + c + 1) if 0 <= j < n]
            columns = [*inside, 2 * c + 1, 2 * c + 2]
            np.testing.assert_allclose(found.ring[i][:, columns], ring[i], atol=tolerance(model))
            outside = sorted(set(range(2 * c + 3)) - set(columns))
            assert (found.ring[i][:, outside] == 0).all()
    height = wanted.nodes[-1]
    taken = height[trace.highest, np.arange(weights.config.dim)]
    scale = max(1.0, float(np.abs(height).max()))
    np.testing.assert_allclose(taken, height.max(0), atol=tolerance(model) * scale)


def test_among_equals_max_pooling_takes_the_first() -> None:
    weights = random_weights(AstConfig(dim=5, heads=2, head_dim=3), VOCABULARY)
    weights.layers[0].ring.value.weight[:] = 0
    trace = read(weights, np.array([3, 1, 4, 1], np.int32), Side.POST)
    assert trace.highest.tolist() == [0] * 5
