import copy
import os
import pickle
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from sklearn.metrics.pairwise import cosine_similarity

from encoder.embeddings import Background, Embeddings, dense_rows, embeddings_writer, unit_rows
from encoder.errors import InputError, MismatchError
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64
from encoder.score.exact import pair_scores
from encoder.score.lexical import SLOTS, SparseRows
from encoder.thresholds import EVERY_POST, match_thresholds, thresholds
from tests.encoder.small_model import exact_scores, same_rows


def some(n: int, seed: int = 0, mix: float = 0.5, digest: str = "d") -> Embeddings:
    rng = np.random.default_rng(seed)
    dense = unit_rows(rng.standard_normal((n, 7)).astype(np.float32))
    dense[::5] = 0
    counts = rng.integers(0, 6, n)
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    slots = [np.sort(rng.choice(40, c, replace=False)) for c in counts]
    flat = np.concatenate([*slots, np.empty(0)]).astype(np.int32)
    weights = rng.uniform(0.1, 1, len(flat)).astype(np.float32)
    return Embeddings(dense, SparseRows(indptr, flat, weights).unit(), mix, digest)


@given(st.lists(st.integers(-11, 10), max_size=8), st.slices(11))
def test_rows_are_taken_by_index_array_and_by_slice(rows: list[int], part: slice) -> None:
    e = some(11)
    for taken, which in (
        (e[np.array(rows, int)], np.arange(11)[rows]),
        (e[part], np.arange(11)[part]),
        (Embeddings.concat([e[part], e[np.array(rows, int)]]), [*np.arange(11)[part], *rows]),
        (pickle.loads(pickle.dumps(e[part])), np.arange(11)[part]),
    ):
        assert len(taken) == len(which)
        np.testing.assert_array_equal(taken.dense, e.dense[which])
        np.testing.assert_allclose(taken.similarity(e), e.similarity(e)[which], atol=1e-6)


def test_a_file_that_holds_no_embeddings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.safetensors"
    for content in (b"", b"\x80\x04pickle", b"{}"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="cannot be read as embeddings"):
            Embeddings.load(path)
    with pytest.raises(InputError, match="missing"):
        Embeddings.load(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(InputError, match="not a regular file"):
            Embeddings.load(path)


NARROW = replace(some(2), dense=unit_rows(some(2).dense[:, :3]))


@pytest.mark.parametrize("other", [some(2, digest="e"), some(2, mix=0.4), NARROW])
def test_another_models_embeddings_are_refused(other: Embeddings) -> None:
    e = some(2)
    for put_together in (
        lambda: e.similarity(other),
        lambda: e.search(other),
        lambda: thresholds(other, e, 0.5),
        lambda: Embeddings.concat([e, other]),
    ):
        with pytest.raises(MismatchError, match="embed both with one model"):
            put_together()


def test_embeddings_do_not_change() -> None:
    e = some(3)
    with pytest.raises(AttributeError):
        e.mix = 0.1  # type: ignore[misc]
    words = e.lexical
    for same in (e, e[:2], e[[0, 1]], Embeddings.concat([e, e]), copy.deepcopy(e)):
        words = same.lexical
        for array in (same.dense, words.indptr, words.slots, words.weights, *words.inverted):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 1
    dense, weights = e.dense.copy(), e.lexical.weights.copy()
    made = Embeddings(dense, SparseRows(e.lexical.indptr, e.lexical.slots, weights), 0.5, "d")
    dense[:], weights[:] = 7, 7
    np.testing.assert_array_equal(made.dense, e.dense)
    np.testing.assert_array_equal(made.lexical.weights, e.lexical.weights)


FLAWS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "NaN": ("dense", lambda a: a * np.float32(np.nan), "0.5"),
    "rows that are not of length 1": ("dense", lambda a: a * np.float32(1.5), "0.5"),
    "another shape": ("dense", lambda a: a[0], "0.5"),
    "another type": ("dense", lambda a: a.astype(np.float64), "0.5"),
    "fewer rows": ("dense", lambda a: a[:-1].copy(), "0.5"),
    "slots that do not rise": ("lexical.slots", lambda a: a[::-1].copy(), "0.5"),
    "slots out of range": ("lexical.slots", lambda a: a + np.int32(2**20), "0.5"),
    "words that are not of length 1": ("lexical.weights", lambda a: a * np.float32(0.5), "0.5"),
    "words without an end": ("lexical.indptr", lambda a: a[:-1].copy(), "0.5"),
    "a mix of nan": ("dense", lambda a: a, "nan"),
    "a mix of 1": ("dense", lambda a: a, "1"),
}


@pytest.mark.parametrize(("name", "spoil", "mix"), FLAWS.values(), ids=FLAWS)
def test_a_file_with_bad_content_is_refused(
    tmp_path: Path, name: str, spoil: Callable[[Any], Any], mix: str
) -> None:
    path = tmp_path / "e.safetensors"
    some(6).save(path)
    named = load_file(path)
    named[name] = spoil(named[name])
    save_file(named, path, metadata={"format": "newsift.embeddings/1", "mix": mix, "digest": "d"})
    with pytest.raises(InputError) as refused:
        Embeddings.load(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("row", [np.nan, np.inf, 3e38])
def test_rows_that_are_no_unit_vectors_are_refused(row: float) -> None:
    articles = some(3)
    dense = np.full_like(articles.dense, row)
    odd = Embeddings(dense, articles.lexical, articles.mix, articles.digest)
    with np.errstate(over="ignore"), pytest.raises(InputError, match="embed them again"):
        thresholds(some(500), odd, 0.1)
    with np.errstate(over="ignore"), pytest.raises(InputError, match="background: a row is neith"):
        thresholds(odd, some(3), 0.5)
    with np.errstate(over="ignore"), pytest.raises(InputError, match="others: a row is neither"):
        some(3).search(odd)


@pytest.mark.parametrize(("dense", "words", "unit"), [(1.2, 0.8, True), (1.2, 0.9, False)])
def test_both_halves_together_may_have_length_one(dense: float, words: float, unit: bool) -> None:
    row = some(9)[1:2]  # has words
    lexical = replace(row.lexical, weights=row.lexical.weights * np.float32(words**0.5))
    assert replace(row, dense=row.dense * dense**0.5, lexical=lexical).is_unit() == unit


def test_bad_arguments_are_refused() -> None:
    e = some(3)
    with pytest.raises(InputError, match="expected float32"):
        Embeddings(e.dense.astype(np.float64), e.lexical, 0.5, "d")
    with pytest.raises(InputError, match="2 rows for 3 texts"):
        Embeddings(e.dense, e.lexical[:2], 0.5, "d")
    with pytest.raises(InputError, match="mix: 1"):
        Embeddings(e.dense, e.lexical, 1.0, "d")
    with pytest.raises(InputError, match="index 1"):
        e[1]  # type: ignore[index]
    with pytest.raises(InputError, match="k: 0 is not a whole number"):
        e.search(e, 0)
    with pytest.raises(InputError, match="a list was given for embeddings; embed its texts"):
        e.similarity(["storm"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no embeddings"):
        Embeddings.concat([])
    for index in (None, "a", [1.5], [3], [True], slice(0, 2, 0), slice("a"), [[1], [1, 2]]):
        with pytest.raises(InputError, match="index: "):
            e[index]  # type: ignore[index]
    for k in (None, "1", 1.5, float("nan"), float("inf"), [1]):
        with pytest.raises(InputError, match="is not a whole number"):
            e.search(e, k)  # type: ignore[arg-type]
    for parts in (None, 5, ["storm"], [e, None]):
        with pytest.raises(InputError, match="embeddings"):
            Embeddings.concat(parts)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="path: a NoneType"):
        e.save(None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="path: "):
        e.save("a\0")


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.5])
def test_a_threshold_is_the_score_that_the_rate_of_the_background_reaches(rate: float) -> None:
    background, articles = some(600, 1), some(300, 2)
    cut = thresholds(background, articles, rate)
    score = background.similarity(articles)
    for k in range(1, 300, 37):
        ranked = sorted(score[:, k].tolist(), reverse=True)
        assert cut[k] == pytest.approx(max(ranked[round(rate * 600) - 1], 0), abs=1e-6)
        alone = thresholds(background, articles[k : k + 1], rate)
        assert cut[k] == alone[0], "to the bit, whatever articles stand beside it"
    assert (cut > 0).all(), "a text without words scores 0 and must match nothing"


@pytest.mark.parametrize("articles", [None, ["storm"], np.zeros((2, 8), np.float32)])
def test_thresholds_are_those_of_embeddings(articles: Any) -> None:
    with pytest.raises(InputError, match=r"articles: a \w+ was given for embeddings"):
        thresholds(some(50), articles, 0.1)


@pytest.mark.parametrize("rate", [0, 1, -0.1, float("nan"), 1e-9, None, "0.1", [0.1], 1j])
def test_a_rate_too_fine_for_the_background_is_refused(rate: Any) -> None:
    with pytest.raises(InputError, match="rate"):
        thresholds(some(50), some(2), rate)


def two_readers(n: int, distinct: int) -> Background:
    """A background with ties: every `distinct`-th post is a copy."""
    rows = np.arange(n) % distinct
    read = some(distinct, 1)[rows]
    noise = np.random.default_rng(2).standard_normal(read.dense.shape) / 4
    near = unit_rows((read.dense + noise[rows]).astype(np.float32))
    return Background(read, Embeddings(near, read.lexical, read.mix, read.digest, skimmed=True))


@pytest.mark.parametrize("read_factor", [1, 2, 5, 30])
@pytest.mark.parametrize(("n", "distinct", "rate"), [
    (1000, 1000, 0.01), (1000, 100, 0.01), (400, 7, 0.02), (20, 20, 0.05), (30, 30, 0.04),
])  # fmt: skip
def test_both_thresholds_together_let_the_rate_match(
    n: int, distinct: int, rate: float, read_factor: float
) -> None:
    background, articles = two_readers(n, distinct), some(9, 3)
    cuts, skim_cuts = match_thresholds(background, articles, rate, read_factor)
    near, exact = (
        background.skim.similarity(articles).T, background.read.similarity(articles).T
    )  # fmt: skip
    count, to_read = round(rate * n), round(read_factor * rate * n)
    for k in range(len(articles)):
        if read_factor * rate >= 1:
            assert skim_cuts[k] == EVERY_POST
        else:
            assert skim_cuts[k] == max(sorted(near[k])[-to_read], np.finfo(np.float32).tiny)
        read = sorted(e for e, a in zip(exact[k], near[k], strict=True) if a >= skim_cuts[k])
        matches = [e for e in read if e >= cuts[k]]
        if len(read) >= count and read[-count] > 0:
            assert cuts[k] == read[-count]
            assert len(matches) - matches.count(cuts[k]) < count <= len(matches)
        else:
            assert len(matches) <= count


def test_a_looser_skim_never_lowers_a_threshold() -> None:
    background, articles = two_readers(1000, 1000), some(20, 3)
    cuts = [match_thresholds(background, articles, 0.01, factor)[0] for factor in (1, 3, 10, 200)]
    assert (np.diff(cuts, axis=0) >= 0).all()
    assert (cuts[-1] == thresholds(background.read, articles, 0.01)).all()


@pytest.mark.parametrize("read_factor", [0.5, float("nan"), "5", None])
def test_a_read_factor_below_one_is_refused(read_factor: Any) -> None:
    with pytest.raises(InputError, match="read_factor"):
        match_thresholds(two_readers(100, 100), some(2), 0.05, read_factor)


def test_read_and_skimmed_posts_are_told_apart(tmp_path: Path) -> None:
    read = some(5)
    skimmed = replace(read, skimmed=True)
    skimmed.save(tmp_path / "e.safetensors")
    assert Embeddings.load(tmp_path / "e.safetensors").skimmed
    assert skimmed[1:3].skimmed
    assert pickle.loads(pickle.dumps(skimmed)).skimmed
    assert Embeddings.concat([skimmed, skimmed]).skimmed
    assert np.array_equal(skimmed.similarity(read), read.similarity(read))
    with pytest.raises(MismatchError, match="skimmed"):
        Embeddings.concat([read, skimmed])
    for pair in ((read, read), (skimmed, skimmed), (read, skimmed[:3])):
        with pytest.raises(InputError, match="background"):
            Background(*pair)


@pytest.mark.parametrize("counts", [[5], [3, 0, 4, 1], [0], [], [1] * 9])
def test_a_file_saved_in_parts_holds_all_rows(tmp_path: Path, counts: list[int]) -> None:
    path, parts = tmp_path / "e.safetensors", [some(n, seed) for seed, n in enumerate(counts)]
    with embeddings_writer(path, 7, 0.25, "abc") as file:
        for part in parts:
            file.add(part.dense, part.lexical)
    whole, again = Embeddings.concat([some(0), *parts]), Embeddings.load(path)
    assert (again.mix, again.digest) == (0.25, "abc")
    assert same_rows(again, whole)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def room_of(work: Callable[[], object]) -> int:
    tracemalloc.start()
    work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_memory_does_not_grow_with_the_parts(tmp_path: Path) -> None:
    part = some(500)

    def save(parts: int) -> None:
        with embeddings_writer(tmp_path / "e.safetensors", 7, 0.5, "d") as file:
            for _ in range(parts):
                file.add(part.dense, part.lexical)

    save(1)
    few, many = room_of(lambda: save(200)), room_of(lambda: save(800))
    assert many < 1.2 * few
    assert (tmp_path / "e.safetensors").stat().st_size > 4 * many


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "e.safetensors"
    some(3).save(path)
    part = some(2)
    with pytest.raises(AttributeError), embeddings_writer(path, 7, 0.5, "d") as file:
        file.add(part.dense, None)  # type: ignore[arg-type]
    assert len(Embeddings.load(path)) == 3
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    with pytest.raises(InputError, match="cannot be written"):
        part.save(tmp_path / "no folder" / "e")


VECTORS = np.random.default_rng(0).normal(size=(2, 9, 5))  # of each side, of nine tokens
texts_of_ids = st.lists(st.lists(st.integers(0, 8), max_size=12), min_size=1, max_size=5)


def forward(ids: I32, offsets: I64, side: Side) -> F32:
    parts = np.split(VECTORS[side][ids], offsets[1:-1])
    return np.array([part.sum(0) for part in parts], np.float32)


def unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    length = np.linalg.norm(vector)
    return vector / length if length else vector


def flat(texts: list[list[int]]) -> tuple[I32, I64]:
    ids = np.array([i for text in texts for i in text], np.int32)
    return ids, np.cumsum([0, *map(len, texts)]).astype(np.int64)


@given(texts_of_ids, st.integers(0, 14), st.sampled_from(Side))
def test_an_articles_lead_counts_twice(texts: list[list[int]], lead: int, side: Side) -> None:
    rows = dense_rows(forward, *flat(texts), side, lead)
    assert rows.dtype == np.float32
    for text, row in zip(texts, rows, strict=True):
        expected = unit(VECTORS[side][text].sum(0))
        if side is Side.ARTICLE and lead:
            expected = unit(expected + unit(VECTORS[side][text[:lead]].sum(0)))
        assert row == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("mix", [0.0, 0.35, 0.9])
@pytest.mark.parametrize("step", [1, 40, 10**6])
def test_similarity_search_and_vectors_give_the_mixed_cosine_of_every_pair(
    mix: float, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("encoder.embeddings.SCORES_AT_ONCE", step)
    a, b = some(13, 1, mix), some(9, 2, mix)
    exact = exact_scores(a, b)
    score = a.similarity(b)
    assert score.dtype == np.float32
    assert score.shape == (13, 9)
    np.testing.assert_allclose(score, exact, atol=1e-6)
    assert np.abs(score).max() <= 1
    for k in (1, 4, 9, 20):
        scores, places = a.search(b, k)
        assert (scores.dtype, scores.shape, places.shape) == (np.float32, *[(13, min(k, 9))] * 2)
        np.testing.assert_allclose(scores, -np.sort(-exact, axis=1)[:, :k], atol=1e-6)
        np.testing.assert_allclose(scores, np.take_along_axis(exact, places, 1), atol=1e-6)
        assert all(len(set(row)) == min(k, 9) for row in places.tolist())
    left, right = a.as_vectors(), b.as_vectors()
    assert (left.format, left.shape, left.dtype) == ("csr", (13, 7 + SLOTS), np.float32)
    np.testing.assert_allclose((left @ right.T).toarray(), exact, atol=1e-6)
    angles = cosine_similarity(left, right)  # the same, where both halves are there
    whole = np.outer(left.power(2).sum(1) > 0.99, right.power(2).sum(1) > 0.99)
    np.testing.assert_allclose(angles[whole], exact[whole], atol=1e-6)


def wide(n: int, seed: int) -> Embeddings:
    """As wide as a model's: enough axes that a matrix product rounds by its shape."""
    rng = np.random.default_rng(seed)
    return replace(some(n, seed), dense=unit_rows(rng.standard_normal((n, 300)).astype(np.float32)))


def test_a_score_is_the_same_in_any_company_and_reaches_the_threshold_it_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    posts, articles = wide(700, 1), wide(50, 2)
    score = posts.similarity(articles)
    pairs = np.argwhere(np.full(score.shape, True))
    exact = pair_scores(posts, articles, pairs).reshape(score.shape)
    np.testing.assert_array_equal(score, exact, "to the bit, as a worker scores")
    monkeypatch.setattr("encoder.embeddings.COLUMNS_AT_ONCE", 7)
    np.testing.assert_array_equal(posts[3:30].similarity(articles), exact[3:30])
    best, places = posts.search(articles, 5)
    order = np.argsort(-exact, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(best, np.take_along_axis(exact, order, 1))
    np.testing.assert_array_equal(places, order)
    cut = thresholds(posts, articles, 0.01)
    assert ((score >= cut).sum(axis=0) == 7).all(), "the post that makes the threshold reaches it"


def test_of_equal_scores_a_search_takes_the_first() -> None:
    nothing = Embeddings(np.zeros((30, 7), np.float32), SparseRows.empty(30), 0.5, "d")
    scores, places = some(4).search(nothing, 5)
    assert not scores.any()
    np.testing.assert_array_equal(places, [range(5)] * 4)
    one = wide(1, 3)
    places = wide(9, 4).search(one[np.zeros(500, int)], 3)[1]  # equal texts in other columns
    np.testing.assert_array_equal(places, [range(3)] * 9)
    assert [result.shape for result in some(4).search(some(0))] == [(4, 0), (4, 0)]
    assert some(0).search(some(4))[1].shape == (0, 4)


def test_a_search_needs_no_room_for_all_scores_and_similarity_holds_them_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many, others = some(30_000), some(4000, 1)
    many.search(others[:9], 3)
    assert room_of(lambda: many.search(others, 3)) < 30_000 * 4000 * 4 / 2
    monkeypatch.setattr("encoder.embeddings.SCORES_AT_ONCE", 2**20)
    few = many[:3000]
    few.similarity(others[:9])
    assert room_of(lambda: few.similarity(others)) < 1.5 * 3000 * 4000 * 4
