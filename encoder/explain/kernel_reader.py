"""Explanations by the CPU kernel: what `ReferenceReader` says, with the same bits in any batch."""

import numpy as np

from encoder.backends.kernel.arrays import TEXTS, FlatTexts, Space, Spaces, Tables
from encoder.backends.kernel.relay import STAR_ROWS
from encoder.backends.kernel.ring import UNIT
from encoder.backends.kernel.row_layout import Shape
from encoder.backends.kernel.tables import residual_weights
from encoder.explain.kernel_backward import (
    Asked,
    Projections,
    Way,
    explain_texts,
    step_of,
)
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64, Weights
from encoder.simd.tile import LANES
from encoder.support.readonly import fixed


class KernelReader:
    """Reads texts with the kernel and its tables, and goes back through what it looked at."""

    def __init__(self, weights: Weights, tables: Tables) -> None:
        self._shape, self._tables = Shape.of(weights.config), tables
        shape, star = self._shape, weights.layers[0].star
        self._residual = residual_weights(weights)
        self._projections = Projections(
            fixed(tables.table.view(np.int32)),
            fixed(widened(star.output.weight, shape.result_width).ravel()),
            fixed(widened(star.value.weight, shape.width).ravel()),
        )
        self._spaces = Spaces(shape)

    def looks(self, ids: I32, side: Side) -> tuple[F32, F32]:
        """The attention of the ring [n, h, 2c+2] and of the star [h, 1+n] over one text."""
        shape, n, step = self._shape, len(ids), step_of(self._shape, len(ids))
        none, rows = np.zeros((0, 2), np.int64), np.zeros((0, shape.dim), np.float32)
        with self._spaces.borrowed() as space:
            self._read(space, ids, np.array([0, n]), side, none, rows)
            ring = space.weights[: shape.entries * step].reshape(shape.entries, step)
            by_token = ring[:, : n * shape.slots].reshape(shape.entries, n, shape.slots)
            weights = by_token[:, :, : shape.heads].transpose(1, 2, 0).astype(np.float32)
            banks = space.star_logits.reshape(shape.banks, STAR_ROWS, LANES)
            star = banks[:, : 1 + n, : shape.bank_heads].transpose(0, 2, 1).reshape(-1, 1 + n)
            return weights / UNIT, star[: shape.heads].copy()

    def parts(self, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32) -> F32:
        """Each token's part of the cosine of a text's y with a unit row, pair after pair.

        For pairs [pairs, 2] of a text and a row; y's length is held fixed.
        """
        with self._spaces.borrowed() as space:
            return self._read(space, ids, offsets, side, pairs, rows)

    def _read(self, space: Space, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32) -> F32:
        """Read the texts, and go back through them for every pair."""
        lengths, ends = np.diff(offsets), np.zeros(len(pairs) + 1, np.int64)
        np.cumsum(lengths[pairs[:, 0]], out=ends[1:])
        parts = np.zeros(ends[-1], np.float32)
        given = FlatTexts(fixed(ids), fixed(offsets), len(lengths), *self._residual[side])
        wide = widened(rows, self._shape.width)
        asked = Asked(fixed(pairs), len(pairs), fixed(wide), fixed(ends), parts)
        way = self._way(len(rows), int(lengths.max()))
        explain_texts(self._shape, self._tables, space, given, asked, self._projections, way)
        return parts

    def _way(self, articles: int, longest: int) -> Way:
        """Working memory for so many articles, and texts of so many tokens."""
        shape = self._shape
        width, heads = shape.width, articles * shape.slots * shape.width
        sizes = (shape.result_width, heads, longest * width, shape.slots * width, width)
        rest = (longest, LANES, TEXTS * shape.dim)
        return Way(np.empty(width, np.int64), *(np.empty(n, np.float32) for n in sizes + rest))


def widened(rows: F32, width: int) -> F32:
    """The rows with zeros up to this width."""
    wide = np.zeros((len(rows), width), np.float32)
    wide[:, : rows.shape[1]] = rows
    return wide
