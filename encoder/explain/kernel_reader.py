"""Explanations by the CPU kernel: what `ReferenceReader` says, with the same bits in any batch."""

import numpy as np

from encoder.backends.kernel.arrays import Space, Spaces, Tables, allocate
from encoder.backends.kernel.relay import STAR_ROWS
from encoder.backends.kernel.ring import UNIT
from encoder.backends.kernel.row_layout import Shape
from encoder.explain.kernel_backward import Asked, FlatTexts, Way, explain_texts, step_of
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64, Weights, position_buckets
from encoder.simd.matmul import Matrix
from encoder.simd.tile import LANES
from encoder.support.readonly import fixed

NONE = fixed(np.zeros(0, np.float32))


class KernelReader:
    """Reads texts with the kernel and its tables, and keeps what they were read with."""

    def __init__(self, weights: Weights, tables: Tables) -> None:
        self._shape, self._tables = Shape.of(weights.config), tables
        self._residual, star = weights.residual, weights.layers[0].star
        by_head = star.value.weight.reshape(self._shape.heads, -1, self._shape.dim)
        self._star_output = Matrix.of(star.output.weight)  # [d, h·k]
        self._star_values = [Matrix.of(value) for value in by_head]  # h times [k, d]
        self._spaces = Spaces(self._shape)

    def looks(self, ids: I32, side: Side) -> tuple[F32, F32]:
        """The attention of the ring [n, h, 2c+2] and of the star [h, 1+n] over one text."""
        shape, n, step = self._shape, len(ids), step_of(self._shape, len(ids))
        none, space = np.zeros((0, 2), np.int64), allocate(shape)
        self._read(space, ids, np.array([0, n]), side, none, np.zeros((0, shape.dim), np.float32))
        ring = space.weights[: shape.entries * step].reshape(shape.entries, step)
        by_token = ring[:, : n * shape.slots].reshape(shape.entries, n, shape.slots)
        weights = by_token[:, :, : shape.heads].transpose(1, 2, 0).astype(np.float32)
        banks = space.star_logits.reshape(shape.banks, STAR_ROWS, LANES)
        star = banks[:, : 1 + n, : shape.bank_heads].transpose(0, 2, 1).reshape(-1, 1 + n)
        return weights / UNIT, star[: shape.heads]

    def parts(self, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32) -> F32:
        """Each token's part of the cosine of a text's y with a unit row, pair after pair.

        For pairs [pairs, 2] of a text, none without tokens, and a row; y's length is held fixed.
        """
        with self._spaces.borrowed() as space:
            parts, y = self._read(space, ids, offsets, side, pairs, rows)
        length = np.sqrt(np.einsum("nd,nd->n", y, y))[pairs[:, 0]]  # [pairs]
        each = np.repeat(length, np.diff(offsets)[pairs[:, 0]])
        cosine: F32 = np.divide(parts, each, out=np.zeros_like(parts), where=each > 0)
        return cosine

    def _read(
        self, space: Space, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32
    ) -> tuple[F32, F32]:
        """Each token's part of the product of y with a row, pair after pair, and y [texts, d]."""
        shape, lengths = self._shape, np.diff(offsets)
        ends = np.cumsum(lengths[pairs[:, 0]])
        begins = ends - lengths[pairs[:, 0]]
        order = np.argsort(pairs[:, 0], kind="stable")
        firsts = np.searchsorted(pairs[order, 0], np.arange(len(offsets)))
        asked = Asked(
            *(fixed(firsts), fixed(pairs[order, 1]), fixed(begins[order])), *self._back(rows)
        )
        longest = int(lengths.max())
        way = Way(
            fixed(self._tables.table.view(np.int32)),
            np.zeros(shape.width, np.int64),
            *(np.zeros(size * shape.width, np.float32) for size in (longest, shape.slots, 1)),
        )
        lanes = np.zeros((lengths[pairs[:, 0]].sum(), LANES), np.float32)
        y = np.zeros((len(lengths), shape.dim), np.float32)
        texts = self._texts(ids, offsets, side)
        explain_texts(shape, self._tables, space, texts, asked, way, lanes, y)
        return lanes.sum(axis=1), y

    def _texts(self, ids: I32, offsets: I64, side: Side) -> FlatTexts:
        """The texts with what weighs their residual."""
        weighed = NONE, NONE, np.zeros(len(ids), np.float32)
        if self._residual is not None:
            lengths = np.diff(offsets)
            weight = self._residual.token_weights(ids, offsets, side)
            shares = weight / np.repeat(np.add.reduceat(weight, offsets[:-1]), lengths)
            places = self._residual.positions[side][position_buckets(lengths.max())]
            weighed = self._residual.gates[side], places, shares
        return FlatTexts(
            fixed(ids), fixed(offsets), self._residual is not None, *map(fixed, weighed)
        )

    def _back(self, rows: F32) -> tuple[F32, F32, F32]:
        """What is asked back for each article: by residual, maximum and star."""
        shape, tables = self._shape, self._tables
        wide = np.zeros((len(rows), shape.width), np.float32)
        wide[:, : shape.dim] = rows
        half = wide * (tables.gain * np.float32(0.5))
        by_head = np.hsplit(self._star_output(half[:, : shape.dim]), shape.heads)
        heads = np.zeros((len(rows), shape.slots, shape.width), np.float32)
        for head, (part, value) in enumerate(zip(by_head, self._star_values, strict=True)):
            heads[:, head, : shape.dim] = value(part)
        asked = wide * tables.sum_scale[: shape.width], half * tables.node_scale, heads
        direct, nodes, heads = (fixed(x.ravel()) for x in asked)
        return direct, nodes, heads
