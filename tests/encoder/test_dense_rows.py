"""The dense rows of texts, against a slow mean in float64 of the whole and of its head."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from encoder.embeddings import dense_rows
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64

VECTORS = np.random.default_rng(0).normal(size=(2, 9, 5))  # of each side, of nine tokens
texts_of_ids = st.lists(st.lists(st.integers(0, 8), max_size=12), min_size=1, max_size=5)


def forward(ids: I32, offsets: I64, side: Side) -> F32:
    """The sums of the token vectors of each text."""
    parts = np.split(VECTORS[side][ids], offsets[1:-1])
    return np.array([part.sum(0) for part in parts], np.float32)


def unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    length = np.linalg.norm(vector)
    return vector / length if length else vector


def flat(texts: list[list[int]]) -> tuple[I32, I64]:
    ids = np.array([i for text in texts for i in text], np.int32)
    return ids, np.cumsum([0, *map(len, texts)]).astype(np.int64)


@settings(deadline=None)
@given(texts_of_ids, st.integers(0, 14), st.sampled_from(Side))
def test_an_articles_lead_counts_twice(texts: list[list[int]], lead: int, side: Side) -> None:
    rows = dense_rows(forward, *flat(texts), side, lead)
    assert rows.dtype == np.float32
    for text, row in zip(texts, rows, strict=True):
        expected = unit(VECTORS[side][text].sum(0))
        if side is Side.ARTICLE and lead:
            expected = unit(expected + unit(VECTORS[side][text[:lead]].sum(0)))
        assert row == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("side", Side)
def test_rows_go_where_they_are_wanted_and_nowhere_else(side: Side) -> None:
    told = flat([[1, 2, 3], [], [4, 4, 5, 6]])
    kept = np.full((5, 5), 7, np.float32)
    rows = dense_rows(forward, *told, side, 2, kept[1:4])
    assert np.shares_memory(rows, kept)
    assert np.array_equal(kept[1:4], dense_rows(forward, *told, side, 2))
    assert (kept[[0, 4]] == 7).all()
