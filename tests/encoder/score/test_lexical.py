from collections import Counter
from itertools import chain
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from encoder.errors import InputError
from encoder.score.lexical import NO_SLOT, SLOTS, Idf, SparseRows, article_rows, post_rows, slot

Row = dict[int, float]
LEAD = 3
few_slots = st.integers(0, 12).map(lambda place: place * (SLOTS // 12 - 1))
weight = st.floats(-4, 4, width=32)
dict_rows = st.lists(st.dictionaries(few_slots, weight, max_size=8), max_size=6)
words = st.lists(
    st.sampled_from(["storm", "flood", "Flood", "river", "the", "THE", "!"]), max_size=30
)


def sparse(rows: list[Row]) -> SparseRows:
    pairs = [pair for row in rows for pair in sorted(row.items())]
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return SparseRows(
        indptr,
        np.array([place for place, _ in pairs], np.int32),
        np.array([value for _, value in pairs], np.float32),
    )


def dicts(rows: SparseRows) -> list[Row]:
    return [
        dict(zip(rows.slots[a:b].tolist(), rows.weights[a:b].tolist(), strict=True))
        for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
    ]


def test_the_slot_of_a_word_is_the_same_everywhere_and_always() -> None:
    slots = [slot(word) for word in ("toronto", "flood", "2012", "漢")]
    assert slots == [140899, 9047, 152723, 16178]
    assert slot("Toronto") == slot("TORONTO") == slot("toronto")
    assert slot("Zoë") == slot("ZOE\u0301".replace("E\u0301", "Ë")) == slot("zoe")


@pytest.mark.parametrize("word", ["", "!", "…", "_", "\u0301", "→"])
def test_a_word_without_a_letter_or_digit_has_no_slot(word: str) -> None:
    assert slot(word) == NO_SLOT


def test_idf_is_the_log_of_how_rare_a_word_is() -> None:
    idf = Idf.fit([["storm", "Storm", "the"], ["the", "!"], ["the"]])
    weights = idf.table[[slot(word) for word in ("the", "STORM", "never")]]
    assert weights == pytest.approx([log(4 / 4), log(4 / 2), log(4 / 1)])
    assert idf.table.dtype == np.float32


@pytest.mark.parametrize(
    "table",
    [
        np.zeros(SLOTS - 1, np.float32),
        np.zeros(SLOTS),
        np.full(SLOTS, np.nan, np.float32),
        np.full(SLOTS, -1, np.float32),
    ],
)
def test_a_nonsensical_idf_is_refused(table: NDArray[np.float32]) -> None:
    with pytest.raises(InputError, match="idf"):
        Idf(table)


@given(st.lists(words, max_size=5))
def test_words_are_weighted_by_frequency_and_idf(texts: list[list[str]]) -> None:
    idf = Idf(np.linspace(0, 9, SLOTS, dtype=np.float32))
    slots = [[slot(word) for word in text if slot(word) != NO_SLOT] for text in texts]
    offsets = np.cumsum([0, *map(len, slots)]).astype(np.int64)
    flat = np.array(list(chain.from_iterable(slots)), np.int32)
    rows_of = flat, idf.table[flat], offsets
    posts, articles = dicts(post_rows(*rows_of)), dicts(article_rows(*rows_of, LEAD))
    for text, post, article in zip(slots, posts, articles, strict=True):
        counts, weight = Counter(text), dict(zip(text, idf.table[text].tolist(), strict=True))
        as_post = {at: (1 + log(tf)) * weight[at] for at, tf in counts.items()}
        as_article = {
            at: (1 + log(min(tf, 2))) * weight[at] * (2 if at in text[:LEAD] else 1)
            for at, tf in counts.items()
        }
        for row, raw in ((post, as_post), (article, as_article)):
            length = sum(value**2 for value in raw.values()) ** 0.5
            assert row == pytest.approx({at: x / length for at, x in raw.items()}, abs=1e-6)
            assert list(row) == sorted(row)


def test_a_word_of_all_texts_has_no_entry() -> None:
    idf = Idf.fit([["the"], ["the", "storm"]])
    slots = np.array([slot("the"), slot("the"), slot("storm")], np.int32)
    rows = post_rows(slots, idf.table[slots], np.array([0, 1, 3], np.int64))
    assert dicts(rows) == [{}, {slot("storm"): 1.0}]


@given(dict_rows, dict_rows, st.data())
def test_dot_is_the_dictionaries_dot_in_every_batch(
    left: list[Row], right: list[Row], data: st.DataObject
) -> None:
    whole = sparse(left).dot(sparse(right))
    assert whole.dtype == np.float32
    products = [
        [sum(v * b[place] for place, v in a.items() if place in b) for b in right] for a in left
    ]
    np.testing.assert_allclose(whole, np.reshape(products, whole.shape), rtol=1e-6, atol=1e-6)
    some = np.array(data.draw(st.permutations(range(len(left)))), np.int64)
    others = np.array(data.draw(st.permutations(range(len(right)))), np.int64)
    shuffled = sparse(left)[some].dot(sparse(right)[others])
    np.testing.assert_array_equal(shuffled, whole[some][:, others])


@given(dict_rows, st.data())
def test_rows_are_indexed_like_a_list(rows: list[Row], data: st.DataObject) -> None:
    both, dictionaries = sparse(rows), dicts(sparse(rows))
    cut = data.draw(st.slices(len(rows)))
    assert dicts(both[cut]) == dictionaries[cut]
    chosen = data.draw(st.lists(st.integers(-len(rows), len(rows) - 1), max_size=5)) if rows else []
    assert dicts(both[np.array(chosen, np.int64)]) == [dictionaries[i] for i in chosen]
    mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), bool
    )
    assert dicts(both[mask]) == [row for row, yes in zip(dictionaries, mask, strict=True) if yes]


@given(dict_rows)
def test_unit_rows_have_length_one_or_are_zero(rows: list[Row]) -> None:
    for row, unit in zip(rows, dicts(sparse(rows).unit()), strict=True):
        length = float(np.linalg.norm(np.array(list(row.values()), np.float64)))
        expected = {place: value / length if length else 0.0 for place, value in row.items()}
        assert unit == pytest.approx(expected, abs=1e-6)


def test_empty_rows() -> None:
    empty = SparseRows.empty(3)
    assert len(empty) == 3
    assert dicts(empty) == [{}, {}, {}]
    assert empty.dot(sparse([{1: 1.0}])).tolist() == [[0], [0], [0]]
    assert len(SparseRows.concat([])) == 0
    with pytest.raises(InputError, match="list of rows"):
        empty[1]  # type: ignore[index]


@pytest.mark.parametrize(
    ("indptr", "slots", "weights"),
    [
        ([], [], []),
        ([0, 1], [1, 2], [1, 1]),
        ([0, 2], [2, 1], [1, 1]),
        ([0, 2], [1, 1], [1, 1]),
        ([0, 1], [SLOTS], [1]),
        ([0, 1], [1], [np.nan]),
        ([0, 2, 1, 2], [1, 2], [1, 1]),
    ],
)
def test_malformed_rows_are_refused(
    indptr: list[int], slots: list[int], weights: list[float]
) -> None:
    with pytest.raises(InputError, match="sparse rows"):
        SparseRows(
            np.array(indptr, np.int64), np.array(slots, np.int32), np.array(weights, np.float32)
        )
