"""Each token's part of many scores at once, by the CPU kernel: `parts` for the models it fits."""

from queue import Empty, SimpleQueue

import numpy as np

from encoder.backends.kernel.arrays import Space, Tables, allocate
from encoder.backends.kernel.row_layout import Shape
from encoder.explain.kernel_backward import Asked, Texts, Way, explain_texts, star_sources
from encoder.model.config import MAX_TOKENS, Side
from encoder.model.weights import F32, I32, I64, Weights, position_buckets
from encoder.simd.tile import LANES
from encoder.support.readonly import fixed

NONE = fixed(np.zeros(0, np.float32))


class FoldedReader:
    """Reads texts with the kernel and says which of their tokens made which part of a score."""

    def __init__(self, weights: Weights, tables: Tables) -> None:
        self._shape, self._tables = Shape.of(weights.config), tables
        self._values = fixed(tables.table.view(np.int32))
        self._star = weights.layers[0].star
        self._residual = weights.residual
        self._spaces: SimpleQueue[Space] = SimpleQueue()
        self._gates = self._places = (NONE, NONE)
        if weights.residual is not None:
            gates, positions = weights.residual.gates, weights.residual.positions
            buckets = position_buckets(MAX_TOKENS)
            self._gates = fixed(gates[0]), fixed(gates[1])
            self._places = fixed(positions[0][buckets]), fixed(positions[1][buckets])

    def parts(self, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32) -> tuple[F32, I64]:
        """Each token's part of the cosine of a text's y with a unit row, and where pairs begin.

        For pairs [pairs, 2] of a text, none without tokens, and a row.
        """
        count = np.diff(offsets)
        ends = np.concatenate([[0], np.cumsum(count[pairs[:, 0]])]).astype(np.int64)
        order = np.argsort(pairs[:, 0], kind="stable")
        firsts = np.searchsorted(pairs[order, 0], np.arange(len(offsets))).astype(np.int64)
        asked = Asked(
            *(fixed(firsts), fixed(pairs[order, 1]), fixed(ends[:-1][order])), *self._back(rows)
        )
        texts = Texts(fixed(ids), fixed(offsets), self._gates[side], self._places[side])
        parts, way = np.empty(ends[-1], np.float32), self._way(int(count.max()))
        try:
            space = self._spaces.get_nowait()
        except Empty:
            space = allocate(self._shape)
        try:
            explain_texts(self._shape, self._tables, space, self._values, texts, asked, way, parts)
        finally:
            self._spaces.put(space)
        return parts, ends

    def _back(self, rows: F32) -> tuple[F32, F32, F32]:
        """What is asked back for each article: by residual, maximum and star."""
        shape, tables, star = self._shape, self._tables, self._star
        wide = np.zeros((len(rows), shape.width), np.float32)
        wide[:, : shape.dim] = rows
        half = wide * (tables.gain * np.float32(0.5))
        heads = np.zeros((len(rows), shape.slots, shape.width), np.float32)
        between = np.zeros((len(rows), shape.inner), np.float32)
        output, value = fixed(star.output.weight), fixed(star.value.weight)
        star_sources(half, output, value, between, shape.head_dim, heads)
        direct = wide * tables.sum_scale[: shape.width]
        if self._residual is None:
            direct = np.zeros_like(wide)
        nodes = half * tables.node_scale
        return fixed(direct.ravel()), fixed(nodes.ravel()), fixed(heads.ravel())

    def _way(self, longest: int) -> Way:
        """Room for the way back through texts of so many tokens."""
        shape, width = self._shape, self._shape.width
        sizes = (longest, longest * width, shape.slots * width, width, LANES, shape.dim)
        return Way(np.zeros(width, np.int64), *(np.zeros(size, np.float32) for size in sizes))
