"""The forward pass of one text in plain numpy, with every attention kept for explanations."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64, Attention, Weights

TOLERANCE = 1e-7
MAX_STEPS = 60
# numpy is several times slower at log1p(-1) and where exp underflows, so both are kept away from.
NOTHING = -1 + 2.0**-52
FAINT = -700.0


@dataclass(frozen=True, slots=True)
class Round:
    """The attention of one layer: ring context is [h_{i-c} … h_{i+c}; E_i; s], star's [s; h']."""

    ring: F32  # [n, heads, 2·window + 3]
    star: F32  # [heads, 1 + n]


@dataclass(frozen=True, slots=True)
class Trace:
    """All that was decided while a text was read: with it held fixed, y is affine in `tokens`."""

    weights: Weights
    tokens: F32  # [n, d]
    rounds: tuple[Round, ...]
    highest: I64  # [d], the token that max-pooling took, the first among equals
    shares: F32 | None  # [n], each token's part of the residual's mean
    y: F32  # [d]


def read(weights: Weights, ids: I32, side: Side) -> Trace:
    """Run the model over one text of at least one token and keep what it decided."""
    config = weights.config
    tokens = weights.embedding[ids]  # [n, d]
    h, relay = tokens, tokens.mean(axis=0)
    rounds = []
    for layer in weights.layers:
        h, ring = around(layer.ring, config.window, h, tokens, relay)
        relay, star = across(layer.star, h, relay)
        rounds.append(Round(ring, star))
    highest = h.argmax(axis=0)
    y = (h[highest, np.arange(config.dim)] + relay) * np.float32(0.5)  # [d]
    shares = None
    if weights.residual is not None:
        offsets = np.array([0, len(ids)])
        shares = weights.residual.token_weights(ids, offsets, side)  # [n]
        shares = shares / shares.sum()
        y = shares @ tokens + weights.residual.gain * y
    return Trace(weights, tokens, tuple(rounds), highest, shares, y)


def around(part: Attention, window: int, h: F32, tokens: F32, relay: F32) -> tuple[F32, F32]:
    """The ring: every token attends to its neighbours, itself as it began, and the relay."""
    n, heads = len(h), len(part.alpha)
    query = split(h @ part.query.weight.T + part.query.bias, heads)  # [n, h, k]
    keys = contexts(h, tokens, relay, part.key.weight, heads)
    values = contexts(h, tokens, relay, part.value.weight, heads)
    scores = np.full((n, heads, 2 * window + 3), -np.inf, np.float32)  # [n, h, 2c+3]
    for column, here, there in neighbours(n, window):
        scores[here, :, column] = inner(query[here], keys[0][there])
    scores[:, :, -2] = inner(query, keys[1])
    scores[:, :, -1] = inner(query, keys[2])
    p = entmax(scores * np.float32(query.shape[-1] ** -0.5), part.alpha)  # [n, h, 2c+3]
    mixed = p[:, :, -2, None] * values[1] + p[:, :, -1, None] * values[2]  # [n, h, k]
    for column, here, there in neighbours(n, window):
        mixed[here] += p[here, :, column, None] * values[0][there]
    return mixed.reshape(n, -1) @ part.output.weight.T + constant(part), p


def across(part: Attention, h: F32, relay: F32) -> tuple[F32, F32]:
    """The star: the relay attends to itself and to every token of the text."""
    heads = len(part.alpha)
    query = split(part.query.weight @ relay + part.query.bias, heads)  # [h, k]
    into = np.matmul(query[:, None], rows(part.key.weight, heads))[:, 0]  # [h, d]
    scores = np.column_stack((into @ relay, into @ h.T))  # [h, 1+n]
    p = entmax(scores * np.float32(query.shape[-1] ** -0.5), part.alpha)  # [h, 1+n]
    mixed = p[:, :1] * relay + p[:, 1:] @ h  # [h, d]
    values = np.matmul(rows(part.value.weight, heads), mixed[..., None])  # [h, k, 1]
    return part.output.weight @ values.reshape(-1) + constant(part), p


def entmax(scores: F32, alpha: F32) -> F32:
    """α-entmax over the last axis, one α per head (the axis before it); -inf is left out.

    Newton on (Σ u^(1/a))^a = 1 with u = 1 + a·(z - t), a = α - 1 and z's maximum at 0: convex and
    falling in t for α ≤ 2, so the steps from t = 0 approach the root from one side.
    """
    a = alpha.astype(np.float64) - 1  # [h]
    z = np.ascontiguousarray(np.moveaxis(scores, -1, 0), np.float64)  # [entries, …, h]
    z = (z - z.max(axis=0)) * a
    t, u, p = np.zeros(z.shape[1:]), np.empty_like(z), np.empty_like(z)
    furthest = np.inf
    for _ in range(MAX_STEPS):
        np.maximum(np.subtract(z, a * t, out=u), NOTHING, out=u)
        np.maximum(np.divide(np.log1p(u, out=p), a, out=p), FAINT, out=p)
        np.multiply(np.exp(p, out=p), u > NOTHING, out=p)
        total = p.sum(axis=0)
        if furthest <= TOLERANCE:
            break
        slope = np.divide(p, np.add(u, 1, out=u), out=u).sum(axis=0)
        step = -np.expm1(-a * np.log(total)) / a * total / slope
        t += step
        furthest = step.max()
    weights: F32 = np.moveaxis(p / total, 0, -1).astype(np.float32)
    return weights


def neighbours(n: int, window: int) -> Iterator[tuple[int, slice, slice]]:
    """For each column of the window: the tokens that have such a neighbour, and the neighbours."""
    for offset in range(max(-window, 1 - n), min(window, n - 1) + 1):
        low, high = max(0, -offset), min(n, n - offset)
        yield window + offset, slice(low, high), slice(low + offset, high + offset)


def contexts(h: F32, tokens: F32, relay: F32, weight: F32, heads: int) -> tuple[F32, F32, F32]:
    """What the window, the token's own vector and the relay show to every head, without bias.

    Keys need none (it shifts all scores of a row alike); the values' is added by `constant`.
    """
    window = split(h @ weight.T, heads)  # [n, h, k]
    own = window if h is tokens else split(tokens @ weight.T, heads)  # [n, h, k]
    return window, own, split(weight @ relay, heads)  # [h, k]


def constant(part: Attention) -> F32:
    """What an attention adds whatever it looks at: its weights sum to 1, so values' bias passes."""
    fixed: F32 = part.output.weight @ part.value.bias + part.output.bias
    return fixed


def inner(query: F32, key: F32) -> F32:
    """The product of query and key per head."""
    product: F32 = np.einsum("nhk,nhk->nh", query, np.broadcast_to(key, query.shape))
    return product


def split(vectors: F32, heads: int) -> F32:
    """The last axis cut into heads: [..., inner] → [..., h, k]."""
    return vectors.reshape(*vectors.shape[:-1], heads, -1)


def rows(weight: F32, heads: int) -> F32:
    """A projection's rows by head: [inner, d] → [h, k, d]."""
    return weight.reshape(heads, -1, weight.shape[-1])
