"""Explanations of whole words against the oracle and the score."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import encoder
from encoder.backends import choose
from encoder.explain.reference import ReferenceReader
from encoder.model.config import AstConfig, Side
from encoder.model.weights import CODES, F32, SCALES, Weights, random_weights
from encoder.score.lexical import NO_SLOT, SparseRows
from encoder.text.tokenizer import Word
from tests.encoder.explain.held import parts_and_biases, settled
from tests.encoder.reference import reference_star
from tests.encoder.small import TOPICS, WORDS, small_model

VOCABULARY = 12


ENCODERS = [
    (name, encoder.Encoder(model, choose._torch(model, "cpu", None), "torch"))
    for name, model in (
        ("residual", small_model(star="paper")),
        ("paper", small_model(star="paper", residual=False)),
        ("dense alone", small_model(star="paper", mix=0)),
        ("two layers", small_model(star="paper", layers=2)),
    )
]


@pytest.mark.parametrize(("name", "enc"), ENCODERS, ids=[name for name, _ in ENCODERS])
@settings(max_examples=12, deadline=None)
@given(text=st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join))
def test_every_word_has_its_contribution_and_the_rest_is_the_biases(
    name: str, enc: encoder.Encoder, text: str
) -> None:
    """The sum alone proves nothing, as "" would take any error."""
    weights, mix = enc.model.weights, enc.model.mix
    words = enc._tokenizer.words(text, Side.POST)
    ids = [i for word in words for i in word.ids][: weights.config.post_tokens]
    assume(settled(weights, ids))
    A = enc.articles([("storm", "the river storm flood in the city"), "cat music"])
    for k in range(2):
        dense, biases = parts_and_biases(weights, ids, Side.POST, A.dense[k])
        tokens, lexical = iter(dense.tolist()), word_shares(words, A[k : k + 1].lexical)
        wanted = [
            (1 - mix) * sum(next(tokens, 0) for _ in word.ids) + mix * lexical[i]
            for i, word in enumerate(words)
        ]
        found = enc.explain(text, A, k)
        assert [word for word, _ in found] == [*(word.text for word in words), ""]
        parts = [part for _, part in found]
        assert parts == pytest.approx([*wanted, (1 - mix) * biases], abs=2e-3)
        assert sum(parts) == pytest.approx(enc.posts([text]).similarity(A)[0, k], abs=1e-6)


def word_shares(words: list[Word], article: SparseRows) -> list[float]:
    """Each word's share of the lexical cosine, from its definition."""
    slots = [word.slot for word in words]
    row = {word.slot: (1 + math.log(slots.count(word.slot))) * word.weight for word in words}
    row.pop(NO_SLOT, None)
    length = math.hypot(*row.values()) or 1.0
    there = dict(zip(article.slots.tolist(), article.weights.tolist(), strict=True))
    return [row.get(s, 0.0) / length * there.get(s, 0.0) / slots.count(s) for s in slots]


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
texts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=10)


@settings(max_examples=40, deadline=None)
@given(models, texts, st.sampled_from(Side))
def test_attention_is_the_last_stars_without_the_relay(
    model: tuple[AstConfig, int, int], ids: list[int], side: Side
) -> None:
    weights = random_weights(*model)
    attention = attention_of(weights, ids, side)
    assert (attention >= 0).all()
    assert attention.sum() == pytest.approx(1, abs=1e-5)
    star = reference_star(weights, weights.embedding[ids].astype(np.float64)).star[-1]
    seen, off = star[:, 1:].mean(0), float(10.0 ** (model[0].layers - 6))
    if seen.sum() > 10 * off:
        np.testing.assert_allclose(attention, seen / seen.sum(), atol=off / seen.sum())


def attention_of(weights: Weights, ids: list[int], side: Side = Side.POST) -> F32:
    return ReferenceReader(weights).attention(np.array(ids, np.int32), side)


def relay_watcher(embedding: list[float], window: int, query: float, shift: float) -> Weights:
    """A model of one dimension whose star sees the relay alone, and whose ring asks `query`·h."""
    weights = random_weights(AstConfig(1, 1, 1, window), len(embedding))
    weights[CODES][:, 0], weights[SCALES][:] = np.sign(embedding), np.abs(embedding)
    for part, (weight, bias) in {"ring": (query, 0), "star": (0, 100)}.items():
        values = {"alpha": 2, "key.weight": 1, "query.weight": weight, "query.bias": bias}
        values |= {"output.bias": shift}
        for name, tensor in weights.tensors.items():
            if name.startswith(f"layers.0.{part}."):
                tensor[:] = values.get(name.removeprefix(f"layers.0.{part}."), 0)
    return weights


def test_where_the_star_sees_only_the_relay_the_ring_decides() -> None:
    # Every node becomes 0 and the relay is their mean, 8/3. In the ring everyone sees the largest
    # of its neighbours: the first and the second token see the first, the third sees itself.
    attention = attention_of(relay_watcher([1, 2, 3, 4], window=1, query=100, shift=0), [3, 0, 2])
    np.testing.assert_allclose(attention, [2 / 3, 0, 1 / 3], atol=1e-6)
    assert attention[1] == 0


def test_where_no_attention_reaches_the_tokens_all_count_alike() -> None:
    # Every token asks for its opposite, and the mean is nearer to that than itself.
    attention = attention_of(relay_watcher([1, -1], window=0, query=-100, shift=-1), [0, 1, 1, 0])
    assert attention.tolist() == [0.25] * 4


@pytest.mark.parametrize(("name", "enc"), ENCODERS, ids=[name for name, _ in ENCODERS])
def test_the_words_share_the_attention_of_their_tokens(name: str, enc: encoder.Encoder) -> None:
    for text in (*TOPICS, "zebra, police! riverbank", "", "?" * 40):
        words = enc._tokenizer.words(text, Side.POST)
        ids = [i for word in words for i in word.ids][: enc.model.weights.config.post_tokens]
        tokens = iter(attention_of(enc.model.weights, ids).tolist())
        wanted = [sum(next(tokens, 0) for _ in word.ids) for word in words]
        found = enc.explain(text)
        assert [word for word, _ in found] == [word.text for word in words]
        assert [share for _, share in found] == pytest.approx(wanted, abs=2e-3)
        assert sum(share for _, share in found) == pytest.approx(1 if ids else 0, abs=1e-5)
