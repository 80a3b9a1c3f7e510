"""What a text's y would be of other token vectors, with all attention held as the oracle has it."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from encoder.model.config import Side
from encoder.model.weights import F32, Weights
from tests.encoder.reference import affine, reference_pooling, reference_star, token_shares

F64 = NDArray[np.float64]


def held(weights: Weights, ids: Sequence[int], side: Side) -> Callable[[F64], F64]:
    """Token vectors [n, d] → y [d], affine: attention, maxima and gates are those of these ids."""
    n, c = len(ids), weights.config.window
    if weights.config.star == "pooling":
        return held_pooling(weights, ids, side)
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


def held_pooling(weights: Weights, ids: Sequence[int], side: Side) -> Callable[[F64], F64]:
    """The same of a pooling star; a text here is one chunk."""
    n, c, heads = len(ids), weights.config.window, weights.config.heads
    trace = reference_pooling(weights, embedded(weights, ids), token_shares(weights, ids, side))
    scale, shift = (weights[f"pooling.norm.{p}"].astype(np.float64) for p in ("weight", "bias"))
    wide = np.repeat(trace.shares, weights.config.dim // heads, axis=1)

    def y_of(tokens: F64) -> F64:
        rows = zip(tokens, trace.scales, strict=True)
        x = [(e - mean) / length * scale + shift for e, (mean, length) in rows]
        v = np.stack([affine(weights, "pooling.value", one).reshape(heads, -1) for one in x])
        nodes = []
        for i, p in enumerate(trace.ring):
            values = np.concatenate([v[max(0, i - c) : i + c + 1], v.mean(0)[None]])
            mixed = np.einsum("he,ehk->hk", p, values).ravel()
            nodes.append(tokens[i] + affine(weights, "pooling.output", mixed))
        y: F64 = (wide * np.stack(nodes)).sum(0)
        return y

    assert n > 0
    return y_of


def embedded(weights: Weights, ids: Sequence[int]) -> F64:
    """The vectors of these tokens [n, d]."""
    vectors: F64 = weights.embedding[np.asarray(ids)].astype(np.float64)
    return vectors


def mixed(weights: Weights, part: str, p: F64, context: Sequence[F64]) -> F64:
    """One attention whose weights [h, entries] are given."""
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
    if weights.config.star == "pooling":
        return True
    nodes = reference_star(weights, embedded(weights, ids)).nodes[-1]
    if len(nodes) == 1:
        return True
    second, first = np.sort(nodes, axis=0)[-2:]
    return bool((first - second).min() > 0.01)
