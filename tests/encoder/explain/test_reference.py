"""The reference's parts and attention against the oracle: leaving tokens out, one by one."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from encoder.explain import reference as explained
from encoder.explain.reference import ReferenceReader
from encoder.model.config import AstConfig, Side
from encoder.model.weights import F32, I32, I64, Weights, random_weights
from tests.encoder.explain.held import parts_and_biases, settled
from tests.encoder.reference import reference, reference_pooling, token_shares

VOCABULARY = 12
ONE_PAIR = np.zeros((1, 2), np.int64)
SHAPES = (
    AstConfig(dim=7, heads=2, head_dim=3, window=2, layers=1, residual=True),
    AstConfig(dim=5, heads=1, head_dim=4, window=0, layers=2),
    AstConfig(dim=9, heads=3, head_dim=2, window=3, layers=3, residual=True),
    AstConfig(dim=1, heads=1, head_dim=1, window=1, layers=1),
    AstConfig(dim=6, heads=2, head_dim=4, window=2, star="pooling", residual=True),
)
POOLING = len(SHAPES) - 1
texts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9, unique=True)


@cache
def model(shape: int, seed: int) -> tuple[Weights, ReferenceReader]:
    weights = random_weights(SHAPES[shape], VOCABULARY, seed)
    return weights, ReferenceReader(weights)


def tolerance(weights: Weights) -> float:
    """How far float32 may be off: every random layer makes the rounding before it larger."""
    return float(10.0 ** (weights.config.layers - 6))


def side_by_side(texts: Sequence[Sequence[int]]) -> tuple[I32, I64]:
    return np.concatenate(texts).astype(np.int32), np.cumsum([0, *map(len, texts)], dtype=np.int64)


def unit_vectors(count: int, dim: int, seed: int) -> F32:
    rows = np.random.default_rng(seed).standard_normal((count, dim), np.float32)
    unit: F32 = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


@settings(max_examples=40, deadline=None)
@given(st.integers(0, POOLING), st.integers(0, 9), texts, st.sampled_from(Side))
def test_parts_are_what_the_cosine_loses_without_the_token(
    shape: int, seed: int, text: list[int], side: Side
) -> None:
    weights, reader = model(shape, seed)
    assume(settled(weights, text))
    row = unit_vectors(1, weights.config.dim, seed)
    parts = reader.parts(*side_by_side([text]), side, ONE_PAIR, row)
    wanted, biases = parts_and_biases(weights, text, side, row[0])
    allowed = 10 * tolerance(weights) * max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(parts, wanted, atol=allowed)
    y = reference(weights, text, side)
    cosine = row[0] @ y / np.linalg.norm(y)
    assert parts.sum(dtype=np.float64) + biases == pytest.approx(cosine, abs=len(text) * allowed)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 9), texts, st.sampled_from(Side))
def test_the_attention_of_a_pooling_star_is_the_oracles(
    seed: int, text: list[int], side: Side
) -> None:
    weights, reader = model(POOLING, seed)
    tokens = weights.embedding[text].astype(np.float64)
    wanted = reference_pooling(weights, tokens, token_shares(weights, text, side))
    ring, star = reader.looks(np.array(text, np.int32), side)
    np.testing.assert_allclose(star[:, 1:], wanted.shares.T, atol=1e-5)
    assert ring.sum(2) == pytest.approx(np.ones(ring.shape[:2]), abs=1e-5)
    for i, p in enumerate(wanted.ring):
        first = max(0, i - 2) - i + 2
        np.testing.assert_allclose(ring[i, :, first : first + p.shape[1] - 1], p[:, :-1], atol=1e-5)
        np.testing.assert_allclose(ring[i, :, -1], p[:, -1], atol=1e-5)


def test_many_pairs_have_the_parts_of_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explained, "PAIRS_AT_ONCE", 3)
    weights, reader = model(0, 1)
    given = [[3, 1, 4], [5], [9, 2, 6, 0], [7, 8]]
    pairs = np.array([[2, 0], [0, 2], [1, 1], [2, 2], [3, 0], [0, 0], [1, 2]])
    rows = unit_vectors(3, weights.config.dim, 2)
    parts = reader.parts(*side_by_side(given), Side.POST, pairs, rows)
    alone = [
        reader.parts(*side_by_side([given[i]]), Side.POST, ONE_PAIR, rows[k : k + 1])
        for i, k in pairs
    ]
    np.testing.assert_allclose(parts, np.concatenate(alone), atol=1e-6)
    assert len(reader.parts(*side_by_side(given), Side.POST, pairs[:0], rows)) == 0
