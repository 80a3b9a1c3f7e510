"""The oracle: the encoder written from the paper's equations, token by token, in float64."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from encoder.model.config import AstConfig, Side
from encoder.model.weights import Weights, random_weights

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Trace:
    """What one text goes through: the states of every layer and the attention computed there."""

    nodes: list[F64]  # per layer [n, d], after the ring
    relays: list[F64]  # per layer [d], after the star
    ring: list[list[F64]]  # per layer and token [heads, entries]: the window, then E_i, then s
    star: list[F64]  # per layer [heads, 1 + n]: the relay, then the tokens
    output: F64  # [d], half of the maximum and the relay together


def bisect_entmax(z: F64, alpha: float) -> F64:
    """α-entmax of one row by bisection; α = 1 is softmax; entries of -inf get nothing."""
    p = np.zeros(len(z))
    alive = z > -np.inf
    x = z[alive].astype(np.float64)
    if len(x) == 0:
        return p
    x = x - x.max()
    if alpha == 1:
        p[alive] = np.exp(x) / np.exp(x).sum()
        return p

    def powers(t: float) -> F64:
        less = np.maximum((alpha - 1) * (x - t), -1)
        with np.errstate(divide="ignore"):
            out: F64 = np.exp(np.log1p(less) / (alpha - 1))
        return out

    low, high = 0.0, (1 - len(x) ** (1 - alpha)) / (alpha - 1)
    middle = (low + high) / 2
    while low < middle < high:
        low, high = (middle, high) if powers(middle).sum() >= 1 else (low, middle)
        middle = (low + high) / 2
    p[alive] = powers(low) / powers(low).sum()
    return p


def affine(weights: Weights, name: str, x: F64) -> F64:
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    out: F64 = weight.astype(np.float64) @ x + bias.astype(np.float64)
    return out


def attend(weights: Weights, part: str, asking: F64, context: Sequence[F64]) -> tuple[F64, F64]:
    """One query vector over its context: the new vector, and the attention [heads, entries]."""
    alpha = weights[f"{part}.alpha"]
    heads = len(alpha)
    q = affine(weights, f"{part}.query", asking).reshape(heads, -1)
    keys = [affine(weights, f"{part}.key", x).reshape(heads, -1) for x in context]
    values = [affine(weights, f"{part}.value", x).reshape(heads, -1) for x in context]
    shares, mixed = [], []
    for h in range(heads):
        logits = np.array([q[h] @ k[h] for k in keys]) / np.sqrt(len(q[h]))
        p = bisect_entmax(logits, float(alpha[h]))
        shares.append(p)
        mixed.append(sum(share * v[h] for share, v in zip(p, values, strict=True)))
    return affine(weights, f"{part}.output", np.concatenate(mixed)), np.stack(shares)


def reference_star(weights: Weights, embedded: F64) -> Trace:
    """The adaptive Star Transformer over one text's token vectors [n, d], n ≥ 1."""
    n, c = len(embedded), weights.config.window
    nodes, relay = list(embedded), embedded.mean(0)
    trace = Trace([], [], [], [], np.zeros(0))
    for layer in range(weights.config.layers):
        after, attended = [], []
        for i in range(n):
            around = [nodes[j] for j in range(i - c, i + c + 1) if 0 <= j < n]
            node, shares = attend(
                weights, f"layers.{layer}.ring", nodes[i], [*around, embedded[i], relay]
            )
            after.append(node)
            attended.append(shares)
        nodes = after
        relay, shares = attend(weights, f"layers.{layer}.star", relay, [relay, *nodes])
        trace.nodes.append(np.stack(nodes))
        trace.relays.append(relay)
        trace.ring.append(attended)
        trace.star.append(shares)
    output = (np.max(np.stack(nodes), 0) + relay) / 2
    return Trace(trace.nodes, trace.relays, trace.ring, trace.star, output)


def position_bucket(place: int) -> int:
    """The bucket of one place in a text, counted up octave by octave: 0-7, 8-23, 24-55, …"""
    bucket, end, width = 0, 8, 16
    while place >= end and bucket < 8:
        bucket, end, width = bucket + 1, end + width, width * 2
    return bucket


def token_shares(weights: Weights, ids: Sequence[int], side: Side) -> F64:
    """Each token's share of the residual: by its gate, and by its place."""
    gates, positions = weights["residual.gates"][side], weights["residual.positions"][side]
    shares = [float(gates[t]) * float(positions[position_bucket(i)]) for i, t in enumerate(ids)]
    return np.asarray(shares) / sum(shares)


def reference(weights: Weights, ids: Sequence[int], side: Side) -> F64:
    """y of one text [d], not normalised; zero for a text without tokens."""
    if len(ids) == 0:
        return np.zeros(weights.config.dim)
    embedded = weights.embedding[np.asarray(ids)].astype(np.float64)
    if not weights.config.has_star:
        mean: F64 = token_shares(weights, ids, side) @ embedded
        return mean
    star = reference_star(weights, embedded).output
    if not weights.config.residual:
        return star
    mean = token_shares(weights, ids, side) @ embedded
    return mean + weights["residual.gain"].astype(np.float64) * star


def mild_weights(config: AstConfig, vocabulary: int) -> Weights:
    """Random weights with small logits: large ones magnify rounding from layer to layer."""
    weights = random_weights(config, vocabulary)
    for name, value in weights.tensors.items():
        if name.endswith("query.weight"):
            value *= np.float32(0.2)
    return weights
