"""Products with a fixed matrix, rounded to int16: twice as fast as float32, with a known error.

Sums of int16 products in int32 are exact. Only the rounding of the factors loses precision, and the
Cauchy–Schwarz inequality bounds that loss.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from llvmlite import ir
from numba.core.types import intp, void
from numba.extending import intrinsic
from numpy.typing import NDArray

from encoder.model.weights import F32
from encoder.support.jit import jit
from encoder.support.readonly import fixed
from worker.match.simd.registers import (
    FAST,
    FLOAT,
    HALVES,
    LANES,
    Tile,
    Vectors,
    element_at,
    filled,
    pack,
    read,
    registers,
    shuffle,
    splat,
    up,
    write,
)

I16 = NDArray[np.int16]
TILE = Tile(2)
FULL = 32_700  # the level of 1, and of what rounding makes of it
LONGEST = 2**0.5  # of the rows that a matrix is multiplied with: no sum then reaches 2³¹

WIDE = ir.VectorType(ir.IntType(32), HALVES)
PAIRS = ir.VectorType(ir.IntType(16), HALVES)


def panels(matrix: F32, tile: Tile) -> F32:
    """A matrix [depth, width] as panels [panels, depth, tile.width]; the last two may overlap."""
    last = matrix.shape[1] - tile.width
    starts = [*range(0, last, tile.width), last]
    cut = [matrix[:, at : at + tile.width] for at in starts]
    return np.ascontiguousarray(np.stack(cut), dtype=np.float32)


def multiply_pairs(builder: Any, x: Any, y: Any) -> Any:
    """x[2i]·y[2i] + x[2i+1]·y[2i+1] in lane i.

    One instruction with VNNI (vpdpwssd), two with AVX2 or SSE (pmaddwd, paddd): LLVM knows this
    pattern.
    """
    products = builder.mul(builder.sext(x, WIDE), builder.sext(y, WIDE), flags=("nsw",))
    even = shuffle(builder, products, products, range(0, HALVES, 2))
    odd = shuffle(builder, products, products, range(1, HALVES, 2))
    return builder.add(even, odd)


@intrinsic
def add_outer_pairs(
    context: Any, tile: Any, sums: Any, a: Any, at: Any, step: Any, b: Any, bt: Any
) -> Any:
    """sums [rows, width] += the pairs a[at + i·step] times the row of pairs b[bt:]."""
    counts = tile.value

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, packed, left, at, step, right, b_at = values
        parts, vectors = registers(builder, packed), counts.vectors
        row = [
            read(builder, element_at(context, builder, b, right, b_at, HALVES * j), PAIRS)
            for j in range(vectors)
        ]
        for i in range(counts.rows):
            scalar = builder.load(element_at(context, builder, a, left, at))
            factor = builder.bitcast(splat(builder, scalar, LANES), PAIRS)
            for j in range(vectors):
                product = multiply_pairs(builder, row[j], factor)
                parts[i * vectors + j] = builder.add(parts[i * vectors + j], product)
            at = builder.add(at, step)
        return pack(builder, parts)

    return sums(tile, sums, a, intp, intp, b, intp), codegen


@intrinsic
def add_tile(
    context: Any, tile: Any, out: Any, at: Any, step: Any, sums: Any, scale: Any, column: Any
) -> Any:
    """out[at + i·step:] += row i of the tile times scale[column:]."""
    vectors, floats = tile.value.vectors, Vectors(1, FLOAT).register

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, data, at, step, packed, scales, column = values
        factors = [
            read(builder, element_at(context, builder, scale, scales, column, LANES * j), floats)
            for j in range(vectors)
        ]
        for i, part in enumerate(registers(builder, packed)):
            place = element_at(context, builder, out, data, at, LANES * (i % vectors))
            product = builder.fmul(builder.sitofp(part, floats), factors[i % vectors], flags=FAST)
            write(builder, builder.fadd(read(builder, place, floats), product, flags=FAST), place)
            if (i + 1) % vectors == 0:
                at = builder.add(at, step)
        return context.get_dummy_value()

    return void(tile, out, intp, intp, sums, scale, intp), codegen


@dataclass(frozen=True, slots=True, eq=False)
class RoundedMatrix:
    """A fixed matrix [depth, width]; a row's product has the same bits in any batch."""

    panels: I16  # flat: panel by panel, pairs of depth beside each other
    scale: F32  # [room], what a column's sums are multiplied by
    depth: int  # even
    room: int  # the matrix's width with what whole registers need
    error: float  # how far a product may be off by the rounding, with rows no longer than LONGEST

    @classmethod
    def of(cls, matrix: F32) -> Self:
        depth, width = up(max(len(matrix), 1), 2), matrix.shape[1]
        room = up(max(width, 1), TILE.width)
        lengths = np.sqrt(np.einsum("dk,dk->k", matrix, matrix, dtype=np.float64))  # [k]
        scale = np.zeros(room, np.float32)
        scale[:width] = lengths / FULL**2
        levels = np.zeros((depth, room), np.float32)
        np.divide(matrix, lengths / FULL, out=levels[: len(matrix), :width], where=lengths > 0)
        cut = panels(np.rint(levels, out=levels), TILE).astype(np.int16)
        pairs = cut.reshape(len(cut), depth // 2, 2, TILE.width).swapaxes(2, 3)
        lost = depth**0.5 / 2 / FULL  # of the length of each factor, at most
        error = float(lengths.max(initial=0)) * (lost + (LONGEST + lost) * lost)
        return cls(fixed(np.ascontiguousarray(pairs).ravel()), fixed(scale), depth, room, error)

    def padded(self, rows: int) -> I16:
        """Zeros for the levels of at least this many rows, in whole tiles: [≥ rows, depth]."""
        return np.zeros((up(rows, TILE.rows), self.depth), np.int16)


@jit(fast=True)
def add_products(tile: Any, levels: I16, cut: I16, scale: F32, first: int, out: F32) -> None:
    """out [n, columns] += the products of rows in levels with a matrix, from column `first`.

    Columns are those of whole panels, rows those of whole tiles; `out` has room for them.
    """
    pairs, width = levels.view(np.int32), out.shape[1]
    count, depth = pairs.shape
    for column in range(0, width, tile.width):
        for row in range(0, count, tile.rows):
            sums = filled(tile.registers, np.int32(0))
            for k in range(depth):
                start = 2 * ((first + column) * depth + k * tile.width)
                sums = add_outer_pairs(tile, sums, pairs, row * depth + k, depth, cut, start)
            add_tile(tile, out, row * width + column, width, sums, scale, first + column)


@jit(fast=True)
def write_levels(rows: F32, out: I16) -> None:
    """The levels of rows of numbers up to 1, into the first columns of `out`."""
    for row in range(len(rows)):
        for at in range(rows.shape[1]):
            out[row, at] = np.int16(np.rint(rows[row, at] * np.float32(FULL)))
