"""Each token's part of many scores at once: `explain` for whole batches, compiled.

The same sums as in `attention` and `explain`, over ragged texts side by side: the tokens of text i
are offsets[i] to offsets[i + 1]. A text is read once, however many articles it is held against, and
what comes out for it is the same bits in any batch.
"""

from dataclasses import dataclass

import numpy as np

from encoder.backends.kernel.arrays import Tables
from encoder.explain.kernel_reader import FoldedReader
from encoder.explain.reference import constant
from encoder.explain.star_parts import (
    highest,
    pull_ring,
    pull_star,
    ring_attention,
    scales_of,
    star_attention,
    sum_rows,
)
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64, Attention, Weights
from encoder.simd.matrix import Matrix


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One attention, cut for products there and back."""

    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix
    from_value: Matrix
    from_output: Matrix
    own: Attention
    fixed: F32  # [d], what it adds whatever it looks at

    @classmethod
    def of(cls, own: Attention) -> "Part":
        """The matrices of an attention."""
        return cls(
            *(Matrix.of(own.query.weight.T), Matrix.of(own.key.weight.T)),
            *(Matrix.of(own.value.weight.T), Matrix.of(own.output.weight.T)),
            *(Matrix.of(own.value.weight), Matrix.of(own.output.weight)),
            *(own, constant(own)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """The attention of one layer, side by side."""

    ring: F32  # [tokens, heads, 2·window + 3]
    relay: F32  # [texts, heads], the star's on the relay itself
    star: F32  # [tokens, heads], the star's on the tokens


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What was decided while some texts were read."""

    offsets: I64
    tokens: F32  # [tokens, d]
    rounds: list[Round]
    highest: I64  # [texts, d], which of all tokens max-pooling took
    shares: F32  # [tokens], each token's part of the residual's mean; without one, zeros
    y: F32  # [texts, d]


class Reader:
    """Reads texts and says which of their tokens made which part of a score.

    By the tables of the kernel where it has some, else by the weights alone, whatever their shape.
    """

    def __init__(self, weights: Weights, tables: Tables | None = None) -> None:
        self._weights = weights
        self._folded = None if tables is None else FoldedReader(weights, tables)
        layers = weights.layers if tables is None else ()
        self._layers = [(Part.of(layer.ring), Part.of(layer.star)) for layer in layers]

    def parts(self, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32) -> tuple[F32, I64]:
        """Each token's part of the cosine of a text's y with a unit row, and where pairs begin.

        For pairs [pairs, 2] of a text, none without tokens, and a row; y's length is held fixed.
        """
        if self._folded is not None:
            return self._folded.parts(ids, offsets, side, pairs, rows)
        reading = self._read(ids, offsets, side)
        texts, directions = np.ascontiguousarray(pairs[:, 0]), rows[pairs[:, 1]]
        length = np.sqrt((reading.y * reading.y).sum(axis=1))[texts, None]  # [pairs, 1]
        zero = np.zeros_like(directions)
        return self._pull(reading, texts, np.divide(directions, length, out=zero, where=length > 0))

    def _read(self, ids: I32, offsets: I64, side: Side) -> Reading:
        """The forward pass of all texts."""
        weights, window = self._weights, self._weights.config.window
        count = np.diff(offsets)
        tokens = weights.embedding[ids]  # [tokens, d]
        relay = sum_rows(tokens, offsets) / count[:, None].astype(np.float32)  # [texts, d]
        h, rounds = tokens, []
        for ring, star in self._layers:
            query = ring.query(h) + ring.own.query.bias
            first = (ring.key(tokens), ring.value(tokens))
            around = first if h is tokens else (ring.key(h), ring.value(h))
            looked, mixed = ring_attention(
                *(offsets, window, len(ring.own.alpha), scales_of(ring.own.alpha)),
                *(query, *around, *first),
                *(ring.key(relay), ring.value(relay)),
            )
            h = ring.output(mixed) + ring.fixed
            asked = star.query(relay) + star.own.query.bias
            own, others, seen = star_attention(
                *(offsets, len(star.own.alpha), scales_of(star.own.alpha), asked, h, relay),
                *(star.own.key.weight, star.own.value.weight),
            )
            relay = star.output(seen) + star.fixed
            rounds.append(Round(looked, own, others))
        top_rows = highest(h, offsets)
        top = h[top_rows, np.arange(h.shape[1])]
        y, shares = (top + relay) * np.float32(0.5), np.zeros(len(ids), np.float32)
        if weights.residual is not None:
            weight = weights.residual.token_weights(ids, offsets, side)
            shares = weight / np.repeat(np.add.reduceat(weight, offsets[:-1]), count)
            y = sum_rows(shares[:, None] * tokens, offsets) + weights.residual.gain * y
        return Reading(offsets, tokens, rounds, top_rows, shares, y)

    def _pull(self, reading: Reading, texts: I64, directions: F32) -> tuple[F32, I64]:
        """Back from y to the tokens, for each pair of a text and a direction."""
        count = np.diff(reading.offsets)[texts]
        ends = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        rows = np.arange(ends[-1]) + np.repeat(reading.offsets[texts] - ends[:-1], count)
        to_tokens = reading.shares[rows, None] * np.repeat(directions, count, axis=0)
        to_relay = directions * np.float32(0.5)
        if self._weights.residual is not None:
            to_relay = to_relay * self._weights.residual.gain
        to_h = np.zeros_like(to_tokens)  # [tokens of all pairs, d]
        moved = (ends[:-1] - reading.offsets[texts])[:, None]
        to_h[reading.highest[texts] + moved, np.arange(to_h.shape[1])] = to_relay
        for (ring, star), seen in zip(self._layers[::-1], reading.rounds[::-1], strict=True):
            back = star.from_output(to_relay)
            to_relay = pull_star(
                *(ends, texts, rows, seen.relay, seen.star, back, star.own.value.weight, to_h)
            )
            window, own, relay = pull_ring(ends, rows, seen.ring, ring.from_output(to_h))
            to_h = ring.from_value(window)
            to_tokens += ring.from_value(own)
            to_relay = to_relay + ring.from_value(relay)
        to_tokens += to_h + np.repeat(to_relay / count[:, None].astype(np.float32), count, axis=0)
        parts: F32 = (to_tokens * reading.tokens[rows]).sum(axis=1)
        return parts, ends
