"""Explanations of many pairs at once: equal to those of one pair, the same bits in any batch."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.embeddings import Embeddings
from encoder.explain.parts import Reader
from encoder.explain.words import capped, dense_parts, explain_pair, explain_pairs
from encoder.model.config import AstConfig, Side
from encoder.model.weights import F32, I32, Weights, random_weights
from encoder.score.lexical import SparseRows
from encoder.simd.matrix import Matrix
from encoder.text.tokenizer import Word
from tests.encoder.explain.test_reference import VOCABULARY

SHAPES = (
    AstConfig(dim=7, heads=2, head_dim=3, window=2, layers=1, residual=True),
    AstConfig(dim=5, heads=1, head_dim=4, window=0, layers=2),
    AstConfig(dim=34, heads=3, head_dim=2, window=3, layers=3, residual=True),
)


@cache
def model(shape: int, seed: int) -> Weights:
    return random_weights(SHAPES[shape], VOCABULARY, seed)


# No token twice: where two are equal, rounding decides which one max-pooling takes.
texts = st.lists(
    st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9, unique=True),
    min_size=1,
    max_size=5,
)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2), st.integers(0, 5), texts, st.sampled_from(Side), st.data())
def test_parts_are_those_of_a_text_by_itself(
    shape: int, seed: int, given: list[list[int]], side: Side, data: st.DataObject
) -> None:
    weights = model(shape, seed)
    which = data.draw(st.lists(st.integers(0, len(given) - 1), min_size=1, max_size=8))
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((len(which), weights.config.dim)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    ids = [np.array(text, np.int32) for text in given]
    offsets = np.cumsum([0, *map(len, ids)], dtype=np.int64)
    reader = Reader(weights)
    pairs = np.stack([which, np.arange(len(which))], axis=1)
    parts, ends = reader.parts(np.concatenate(ids), offsets, side, pairs, rows)
    assert ends.tolist() == np.cumsum([0, *(len(ids[i]) for i in which)]).tolist()
    for pair, text in enumerate(which):
        here = parts[ends[pair] : ends[pair + 1]]
        # Random layers magnify rounding: what decides is the size of the largest part.
        wanted = dense_parts(ids[text], weights, side, rows[pair])
        allowed = 10.0 ** (weights.config.layers - 5) * max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(here, wanted, atol=allowed)
        bounds, only = np.array([0, len(ids[text])]), np.zeros((1, 2), np.int64)
        alone, _ = reader.parts(ids[text], bounds, side, only, rows[pair : pair + 1])
        assert alone.tolist() == here.tolist(), "the same bits, whatever stands beside it"


def some_words(rng: np.random.Generator, count: int) -> list[Word]:
    return [
        Word(f"w{i}", tuple(rng.integers(0, VOCABULARY, rng.integers(0, 3)).tolist()), slot, 1.5)
        for i, slot in enumerate(rng.integers(0, 6, count).tolist())
    ]


def test_pairs_are_explained_as_each_by_itself() -> None:
    weights, rng = model(0, 1), np.random.default_rng(2)
    posts: Sequence[list[Word]] = [some_words(rng, n) for n in (5, 0, 9, 1)]
    ids: list[I32] = [capped(words, weights, Side.POST) for words in posts]
    dense = rng.standard_normal((3, 7)).astype(np.float32)
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    lexical = SparseRows(
        np.array([0, 2, 2, 4]), np.array([1, 4, 0, 5], np.int32),
        np.array([0.6, 0.8, 0.8, 0.6], np.float32),
    )  # fmt: skip
    articles = Embeddings(dense, lexical, 0.4, "ab")
    pairs = [(2, 0), (0, 2), (1, 1), (2, 2), (3, 0), (0, 0)]
    found = explain_pairs(Reader(weights), posts, ids, articles, pairs)
    assert len(found) == len(pairs)
    for (post, k), parts in zip(pairs, found, strict=True):
        row = lexical[k : k + 1]
        one = explain_pair(
            posts[post], weights, Side.POST, 0.4, dense[k], (row.slots, row.weights), 0.5
        )
        assert [word for word, _ in parts] == [word for word, _ in one[:-1]]
        np.testing.assert_allclose([p for _, p in parts], [p for _, p in one[:-1]], atol=1e-5)
    assert explain_pairs(Reader(weights), posts, ids, articles, []) == []


@pytest.mark.parametrize(("rows", "depth", "width"), [(1, 1, 1), (3, 7, 33), (25, 40, 64)])
def test_a_product_is_numpys_and_its_rows_do_not_know_each_other(
    rows: int, depth: int, width: int
) -> None:
    rng = np.random.default_rng(depth)
    a: F32 = rng.standard_normal((rows, depth)).astype(np.float32)
    b: F32 = rng.standard_normal((width, depth)).astype(np.float32)
    matrix = Matrix.of(b.T)
    found = matrix(a)
    assert found.shape == (rows, width)
    np.testing.assert_allclose(found, a @ b.T, atol=1e-4)
    for i in range(rows):
        assert matrix(a[i : i + 1])[0].tolist() == found[i].tolist()
    assert matrix(a[:0]).shape == (0, width)
