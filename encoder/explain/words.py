"""Which words made a text's vector, and its score with an article: exact, and without torch."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

import numpy as np

from encoder.embeddings import Embeddings
from encoder.explain.parts import Reader
from encoder.explain.reference import Round, Trace, constant, neighbours, read, rows, split
from encoder.explain.totals import word_parts
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64, Attention, Weights
from encoder.score.lexical import NO_SLOT
from encoder.support.blas import one_thread
from encoder.text.tokenizer import Word


def attention(weights: Weights, ids: I32, side: Side) -> F32:
    """How much the last star looked at each token: weights ≥ 0 that sum to 1, many exactly 0."""
    if len(ids) == 0:
        return np.zeros(0, np.float32)
    with one_thread():
        last = read(weights, ids, side).rounds[-1]
    for looked in (last.star[:, 1:].sum(axis=0), received(last)):
        total = looked.sum()
        if total > 0:
            return np.asarray(looked / total, np.float32)
    return np.full(len(ids), 1 / len(ids), np.float32)


def received(looked: Round) -> F32:
    """The ring's attention that each token drew on itself, over all tokens and heads."""
    n, _, width = looked.ring.shape
    p = looked.ring.sum(axis=1)  # [n, 2c+3]
    drawn: F32 = p[:, -2].copy()
    for column, here, there in neighbours(n, (width - 3) // 2):
        drawn[there] += p[here, column]
    return drawn


def contributions(weights: Weights, ids: I32, side: Side, direction: F32) -> tuple[F32, float]:
    """Each token's part of direction·y, and the biases' part: together they are direction·y.

    Exact with all attention and the choices of max-pooling held fixed: y is then affine in the
    token vectors, and a token's part is its own vector times its own share of the gradient.
    """
    if len(ids) == 0:
        return np.zeros(0, np.float32), 0.0
    with one_thread():
        return pull(read(weights, ids, side), direction)


def pull(trace: Trace, direction: F32) -> tuple[F32, float]:
    """Walk from y back to the token vectors with everything that was decided held fixed."""
    n, dim = trace.tokens.shape
    half = direction * np.float32(0.5)
    to_tokens = np.zeros_like(trace.tokens)  # [n, d]
    if trace.shares is not None and trace.weights.residual is not None:
        half = half * trace.weights.residual.gain
        to_tokens += trace.shares[:, None] * direction
    to_relay, rest = half, 0.0
    to_h = np.zeros_like(trace.tokens)  # [n, d]
    to_h[trace.highest, np.arange(dim)] = half
    for layer, looked in zip(trace.weights.layers[::-1], trace.rounds[::-1], strict=True):
        rest += float(to_relay @ constant(layer.star))
        to_h, to_relay = pull_star(layer.star, looked.star, to_h, to_relay)
        rest += float(to_h.sum(axis=0) @ constant(layer.ring))
        to_h, own, from_ring = pull_ring(layer.ring, looked.ring, to_h)
        to_tokens += own
        to_relay = to_relay + from_ring
    to_tokens += to_h + to_relay / np.float32(n)
    return np.einsum("nd,nd->n", to_tokens, trace.tokens), rest


def pull_star(part: Attention, p: F32, to_h: F32, to_relay: F32) -> tuple[F32, F32]:
    """Back through the star: to the tokens it read and to the relay before it."""
    heads = len(part.alpha)
    value = split(to_relay @ part.output.weight, heads)  # [h, k]
    source = np.matmul(value[:, None], rows(part.value.weight, heads))[:, 0]  # [h, d]
    return to_h + p[:, 1:].T @ source, p[:, 0] @ source


def pull_ring(part: Attention, p: F32, to_h: F32) -> tuple[F32, F32, F32]:
    """Back through the ring: to the tokens before it, to their first vectors, to the relay."""
    n, heads, width = p.shape
    value = split(to_h @ part.output.weight, heads)  # [n, h, k]
    window = np.zeros_like(value)
    for column, here, there in neighbours(n, (width - 3) // 2):
        window[there] += p[here, :, column, None] * value[here]
    own: F32 = p[:, :, -2, None] * value  # [n, h, k]
    relay = np.einsum("nh,nhk->hk", p[:, :, -1], value)
    to_window: F32 = window.reshape(n, -1) @ part.value.weight  # [n, d]
    to_own: F32 = own.reshape(n, -1) @ part.value.weight  # [n, d]
    return to_window, to_own, relay.reshape(-1) @ part.value.weight


def explain_text(words: Sequence[Word], weights: Weights, side: Side) -> list[tuple[str, float]]:
    """Each word in reading order with the attention it drew."""
    looked = attention(weights, capped(words, weights, side), side)
    return [(word.text, part) for word, part in zip(words, by_word(words, looked), strict=True)]


def explain_pair(
    words: Sequence[Word],
    weights: Weights,
    side: Side,
    mix: float,
    article: F32,
    seen: tuple[I32, F32],
    score: float,
) -> list[tuple[str, float]]:
    """Each word in reading order with its part of the score; last "" with the rest of it.

    `article` is its unit dense row, `seen` the slots and weights of its unit lexical row. The
    rest is the model's biases, and what the path that made the score rounded differently.
    """
    dense = dense_parts(capped(words, weights, side), weights, side, article)
    parts = [
        (1 - mix) * from_vector + mix * from_word
        for from_vector, from_word in zip(
            by_word(words, dense), lexical_parts(words, *seen), strict=True
        )
    ]
    named = [(word.text, part) for word, part in zip(words, parts, strict=True)]
    return [*named, ("", score - math.fsum(parts))]


def dense_parts(ids: I32, weights: Weights, side: Side, row: F32) -> F32:
    """Each token's part of the cosine of y with a unit row, y's length held fixed: [n]."""
    if len(ids) == 0:
        return np.zeros(0, np.float32)
    with one_thread():
        trace = read(weights, ids, side)
        length = np.linalg.norm(trace.y)
        if length == 0:
            return np.zeros(len(ids), np.float32)
        return pull(trace, row / length)[0]


def explain_pairs(
    reader: Reader,
    texts: Sequence[Sequence[Word]],
    ids: Sequence[I32],
    articles: Embeddings,
    pairs: Sequence[tuple[int, int]],
) -> list[list[tuple[str, float]]]:
    """Each word's part of the score, for pairs of a post and an article; every post is read once.

    What `explain_pair` says of each pair, without the rest; `ids` are what is read of the posts.
    """
    if not pairs:
        return []
    asked = np.array(pairs, np.int64)
    used, asked[:, 0] = np.unique(asked[:, 0], return_inverse=True)
    said = [texts[i] for i in used.tolist()]
    tokens, bounds = dense_of_pairs(reader, [ids[i] for i in used.tolist()], articles.dense, asked)
    return word_parts(said, articles.lexical, articles.mix, asked, tokens, bounds)


def dense_of_pairs(reader: Reader, ids: Sequence[I32], rows: F32, pairs: I64) -> tuple[F32, I64]:
    """What `dense_parts` says of pairs [pairs, 2], and between which bounds of it each pair's is.

    Every text and every article is worked on once.
    """
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    full = np.flatnonzero(lengths[pairs[:, 0]])
    bounds = np.zeros_like(pairs)
    if not len(full):
        return np.zeros(0, np.float32), bounds
    texts, text = np.unique(pairs[full, 0], return_inverse=True)
    articles, article = np.unique(pairs[full, 1], return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum(lengths[texts])])
    flat = np.concatenate([ids[i] for i in texts.tolist()])
    asked = np.stack([text, article], axis=1)
    found, ends = reader.parts(flat, offsets, Side.POST, asked, rows[articles])
    bounds[full] = np.stack([ends[:-1], ends[1:]], axis=1)
    return found, bounds


def lexical_parts(words: Sequence[Word], slots: I32, weights: F32) -> list[float]:
    """Each word's part of the lexical cosine; words in one slot have equal parts of it."""
    idf = {word.slot: word.weight for word in words if word.slot != NO_SLOT}
    counts = Counter(word.slot for word in words if word.slot != NO_SLOT)
    row = {slot: (1 + math.log(counts[slot])) * value for slot, value in idf.items()}
    length = math.sqrt(math.fsum(value * value for value in row.values()))
    if length == 0:
        return [0.0] * len(words)
    asked = np.fromiter(row, np.int32)
    at = np.minimum(np.searchsorted(slots, asked), max(len(slots) - 1, 0))
    held = at[slots[at] == asked] if len(slots) else at[:0]
    there = dict(zip(slots[held].tolist(), weights[held].tolist(), strict=True))
    part = {slot: row[slot] / length * there.get(slot, 0.0) / counts[slot] for slot in row}
    return [part.get(word.slot, 0.0) for word in words]


def capped(words: Iterable[Word], weights: Weights, side: Side) -> I32:
    """The ids that the model reads of these words: [n]."""
    ids = [token for word in words for token in word.ids]
    return np.array(ids[: weights.config.cap(side)], np.int32)


def by_word(words: Sequence[Word], tokens: F32) -> list[float]:
    """The sum over each word's tokens; tokens beyond the cap count nothing."""
    parts = tokens.tolist()
    ends = accumulate((len(word.ids) for word in words), initial=0)
    return [math.fsum(parts[start:end]) for start, end in pairwise(ends)]
