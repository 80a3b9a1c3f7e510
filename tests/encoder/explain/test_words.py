"""Explanations: exact for every token, not only in the sum, and for the score of a pair."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from encoder.explain.reference import Trace, read
from encoder.explain.words import attention, capped, contributions, explain_pair, explain_text
from encoder.model.config import AstConfig, Side
from encoder.model.weights import F32, I32, Attention, Weights, random_weights
from encoder.score.lexical import SLOTS, Idf
from encoder.text.tokenizer import Tokenizer, Word
from encoder.text.vocabulary import WordLevel
from tests.encoder.explain.test_reference import VOCABULARY, Model, models, texts, tolerance
from tests.encoder.reference import affine, reference, reference_star

F64 = NDArray[np.float64]


def frozen(trace: Trace, tokens: F64) -> F64:
    """y of other token vectors under the attention, the maxima and the gates of `trace`."""
    n, c = len(tokens), trace.weights.config.window
    nodes, relay = list(tokens), tokens.mean(0)
    for layer, kept in zip(trace.weights.layers, trace.rounds, strict=True):
        after = []
        for i in range(n):
            columns = [o for o in range(2 * c + 1) if 0 <= i + o - c < n] + [2 * c + 1, 2 * c + 2]
            context = [nodes[i + o - c] for o in columns[:-2]] + [tokens[i], relay]
            after.append(spread(layer.ring, kept.ring[i][:, columns], context))
        nodes = after
        relay = spread(layer.star, kept.star, [relay, *nodes])
    y: F64 = (np.array([nodes[i][d] for d, i in enumerate(trace.highest)]) + relay) / 2
    if trace.weights.residual is not None and trace.shares is not None:
        y = trace.weights.residual.gain * y + trace.shares.astype(np.float64) @ tokens
    return y


def spread(part: Attention, p: F32, context: Sequence[F64]) -> F64:
    """One attention with its weights given."""
    heads = len(part.alpha)
    values = [affine(part.value, x).reshape(heads, -1) for x in context]
    mixed = [
        sum((float(s) * v[h] for s, v in zip(p[h], values, strict=True)), np.zeros(1))
        for h in range(heads)
    ]
    return affine(part.output, np.concatenate(mixed))


@settings(max_examples=40, deadline=None)
@given(models, texts, st.sampled_from(Side), st.integers(0, 99))
def test_contributions_sum_to_the_oracles_product(
    model: Model, ids: I32, side: Side, seed: int
) -> None:
    weights = random_weights(*model)
    direction = np.random.default_rng(seed).standard_normal(weights.config.dim, np.float32)
    parts, rest = contributions(weights, ids, side, direction)
    y = reference(weights, ids.tolist(), side)
    size = max(1.0, float(np.linalg.norm(y) * np.linalg.norm(direction)))
    assert parts.shape == ids.shape
    assert parts.sum(dtype=np.float64) + rest == pytest.approx(
        direction @ y, abs=tolerance(model) * size
    )


@settings(max_examples=40, deadline=None)
@given(models, texts, st.sampled_from(Side), st.integers(0, 99))
def test_each_tokens_part_is_what_goes_without_it(
    model: Model, ids: I32, side: Side, seed: int
) -> None:
    weights = random_weights(*model)
    direction = np.random.default_rng(seed).standard_normal(weights.config.dim, np.float32)
    parts, rest = contributions(weights, ids, side, direction)
    trace = read(weights, ids, side)
    whole = trace.tokens.astype(np.float64)
    y = frozen(trace, whole)
    size = max(1.0, float(np.abs(y).max() * np.abs(direction).sum()))
    for i, part in enumerate(parts):
        without = whole.copy()
        without[i] = 0
        assert part == pytest.approx(direction @ (y - frozen(trace, without)), abs=1e-5 * size)
    nothing = direction @ frozen(trace, np.zeros_like(whole))
    assert rest == pytest.approx(nothing, abs=1e-5 * size)


def test_a_text_without_tokens_has_no_parts() -> None:
    weights = random_weights(AstConfig(dim=4, heads=1, head_dim=2), VOCABULARY)
    none = np.zeros(0, np.int32)
    parts, rest = contributions(weights, none, Side.POST, np.ones(4, np.float32))
    assert (len(parts), rest, len(attention(weights, none, Side.POST))) == (0, 0.0, 0)


@settings(max_examples=40, deadline=None)
@given(models, texts, st.sampled_from(Side))
def test_attention_is_the_last_stars_without_the_relay(model: Model, ids: I32, side: Side) -> None:
    weights = random_weights(*model)
    looked = attention(weights, ids, side)
    assert (looked >= 0).all()
    assert looked.sum() == pytest.approx(1, abs=1e-5)
    star = reference_star(weights, weights.embedding[ids].astype(np.float64)).star[-1]
    seen = star[:, 1:].mean(0)
    if seen.sum() > 10 * tolerance(model):
        np.testing.assert_allclose(looked, seen / seen.sum(), atol=tolerance(model) / seen.sum())


def relay_watcher(embedding: list[float], window: int, query: float, shift: float) -> Weights:
    """A model of one dimension whose star sees the relay alone, and whose ring asks `query`·h."""
    weights = random_weights(AstConfig(1, 1, 1, window), len(embedding))
    weights.embedding[:, 0] = embedding
    for part in (weights.layers[0].ring, weights.layers[0].star):
        part.alpha[:] = 2
        part.key.weight[:], part.key.bias[:] = 1, 0
        part.value.weight[:], part.value.bias[:] = 0, 0
        part.output.weight[:], part.output.bias[:] = 0, shift
    weights.layers[0].ring.query.weight[:], weights.layers[0].ring.query.bias[:] = query, 0
    weights.layers[0].star.query.weight[:], weights.layers[0].star.query.bias[:] = 0, 100
    return weights


def test_where_the_star_sees_the_relay_alone_the_ring_speaks() -> None:
    # Every node becomes 0 and the relay is their mean, 8/3. In the ring everyone sees the largest
    # of its neighbours: the first and the second token see the first, the third sees itself.
    weights = relay_watcher([1, 2, 3, 4], window=1, query=100, shift=0)
    looked = attention(weights, np.array([3, 0, 2], np.int32), Side.POST)
    np.testing.assert_allclose(looked, [2 / 3, 0, 1 / 3], atol=1e-6)
    assert looked[1] == 0


def test_where_nothing_looks_at_the_tokens_all_count_alike() -> None:
    # Every token asks for its opposite, and the mean is nearer to that than itself.
    weights = relay_watcher([1, -1], window=0, query=-100, shift=-1)
    looked = attention(weights, np.array([0, 1, 1, 0], np.int32), Side.POST)
    assert looked.tolist() == [0.25] * 4


Pair = tuple[Model, list[Word], F32, tuple[I32, F32], float]


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """A model that reads 6 tokens of a post, a post, an article's rows and a mix."""
    config = AstConfig(
        dim=7,
        heads=2,
        head_dim=3,
        layers=1,
        residual=draw(st.booleans()),
        post_tokens=6,
    )
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    idf = rng.uniform(0, 5, 5)
    slots = draw(st.lists(st.integers(-1, 4), max_size=9))
    pieces = [draw(st.lists(st.integers(0, VOCABULARY - 1), max_size=3)) for _ in slots]
    words = [
        Word(f"w{i}", tuple(ids), slot, float(idf[slot]) if slot >= 0 else 0.0)
        for i, (slot, ids) in enumerate(zip(slots, pieces, strict=True))
    ]
    article = rng.standard_normal(7).astype(np.float32)
    article = article / np.linalg.norm(article) * draw(st.sampled_from([0, 1]))
    held = np.array(sorted(draw(st.sets(st.integers(0, 8)))), np.int32)
    values = rng.uniform(0.1, 1, len(held)).astype(np.float32)
    values /= max(1.0, float(np.linalg.norm(values)))
    model = (config, VOCABULARY, draw(st.integers(0, 999)))
    return model, words, article.astype(np.float32), (held, values), draw(st.floats(0, 0.99))


def lexical_cosine(words: list[Word], seen: tuple[I32, F32]) -> float:
    """The lexical half of a score, written from its definition."""
    row: dict[int, float] = {}
    for slot in {w.slot for w in words} - {-1}:
        same = [w for w in words if w.slot == slot]
        row[slot] = (1 + math.log(len(same))) * same[0].weight
    length = math.hypot(*row.values())
    there = {int(s): float(v) for s, v in zip(*seen, strict=True)}
    return sum(v * there.get(s, 0.0) for s, v in row.items()) / length if length else 0.0


@settings(max_examples=40, deadline=None)
@given(pairs(), st.sampled_from(Side))
def test_words_and_biases_make_the_score(pair: Pair, side: Side) -> None:
    model, words, article, seen, mix = pair
    weights = random_weights(*model)
    ids = np.array([i for w in words for i in w.ids][: weights.config.cap(side)], np.int32)
    y = reference(weights, ids.tolist(), side)
    length = float(np.linalg.norm(y)) or 1.0
    score = (1 - mix) * float(article @ y) / length + mix * lexical_cosine(words, seen)

    found = explain_pair(words, weights, side, mix, article, seen, score)

    assert [word for word, _ in found] == [*(w.text for w in words), ""]
    assert sum(part for _, part in found) == pytest.approx(score, abs=1e-12)
    biases = 0.0
    if len(ids):
        trace = read(weights, ids, side)
        biases = float(article @ frozen(trace, np.zeros(trace.tokens.shape))) / length
    assert found[-1][1] == pytest.approx((1 - mix) * biases, abs=1e-5)


def test_each_word_has_the_sum_of_its_pieces() -> None:
    config = AstConfig(dim=6, heads=2, head_dim=2, post_tokens=4)
    weights = random_weights(config, VOCABULARY, seed=1)
    words = [
        Word("hurricane", (1, 2), -1, 0),
        Word("in", (), -1, 0),
        Word("texas", (3, 4, 5), -1, 0),
    ]
    article = np.eye(6, dtype=np.float32)[2]
    nothing = (np.zeros(0, np.int32), np.zeros(0, np.float32))
    found = explain_pair(words, weights, Side.POST, 0.0, article, nothing, 0.5)
    ids = np.array([1, 2, 3, 4], np.int32)
    length = np.linalg.norm(reference(weights, ids.tolist(), Side.POST))
    parts, _ = contributions(weights, ids, Side.POST, article)
    wanted = [parts[:2].sum() / length, 0, parts[2:].sum() / length]
    np.testing.assert_allclose([part for _, part in found[:-1]], wanted, atol=1e-6)


def test_words_of_one_slot_share_its_product() -> None:
    weights = random_weights(AstConfig(dim=2, heads=1, head_dim=1), VOCABULARY)
    words = [Word("flood", (), 7, 2.0), Word("dam", (), 9, 1.0), Word("Flood", (), 7, 2.0)]
    seen = (np.array([7, 8], np.int32), np.array([0.6, 0.8], np.float32))
    found = explain_pair(words, weights, Side.POST, 0.5, np.zeros(2, np.float32), seen, 0.25)
    flood = 2 * (1 + math.log(2))
    half = 0.5 * flood / math.hypot(flood, 1) * 0.6 / 2
    assert [part for _, part in found] == pytest.approx([half, 0, half, 0.25 - 2 * half], abs=1e-6)


def test_the_parts_are_those_of_the_tokenizers_own_rows() -> None:
    weights = random_weights(AstConfig(dim=4, heads=1, head_dim=2, post_tokens=3), VOCABULARY)
    idf = Idf(np.random.default_rng(2).uniform(1, 9, SLOTS).astype(np.float32))
    vocabulary = WordLevel.from_lines(["storm", "river", "the", "flood", "dam", "texas"])
    tokenizer = Tokenizer(vocabulary, idf, post_tokens=3, article_tokens=9)
    text = "The storm: THE Dam at river #Texas_Flood, the dam https://t.co/abc & Storm"
    post = tokenizer.posts([text])
    row = tokenizer.articles([("Texas flood", "The dam broke in the storm.")]).lexical
    words = tokenizer.words(text, Side.POST)
    away = np.zeros(4, np.float32)
    found = explain_pair(words, weights, Side.POST, 0.9, away, (row.slots, row.weights), 1.0)
    assert capped(words, weights, Side.POST).tolist() == post.ids.tolist()
    lexical = 0.9 * float(post.lexical.dot(row)[0, 0])
    assert lexical > 0.1
    assert sum(part for _, part in found[:-1]) == pytest.approx(lexical, abs=1e-6)


def test_a_vector_of_length_zero_leaves_everything_to_the_rest() -> None:
    weights = relay_watcher([0.0], window=0, query=0, shift=0)
    words = [Word("x", (0,), -1, 0)]
    nothing = (np.zeros(0, np.int32), np.zeros(0, np.float32))
    found = explain_pair(words, weights, Side.POST, 0.0, np.ones(1, np.float32), nothing, 0.0)
    assert found == [("x", 0.0), ("", 0.0)]


@settings(max_examples=40, deadline=None)
@given(pairs(), st.sampled_from(Side))
def test_the_words_attention_sums_to_one(pair: Pair, side: Side) -> None:
    weights, words = random_weights(*pair[0]), pair[1]
    found = explain_text(words, weights, side)
    assert [word for word, _ in found] == [w.text for w in words]
    assert all(part >= 0 for _, part in found)
    any_token = any(w.ids for w in words)
    assert sum(part for _, part in found) == pytest.approx(1.0 if any_token else 0.0, abs=1e-5)
