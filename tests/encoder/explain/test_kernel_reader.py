"""The parts by the kernel's tables: the oracle's, a sum of the kernel's own y, fixed bits."""

from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from encoder.backends.kernel import KernelBackend
from encoder.explain.kernel_reader import KernelReader
from encoder.model.config import AstConfig, Side
from encoder.model.weights import Weights, random_weights
from tests.encoder.explain.held import biases_part, parts_and_biases, settled
from tests.encoder.explain.test_reference import (
    ONE_PAIR,
    assert_looks,
    side_by_side,
    unit_vectors,
)
from tests.encoder.reference import mild_weights

VOCABULARY = 200
SHAPES = (
    AstConfig(dim=40, heads=3, head_dim=6, residual=True),
    AstConfig(dim=40, heads=3, head_dim=6),
    # Two blocks of dimensions, and two banks of heads.
    AstConfig(dim=400, heads=17, head_dim=33, window=3, residual=True),
)
texts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=7)


def reader_of(weights: Weights) -> KernelReader:
    return KernelReader(weights, KernelBackend(weights).tables)


@cache
def model(shape: int) -> tuple[Weights, KernelReader]:
    weights = random_weights(SHAPES[shape], VOCABULARY, seed=4)
    return weights, reader_of(weights)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1), texts, st.sampled_from(Side), st.integers(0, 99))
def test_parts_are_what_goes_without_the_token(
    shape: int, text: list[int], side: Side, seed: int
) -> None:
    weights, reader = model(shape)
    assume(settled(weights, text))
    row = unit_vectors(1, weights.config.dim, seed)
    parts = reader.parts(*side_by_side([text]), side, ONE_PAIR, row)
    wanted, _ = parts_and_biases(weights, text, side, row[0])
    np.testing.assert_allclose(parts, wanted, atol=3e-3 * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("side", Side)
def test_parts_and_biases_make_the_kernels_own_cosine(shape: int, side: Side) -> None:
    weights, reader = model(shape)
    rng = np.random.default_rng(7)
    texts = [rng.integers(0, VOCABULARY, n).tolist() for n in (1, 2, 30, 5, *[3] * 25, 64)]
    ids, offsets = side_by_side(texts)
    rows = unit_vectors(3, weights.config.dim, 5)
    pairs = np.stack([rng.permutation(len(texts)), rng.integers(0, 3, len(texts))], axis=1)
    parts = reader.parts(ids, offsets, side, pairs, rows)
    y = KernelBackend(weights).forward(ids, offsets, side)
    ends = np.cumsum([0, *(len(texts[text]) for text, _ in pairs)])
    for at, (text, k) in enumerate(pairs.tolist()):
        biases = biases_part(weights, texts[text], side, rows[k])
        cosine = rows[k] @ y[text] / np.linalg.norm(y[text])
        found = parts[ends[at] : ends[at + 1]].sum(dtype=np.float64)
        assert found + biases == pytest.approx(cosine, abs=1e-3)


def test_parts_have_the_same_bits_in_any_batch() -> None:
    _, reader = model(0)
    rng = np.random.default_rng(8)
    texts = [rng.integers(0, VOCABULARY, n).tolist() for n in rng.integers(1, 40, 60)]
    ids, offsets = side_by_side(texts)
    rows = unit_vectors(14, 40, 9)
    pairs = np.stack([rng.integers(0, 60, 90), rng.integers(0, 14, 90)], axis=1)
    parts = reader.parts(ids, offsets, Side.POST, pairs, rows)
    alone = [
        reader.parts(*side_by_side([texts[text]]), Side.POST, ONE_PAIR, rows[k : k + 1])
        for text, k in pairs.tolist()
    ]
    assert np.concatenate(alone).tolist() == parts.tolist()


@pytest.mark.parametrize("config", SHAPES)
def test_what_is_looked_at_is_what_the_oracle_looks_at(config: AstConfig) -> None:
    weights = mild_weights(config, VOCABULARY, seed=6)
    reader, rng = reader_of(weights), np.random.default_rng(3)
    for length in (1, 2, 20):
        text = rng.integers(0, VOCABULARY, length).tolist()
        ring, star = reader.looks(np.array(text, np.int32), Side.POST)
        assert_looks(weights, text, ring, star, 2e-3)


def test_among_equal_nodes_max_pooling_takes_the_first() -> None:
    # Every token looks at itself alone and the star at nothing, so that equal tokens out of each
    # other's sight make equal nodes: all that max-pooling takes of them is the first one's.
    weights = random_weights(SHAPES[1], VOCABULARY, seed=4)
    ring, star = weights.layers[0].ring, weights.layers[0].star
    ring.key.weight[:] *= 9
    ring.query.weight[:], ring.query.bias[:] = ring.key.weight, 0
    star.value.weight[:] = 0
    text, row = side_by_side([[3, 1, 4, 3]]), unit_vectors(1, 40, 0)
    parts = reader_of(weights).parts(*text, Side.POST, ONE_PAIR, row)
    assert np.abs(parts[:3]).min() > 1e-3
    assert parts[3] == 0


def test_a_vector_of_length_zero_has_no_parts() -> None:
    weights = random_weights(SHAPES[1], VOCABULARY)
    for name, value in weights.tensors().items():
        if not name.endswith("alpha"):
            value[:] = 0
    row = unit_vectors(1, 40, 0)
    parts = reader_of(weights).parts(*side_by_side([[1, 2]]), Side.POST, ONE_PAIR, row)
    assert parts.tolist() == [0.0, 0.0]
