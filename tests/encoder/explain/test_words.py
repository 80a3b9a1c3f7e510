"""Explanations as users get them: of whole words, against the oracle and the score."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import encoder
from encoder.backends import choose
from encoder.embeddings import Embeddings
from encoder.explain.reference import ReferenceReader
from encoder.explain.words import Explainer, word_parts
from encoder.model.config import AstConfig, Side
from encoder.model.weights import CODES, F32, SCALES, Weights, random_weights
from encoder.score.lexical import NO_SLOT, SparseRows
from encoder.text.tokenizer import Word
from tests.encoder.explain.held import parts_and_biases, settled
from tests.encoder.reference import reference_star
from tests.encoder.small import TOPICS, WORDS, small_model

VOCABULARY = 12
NO_WORDS = SparseRows.empty(1)


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
def test_every_word_has_its_part_and_the_rest_is_the_biases(
    name: str, enc: encoder.Encoder, text: str
) -> None:
    """The sum alone proves nothing, as "" would take any error: each part is checked, and ""."""
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


def some_words(rng: np.random.Generator, count: int) -> list[Word]:
    return [
        Word(f"w{i}", tuple(rng.integers(0, VOCABULARY, rng.integers(0, 3)).tolist()), slot, 1.5)
        for i, slot in enumerate(rng.integers(0, 6, count).tolist())
    ]


def test_pairs_are_explained_as_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encoder.explain.words.PAIRS_AT_ONCE", 4)
    rng = np.random.default_rng(2)
    config = AstConfig(dim=7, heads=2, head_dim=3, residual=True, post_tokens=6)
    explainer = Explainer(random_weights(config, VOCABULARY, seed=1), None)
    posts = [some_words(rng, n) for n in (5, 0, 9, 1)]
    posts.append([Word("?", (), NO_SLOT, 0.0), Word("flood", (), 4, 1.5)])
    dense = rng.standard_normal((3, 7)).astype(np.float32)
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    lexical = SparseRows(
        np.array([0, 2, 2, 4]), np.array([1, 4, 0, 5], np.int32),
        np.array([0.6, 0.8, 0.8, 0.6], np.float32),
    )  # fmt: skip
    articles = Embeddings(dense, lexical, 0.4, "ab")
    pairs = [(2, 0), (0, 2), (1, 1), (2, 2), (4, 0), (3, 0), (0, 0), (4, 1)]
    found = explainer.contributions(posts, articles, pairs)
    for (post, k), parts in zip(pairs, found, strict=True):
        (alone,) = explainer.contributions([posts[post]], articles[k : k + 1], [(0, 0)])
        assert [word for word, _ in parts] == [word.text for word in posts[post]]
        assert [p for _, p in parts] == pytest.approx([p for _, p in alone], abs=1e-6)
    assert found[4] == [("?", 0.0), ("flood", pytest.approx(0.4 * 0.8))]
    assert explainer.contributions(posts, articles, []) == []


def test_words_that_look_at_no_token_and_a_vector_of_length_zero_have_no_part() -> None:
    explainer = Explainer(relay_watcher([0.0], window=0, query=0, shift=0), None)
    article = Embeddings(np.ones((1, 1), np.float32), NO_WORDS, 0.0, "ab")
    words = [Word("x", (0,), NO_SLOT, 0), Word("in", (), NO_SLOT, 0)]
    assert explainer.contributions([words], article, [(0, 0)]) == [[("x", 0.0), ("in", 0.0)]]


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
    looked = look(weights, ids, side)
    assert (looked >= 0).all()
    assert looked.sum() == pytest.approx(1, abs=1e-5)
    star = reference_star(weights, weights.embedding[ids].astype(np.float64)).star[-1]
    seen, off = star[:, 1:].mean(0), float(10.0 ** (model[0].layers - 6))
    if seen.sum() > 10 * off:
        np.testing.assert_allclose(looked, seen / seen.sum(), atol=off / seen.sum())


def look(weights: Weights, ids: list[int], side: Side = Side.POST) -> F32:
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


def test_where_the_star_sees_the_relay_alone_the_ring_speaks() -> None:
    # Every node becomes 0 and the relay is their mean, 8/3. In the ring everyone sees the largest
    # of its neighbours: the first and the second token see the first, the third sees itself.
    looked = look(relay_watcher([1, 2, 3, 4], window=1, query=100, shift=0), [3, 0, 2])
    np.testing.assert_allclose(looked, [2 / 3, 0, 1 / 3], atol=1e-6)
    assert looked[1] == 0


def test_where_nothing_looks_at_the_tokens_all_count_alike() -> None:
    # Every token asks for its opposite, and the mean is nearer to that than itself.
    looked = look(relay_watcher([1, -1], window=0, query=-100, shift=-1), [0, 1, 1, 0])
    assert looked.tolist() == [0.25] * 4


def test_a_text_without_tokens_draws_no_attention() -> None:
    assert len(look(relay_watcher([1], window=0, query=0, shift=0), [])) == 0


@pytest.mark.parametrize(("name", "enc"), ENCODERS, ids=[name for name, _ in ENCODERS])
def test_the_words_share_the_attention_of_their_tokens(name: str, enc: encoder.Encoder) -> None:
    for text in (*TOPICS, "zebra, police! riverbank", "", "?" * 40):
        words = enc._tokenizer.words(text, Side.POST)
        ids = [i for word in words for i in word.ids][: enc.model.weights.config.post_tokens]
        tokens = iter(look(enc.model.weights, ids).tolist())
        wanted = [sum(next(tokens, 0) for _ in word.ids) for word in words]
        found = enc.explain(text)
        assert [word for word, _ in found] == [word.text for word in words]
        assert [share for _, share in found] == pytest.approx(wanted, abs=2e-3)
        assert sum(share for _, share in found) == pytest.approx(1 if ids else 0, abs=1e-5)


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
