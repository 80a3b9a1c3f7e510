"""The parts by the kernel's tables: the oracle's, a sum of the kernel's own y, fixed bits."""

from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from encoder.backends.kernel import KernelBackend
from encoder.backends.kernel.row_layout import Shape
from encoder.backends.kernel.tables import make_tables
from encoder.explain.kernel_reader import FoldedReader
from encoder.explain.parts import Reader
from encoder.explain.reference import Trace, read
from encoder.model.config import AstConfig, Side
from encoder.model.weights import F32, I32, I64, Weights, random_weights
from tests.encoder.explain.test_words import frozen
from tests.encoder.reference import reference_star

VOCABULARY = 200
SHAPES = (
    AstConfig(dim=40, heads=3, head_dim=6, residual=True),
    AstConfig(dim=40, heads=3, head_dim=6),
    # Two blocks of dimensions, and two banks of heads.
    AstConfig(dim=400, heads=17, head_dim=33, window=3, residual=True),
)
F64 = NDArray[np.float64]


@cache
def model(shape: int) -> tuple[Weights, Reader]:
    weights = random_weights(SHAPES[shape], VOCABULARY, seed=4)
    return weights, Reader(weights, make_tables(Shape.of(weights.config), weights, 1))


def side_by_side(texts: list[list[int]]) -> tuple[I32, I64]:
    return np.concatenate(texts).astype(np.int32), np.cumsum([0, *map(len, texts)], dtype=np.int64)


def directions(weights: Weights, count: int, seed: int) -> F32:
    rows = np.random.default_rng(seed).standard_normal((count, weights.config.dim), np.float32)
    unit: F32 = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def clear(weights: Weights, ids: I32) -> bool:
    """Whether no rounding can change which token max-pooling takes."""
    nodes = reference_star(weights, weights.embedding[ids].astype(np.float64)).nodes[-1]
    if len(nodes) == 1:
        return True
    second, first = np.sort(nodes, axis=0)[-2:]
    return bool((first - second).min() > 0.01)


def parts_by_leaving_out(trace: Trace, row: F32) -> F64:
    """What goes from the product of a row with y, as each token's vector goes."""
    whole = trace.tokens.astype(np.float64)
    y = frozen(trace, whole)
    gone = []
    for i in range(len(whole)):
        without = whole.copy()
        without[i] = 0
        gone.append(row @ (y - frozen(trace, without)))
    return np.array(gone) / np.linalg.norm(y)


texts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=7)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1), texts, st.sampled_from(Side), st.integers(0, 99))
def test_parts_are_what_goes_without_the_token(
    shape: int, text: list[int], side: Side, seed: int
) -> None:
    weights, reader = model(shape)
    ids, offsets = side_by_side([text])
    assume(clear(weights, ids))
    row = directions(weights, 1, seed)
    parts, ends = reader.parts(ids, offsets, side, np.zeros((1, 2), np.int64), row)
    assert ends.tolist() == [0, len(text)]
    wanted = parts_by_leaving_out(read(weights, ids, side), row[0])
    np.testing.assert_allclose(parts, wanted, atol=3e-3 * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("side", Side)
def test_parts_and_biases_make_the_kernels_own_cosine(shape: int, side: Side) -> None:
    weights, reader = model(shape)
    rng = np.random.default_rng(7)
    texts = [rng.integers(0, VOCABULARY, n).tolist() for n in (1, 2, 30, 5, *[3] * 25, 64)]
    ids, offsets = side_by_side(texts)
    rows = directions(weights, 3, 5)
    pairs = np.stack([rng.permutation(len(texts)), rng.integers(0, 3, len(texts))], axis=1)
    parts, ends = reader.parts(ids, offsets, side, pairs, rows)
    y = KernelBackend(weights).forward(ids, offsets, side)
    for at, (text, k) in enumerate(pairs.tolist()):
        trace = read(weights, np.array(texts[text], np.int32), side)
        nothing = rows[k] @ frozen(trace, np.zeros(trace.tokens.shape))
        cosine = rows[k] @ y[text] / np.linalg.norm(y[text])
        found = parts[ends[at] : ends[at + 1]].sum(dtype=np.float64)
        assert found + nothing / np.linalg.norm(y[text]) == pytest.approx(cosine, abs=1e-3)


def test_parts_have_the_same_bits_in_any_batch() -> None:
    weights, reader = model(0)
    rng = np.random.default_rng(8)
    texts = [rng.integers(0, VOCABULARY, n).tolist() for n in rng.integers(1, 40, 60)]
    ids, offsets = side_by_side(texts)
    rows = directions(weights, 14, 9)
    pairs = np.stack([rng.integers(0, 60, 90), rng.integers(0, 14, 90)], axis=1)
    parts, ends = reader.parts(ids, offsets, Side.POST, pairs, rows)
    for at, (text, k) in enumerate(pairs.tolist()):
        alone, _ = reader.parts(
            *side_by_side([texts[text]]), Side.POST, np.zeros((1, 2), np.int64), rows[k : k + 1]
        )
        assert alone.tolist() == parts[ends[at] : ends[at + 1]].tolist()


def test_among_equal_nodes_max_pooling_takes_the_first() -> None:
    # Every token looks at itself alone and the star at nothing, so that equal tokens out of each
    # other's sight make equal nodes: all that max-pooling takes of them is the first one's.
    weights = random_weights(SHAPES[1], VOCABULARY, seed=4)
    ring, star = weights.layers[0].ring, weights.layers[0].star
    ring.key.weight[:] *= 9
    ring.query.weight[:], ring.query.bias[:] = ring.key.weight, 0
    star.value.weight[:] = 0
    reader = FoldedReader(weights, make_tables(Shape.of(weights.config), weights, 1))
    text, row = side_by_side([[3, 1, 4, 3]]), directions(weights, 1, 0)
    parts, _ = reader.parts(*text, Side.POST, np.zeros((1, 2), np.int64), row)
    assert np.abs(parts[:3]).min() > 1e-3
    assert parts[3] == 0


def test_a_vector_of_length_zero_has_no_parts() -> None:
    weights = random_weights(SHAPES[1], VOCABULARY)
    for name, value in weights.tensors().items():
        if not name.endswith("alpha"):
            value[:] = 0
    reader = FoldedReader(weights, make_tables(Shape.of(weights.config), weights, 1))
    parts, _ = reader.parts(
        *side_by_side([[1, 2]]), Side.POST, np.zeros((1, 2), np.int64), np.eye(1, 40, dtype="f4")
    )
    assert parts.tolist() == [0.0, 0.0]
