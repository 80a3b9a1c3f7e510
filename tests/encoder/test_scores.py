"""Scores of many texts with many: exact, the best of them found, and in bounded room."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from encoder.embeddings import Embeddings
from encoder.score.lexical import SLOTS, SparseRows
from tests.encoder.test_embeddings import some


def slow_score(a: Embeddings, i: int, b: Embeddings, k: int) -> float:
    def words(x: Embeddings, r: int) -> dict[int, float]:
        run = slice(x.lexical.indptr[r], x.lexical.indptr[r + 1])
        return dict(
            zip(x.lexical.slots[run].tolist(), x.lexical.weights[run].tolist(), strict=True)
        )

    dense = sum(float(x) * float(y) for x, y in zip(a.dense[i], b.dense[k], strict=True))
    left, right = words(a, i), words(b, k)
    lexical = sum(w * right[s] for s, w in left.items() if s in right)
    return (1 - a.mix) * dense + a.mix * lexical


@pytest.mark.parametrize("mix", [0.0, 0.35, 0.9])
@pytest.mark.parametrize("step", [1, 40, 10**6])
def test_similarity_is_the_mixed_cosine_of_every_pair(
    mix: float, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("encoder.embeddings.BLOCK", step)
    a, b = some(13, 1, mix), some(9, 2, mix)
    score = a.similarity(b)
    assert score.dtype == np.float32
    assert score.shape == (13, 9)
    expected = [[slow_score(a, i, b, k) for k in range(9)] for i in range(13)]
    np.testing.assert_allclose(score, expected, atol=1e-6)
    assert np.abs(score).max() <= 1


@pytest.mark.parametrize("mix", [0.0, 0.35, 0.9])
@pytest.mark.parametrize("step", [1, 40, 10**6])
def test_a_search_finds_the_best_by_falling_score(
    mix: float, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("encoder.embeddings.BLOCK", step)
    a, b = some(13, 1, mix), some(9, 2, mix)
    for k in (1, 4, 9, 20):
        scores, places = a.search(b, k)
        assert (scores.dtype, scores.shape, places.shape) == (np.float32, *[(13, min(k, 9))] * 2)
        for i in range(13):
            exact = [slow_score(a, i, b, j) for j in range(9)]
            np.testing.assert_allclose(scores[i], sorted(exact, reverse=True)[:k], atol=1e-6)
            np.testing.assert_allclose(scores[i], [exact[j] for j in places[i]], atol=1e-6)
            assert len(set(places[i].tolist())) == min(k, 9)


def test_of_equal_scores_a_search_takes_the_first() -> None:
    nothing = Embeddings(np.zeros((30, 7), np.float32), SparseRows.empty(30), 0.5, "d")
    scores, places = some(4).search(nothing, 5)
    assert not scores.any()
    np.testing.assert_array_equal(places, [range(5)] * 4)
    assert [found.shape for found in some(4).search(some(0))] == [(4, 0), (4, 0)]
    assert some(0).search(some(4))[1].shape == (0, 4)


def room_of(work: Callable[[], object]) -> int:
    """The most bytes that it held at a time."""
    tracemalloc.start()
    work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_a_search_needs_no_room_for_all_scores() -> None:
    many, others = some(30_000), some(4000, 1)
    many.search(others[:9], 3)
    assert room_of(lambda: many.search(others, 3)) < 30_000 * 4000 * 4 / 2


def test_scores_are_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encoder.embeddings.BLOCK", 2**20)
    many, others = some(3000), some(4000, 1)
    many.similarity(others[:9])
    assert room_of(lambda: many.similarity(others)) < 1.5 * 3000 * 4000 * 4


@pytest.mark.parametrize("mix", [0.0, 0.35, 0.9])
def test_the_dot_product_of_two_vectors_is_their_score(mix: float) -> None:
    a, b = some(13, 1, mix), some(9, 2, mix)
    left, right = a.as_vectors(), b.as_vectors()
    assert (left.format, left.shape, left.dtype) == ("csr", (13, 7 + SLOTS), np.float32)
    expected = [[slow_score(a, i, b, k) for k in range(9)] for i in range(13)]
    np.testing.assert_allclose((left @ right.T).toarray(), expected, atol=1e-6)
    angles = cosine_similarity(left, right)  # the same, where both halves are there
    whole = np.outer(left.power(2).sum(1) > 0.99, right.power(2).sum(1) > 0.99)
    np.testing.assert_allclose(angles[whole], np.array(expected)[whole], atol=1e-6)
