import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import encoder
from encoder.explain import reference as explained
from encoder.explain.reference import ReferenceReader
from encoder.model.config import AstConfig, Side
from encoder.model.weights import CODES, F32, I32, I64, SCALES, Weights, random_weights
from encoder.score.lexical import NO_SLOT, SparseRows
from encoder.text.tokenizer import Word
from tests.encoder.slow_star import affine, reference, reference_star, token_shares
from tests.encoder.small_model import TOPICS, WORDS, small_model, torch_readers

VOCABULARY = 12


ENCODERS = [
    (name, encoder.Encoder(model, torch_readers(model)))
    for name, model in (
        ("residual", small_model(star="paper")),
        ("paper", small_model(star="paper", residual=False)),
        ("dense alone", small_model(star="paper", mix=0)),
        ("two layers", small_model(star="paper", layers=2)),
    )
]


@pytest.mark.parametrize(("name", "enc"), ENCODERS, ids=[name for name, _ in ENCODERS])
@settings(max_examples=12)
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
        expected = [
            (1 - mix) * sum(next(tokens, 0) for _ in word.ids) + mix * lexical[i]
            for i, word in enumerate(words)
        ]
        result = enc.explain(text, A, k)
        assert [word for word, _ in result] == [*(word.text for word in words), ""]
        parts = [part for _, part in result]
        assert parts == pytest.approx([*expected, (1 - mix) * biases], abs=2e-3)
        assert sum(parts) == pytest.approx(enc.posts([text]).similarity(A)[0, k], abs=1e-6)


def word_shares(words: list[Word], article: SparseRows) -> list[float]:
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


@settings(max_examples=40)
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
        expected = [sum(next(tokens, 0) for _ in word.ids) for word in words]
        result = enc.explain(text)
        assert [word for word, _ in result] == [word.text for word in words]
        assert [share for _, share in result] == pytest.approx(expected, abs=2e-3)
        assert sum(share for _, share in result) == pytest.approx(1 if ids else 0, abs=1e-5)


ONE_PAIR = np.zeros((1, 2), np.int64)
SHAPES = (
    AstConfig(dim=7, heads=2, head_dim=3, window=2, layers=1, residual=True),
    AstConfig(dim=5, heads=1, head_dim=4, window=0, layers=2),
    AstConfig(dim=9, heads=3, head_dim=2, window=3, layers=3, residual=True),
    AstConfig(dim=1, heads=1, head_dim=1, window=1, layers=1),
)
token_texts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9, unique=True)


@cache
def model(shape: int, seed: int) -> tuple[Weights, ReferenceReader]:
    weights = random_weights(SHAPES[shape], VOCABULARY, seed)
    return weights, ReferenceReader(weights)


def side_by_side(token_texts: Sequence[Sequence[int]]) -> tuple[I32, I64]:
    return np.concatenate(token_texts).astype(np.int32), np.cumsum(
        [0, *map(len, token_texts)], dtype=np.int64
    )


def unit_vectors(count: int, dim: int, seed: int) -> F32:
    rows = np.random.default_rng(seed).standard_normal((count, dim), np.float32)
    unit: F32 = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


@settings(max_examples=40)
@given(st.integers(0, len(SHAPES) - 1), st.integers(0, 9), token_texts, st.sampled_from(Side))
def test_parts_are_what_the_cosine_loses_without_the_token(
    shape: int, seed: int, text: list[int], side: Side
) -> None:
    weights, reader = model(shape, seed)
    assume(settled(weights, text))
    row = unit_vectors(1, weights.config.dim, seed)
    parts = reader.parts(*side_by_side([text]), side, ONE_PAIR, row)
    expected, biases = parts_and_biases(weights, text, side, row[0])
    # Every random layer makes the rounding before it larger.
    allowed = 10.0 ** (weights.config.layers - 5) * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(parts, expected, atol=allowed)
    y = reference(weights, text, side)
    cosine = row[0] @ y / np.linalg.norm(y)
    assert parts.sum(dtype=np.float64) + biases == pytest.approx(cosine, abs=len(text) * allowed)


def test_many_pairs_have_the_parts_of_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explained, "PAIRS_AT_ONCE", 3)
    weights, reader = model(0, 1)
    given = [[3, 1, 4], [5], [9, 2, 6, 0], [7, 8]]
    pairs = np.array([[2, 0], [0, 2], [1, 1], [2, 2], [3, 0], [0, 0], [1, 2]])
    rows = unit_vectors(3, weights.config.dim, 2)
    parts = reader.parts(*side_by_side(given), Side.POST, pairs, rows)
    alone = [
        reader.parts(*side_by_side([given[i]]), Side.POST, ONE_PAIR, rows[k : k + 1])
        for i, k in pairs
    ]
    np.testing.assert_allclose(parts, np.concatenate(alone), atol=1e-6)
    assert len(reader.parts(*side_by_side(given), Side.POST, pairs[:0], rows)) == 0


F64 = NDArray[np.float64]


def held(weights: Weights, ids: Sequence[int], side: Side) -> Callable[[F64], F64]:
    """Token vectors [n, d] → y [d], affine: attention, maxima and gates are those of these ids."""
    n, c = len(ids), weights.config.window
    trace = reference_star(weights, embedded(weights, ids))
    highest = trace.nodes[-1].argmax(0)

    def y_of(tokens: F64) -> F64:
        nodes, relay = list(tokens), tokens.mean(0)
        for layer, (ring, star) in enumerate(zip(trace.ring, trace.star, strict=True)):
            around = [nodes[max(0, i - c) : i + c + 1] for i in range(n)]
            nodes = [
                mixed(weights, f"layers.{layer}.ring", p, [*around[i], tokens[i], relay])
                for i, p in enumerate(ring)
            ]
            relay = mixed(weights, f"layers.{layer}.star", star, [relay, *nodes])
        y: F64 = (np.array([nodes[i][d] for d, i in enumerate(highest)]) + relay) / 2
        if weights.config.residual:
            y = weights["residual.gain"] * y + token_shares(weights, ids, side) @ tokens
        return y

    assert n > 0
    return y_of


def embedded(weights: Weights, ids: Sequence[int]) -> F64:
    vectors: F64 = weights.embedding[np.asarray(ids)].astype(np.float64)
    return vectors


def mixed(weights: Weights, part: str, p: F64, context: Sequence[F64]) -> F64:
    heads = len(weights[f"{part}.alpha"])
    values = np.stack([affine(weights, f"{part}.value", x).reshape(heads, -1) for x in context], 1)
    return affine(weights, f"{part}.output", np.einsum("he,hek->hk", p, values).ravel())


def parts_and_biases(
    weights: Weights, ids: Sequence[int], side: Side, row: F32 | F64
) -> tuple[F64, float]:
    """What the cosine of y with a row loses with each token's vector, and what is left of it."""
    y_of, whole = held(weights, ids, side), embedded(weights, ids)
    y = y_of(whole)
    keep = 1 - np.eye(len(ids))
    gone = np.array([row @ (y - y_of(whole * k[:, None])) for k in keep])
    return gone / (float(np.linalg.norm(y)) or 1.0), biases_part(weights, ids, side, row)


def biases_part(weights: Weights, ids: Sequence[int], side: Side, row: F32 | F64) -> float:
    """What the cosine of y with a row is without any token's vector."""
    y_of, whole = held(weights, ids, side), embedded(weights, ids)
    return float(row @ y_of(0 * whole)) / (float(np.linalg.norm(y_of(whole))) or 1.0)


def settled(weights: Weights, ids: Sequence[int]) -> bool:
    """Whether no rounding can change which token max-pooling takes."""
    nodes = reference_star(weights, embedded(weights, ids)).nodes[-1]
    if len(nodes) == 1:
        return True
    second, first = np.sort(nodes, axis=0)[-2:]
    return bool((first - second).min() > 0.01)
