"""Matrix products in float32 without a BLAS: a tile of sums in registers, panels of one factor."""

from typing import Any, NamedTuple

import numpy as np
from numba.core.types import intp, void
from numba.extending import intrinsic

from encoder.model.weights import F32
from encoder.simd.loads import element_at, filled, read, write
from encoder.simd.registers import FAST, pack, registers, splat
from encoder.simd.tile import LANES, Tile
from encoder.support.jit import jit


def starts(width: int, tile: Tile) -> list[int]:
    """Where the panels of a matrix of this width begin; the last may overlap the one before."""
    last = width - tile.width
    return [*range(0, last, tile.width), last]


def panels(matrix: F32, tile: Tile) -> F32:
    """A matrix [depth, width] as panels [panels, depth, tile.width], each read in one sweep."""
    cut = [matrix[:, at : at + tile.width] for at in starts(matrix.shape[1], tile)]
    return np.ascontiguousarray(np.stack(cut), dtype=np.float32)


@intrinsic
def add_outer(
    context: Any, tile: Any, sums: Any, a: Any, at: Any, step: Any, b: Any, bt: Any
) -> Any:
    """sums [rows, width] + the column a[at + i·step] times the row b[b_at:]."""
    counts = tile.value

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, packed, left, at, step, right, b_at = values
        parts, vectors = registers(builder, packed), counts.vectors
        row = [
            read(builder, element_at(context, builder, b, right, b_at, LANES * j), parts[0].type)
            for j in range(vectors)
        ]
        for i in range(counts.rows):
            scalar = builder.load(element_at(context, builder, a, left, at))
            factor = splat(builder, scalar, LANES)
            for j in range(vectors):
                product = builder.fmul(factor, row[j], flags=FAST)
                parts[i * vectors + j] = builder.fadd(parts[i * vectors + j], product, flags=FAST)
            at = builder.add(at, step)
        return pack(builder, parts)

    return sums(tile, sums, a, intp, intp, b, intp), codegen


@intrinsic
def store_tile(context: Any, tile: Any, out: Any, at: Any, step: Any, sums: Any) -> Any:
    """Row i of the tile to out[at + i·step]."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, data, at, step, packed = values
        for i, part in enumerate(registers(builder, packed)):
            column = LANES * (i % tile.value.vectors)
            write(builder, part, element_at(context, builder, out, data, at, column))
            if (i + 1) % tile.value.vectors == 0:
                at = builder.add(at, step)
        return context.get_dummy_value()

    return void(tile, out, intp, intp, sums), codegen


class Strided(NamedTuple):
    """Rows of a matrix: row i begins at data[at + i·step]."""

    data: F32
    at: int
    step: int


@jit(fast=True)
def multiply(tile: Any, rows: int, a: Any, depth: int, b: Any, width: int, out: Any) -> None:
    """out [rows, width] = a [rows, depth] · b, where b is cut into panels.

    Rows are rounded up to whole tiles, and read and written as such: a row's bits then do not
    depend on how many there are, and no second loop is needed for the rest.
    """
    for panel in range((width + tile.width - 1) // tile.width):
        column = min(panel * tile.width, width - tile.width)
        start = panel * tile.width * depth
        for row in range(0, rows, tile.rows):
            sums = filled(tile.registers, np.float32(0))
            left = a.at + row * a.step
            for k in range(depth):
                sums = add_outer(tile, sums, a.data, left + k, a.step, b, start + k * tile.width)
            store_tile(tile, out.data, out.at + row * out.step + column, out.step, sums)
