"""Products with a fixed matrix whose every row has the same bits, however many rows there are."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from encoder.model.weights import F32
from encoder.simd.matmul import Rows, multiply, panels
from encoder.simd.pointers import bare
from encoder.simd.tile import Tile, up
from encoder.support.jit import jit
from encoder.support.readonly import fixed

TILE = Tile(2)


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """A matrix [depth, width], cut into panels as the product reads them."""

    panels: F32  # flat
    depth: int
    width: int
    room: int  # the width with what whole registers need

    @classmethod
    def of(cls, matrix: F32) -> Self:
        """A matrix of any layout."""
        depth, width = matrix.shape
        room = up(max(width, 1), TILE.width)
        wide = np.zeros((depth, room), np.float32)
        wide[:, :width] = matrix
        return cls(fixed(panels(wide, TILE).ravel()), depth, width, room)

    def padded(self, rows: int) -> F32:
        """Zeros for so many rows, and as many as whole tiles need: [≥ rows, depth]."""
        return np.zeros((up(rows, TILE.rows), self.depth), np.float32)

    def times(self, padded: F32) -> F32:
        """The product of padded rows with the matrix, columns of zeros at its end: [n, room]."""
        out = np.empty((len(padded), self.room), np.float32)
        product(TILE, padded, self.panels, out)
        return out

    def __call__(self, rows: F32) -> F32:
        """The product of any rows with the matrix: [n, width]."""
        asked = self.padded(len(rows))
        asked[: len(rows)] = rows
        return np.ascontiguousarray(self.times(asked)[: len(rows), : self.width])


@jit(fast=True)
def product(tile: Any, rows: F32, cut: F32, out: F32) -> None:
    """out = rows · the matrix that was cut into panels."""
    (count, depth), width = rows.shape, out.shape[1]
    multiply(tile, count, Rows(bare(rows), 0, depth), depth, cut, width, Rows(bare(out), 0, width))
