"""The parts of words against a slow loop over their definition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.embeddings import Embeddings
from encoder.explain.totals import word_parts
from encoder.model.weights import F32
from encoder.score.lexical import NO_SLOT, SparseRows
from encoder.text.tokenizer import Word

IDF = (0.0, 0.5, 3.0, 2.0, 1.25)


@st.composite
def word_lists(draw: st.DrawFn) -> list[Word]:
    slots = draw(st.lists(st.integers(NO_SLOT, 4), max_size=9))
    return [
        Word(f"w{i}", (0,) * draw(st.integers(0, 3)), slot, IDF[slot] if slot >= 0 else 0.0)
        for i, slot in enumerate(slots)
    ]


def slowly(words: list[Word], tokens: list[float], article: dict[int, float], mix: float) -> F32:
    """(1 - mix) · the word's tokens + mix · its share of what its slot gives to the cosine."""
    slots = [word.slot for word in words if word.slot != NO_SLOT]
    row = {slot: (1 + math.log(slots.count(slot))) * IDF[slot] for slot in slots}
    length = math.hypot(*row.values()) or 1.0
    parts, left = [], list(tokens)
    for word in words:
        own, left = left[: len(word.ids)], left[len(word.ids) :]
        same = 0.0
        if word.slot in row:
            same = row[word.slot] / length * article.get(word.slot, 0) / slots.count(word.slot)
        parts.append((1 - mix) * sum(own) + mix * same)
    return np.array(parts, np.float32)


@settings(max_examples=60, deadline=None)
@given(st.lists(word_lists(), min_size=1, max_size=4), st.integers(1, 9), st.data())
def test_parts_of_words_are_their_tokens_and_their_slots(
    texts: list[list[Word]], cap: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    articles = [{int(s): float(rng.uniform(0, 1)) for s in rng.permutation(7)[:3]}, {}]
    held = SparseRows(
        np.array([0, 3, 3]),
        np.array(sorted(articles[0]), np.int32),
        np.array([articles[0][s] for s in sorted(articles[0])], np.float32),
    )
    place = st.tuples(st.integers(0, len(texts) - 1), st.integers(0, 1))
    pairs = data.draw(st.lists(place, min_size=1, max_size=6))
    counts = [min(cap, sum(len(word.ids) for word in texts[text])) for text, _ in pairs]
    tokens = [rng.standard_normal(count).astype(np.float32) for count in counts]
    embedded = Embeddings(np.zeros((2, 1), np.float32), held, 0.6, "ab")
    found = word_parts(texts, embedded, np.array(pairs), np.concatenate(tokens), cap)
    for (text, k), own, parts in zip(pairs, tokens, found, strict=True):
        wanted = slowly(texts[text], own.tolist(), articles[k], 0.6)
        assert [word for word, _ in parts] == [word.text for word in texts[text]]
        assert [part for _, part in parts] == pytest.approx(wanted.tolist(), abs=1e-6)
