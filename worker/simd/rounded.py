"""Products with a fixed matrix, of factors rounded to int8 for AMX or VNNI, else to int16.

Sums of their products in int32 are exact. Only the rounding of the factors loses precision, and the
Cauchy–Schwarz inequality bounds that loss by the lengths of what was lost.
"""

from ctypes import CDLL
from dataclasses import dataclass
from math import isqrt, prod
from typing import Any, NamedTuple, Self

import numpy as np
from llvmlite import binding, ir
from numba.core.types import intp, void
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from encoder.model.weights import F32, I32
from encoder.support.jit import FAST_MATH, jit
from encoder.support.readonly import fixed
from worker.simd.registers import (
    FAST,
    FEATURES,
    FLOAT,
    LANES,
    Tile,
    Vectors,
    broadcast,
    element_at,
    highest_lane,
    load,
    maximum,
    pack,
    read,
    registers,
    round_up,
    shuffle,
    splat,
    write,
)

F64 = NDArray[np.float64]
binding.initialize_native_asmparser()  # for the assembly of DOT below
AMX_TILE, INT8_TILE, INT16_TILE = Tile(2, 4, amx=1), Tile(2, 4), Tile(2, 2)
SHIFT = 128  # makes int8 factors of rows unsigned, as the instruction needs them
COLUMNS_AT_ONCE = 4096  # whole panels
LINE_BYTES = 64  # of a cache line; AMX takes twice as long for rows that lie across two

WIDE = ir.VectorType(ir.IntType(32), 2 * LANES)
PAIRS = ir.VectorType(ir.IntType(16), 2 * LANES)
LANE = ir.VectorType(ir.IntType(32), LANES)
DOT = ir.InlineAsm(ir.FunctionType(LANE, [LANE] * 3), "vpdpbusd $3, $2, $0", "=v,0,v,v")
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18  # of Linux on x86-64


def usable_tiles() -> list[Tile]:
    """Those that this processor has instructions for, the fastest first.

    For AMX the kernel must permit the process to use its registers.
    """
    tiles = [INT16_TILE]
    if FEATURES.get("avx512vnni"):
        tiles.insert(0, INT8_TILE)
    if FEATURES.get("amx-int8"):
        refused = CDLL(None).syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA)
        tiles = tiles if refused else [AMX_TILE, *tiles]
    return tiles


TILES = usable_tiles()
TILE = TILES[0]


def add_groups(builder: Any, group: int, sums: Any, row: Any, column: Any) -> Any:
    """Add to each lane the products of its group of factors: sums + Σ row[i]·column[i]."""
    if group == INT8_TILE.group:
        return builder.call(DOT, [sums, row, column])
    # One instruction with VNNI (vpdpwssd), two with AVX2 or SSE (pmaddwd, paddd): LLVM knows this.
    row, column = (builder.sext(builder.bitcast(x, PAIRS), WIDE) for x in (row, column))
    products = builder.mul(column, row, flags=("nsw",))
    even = shuffle(builder, products, products, range(0, 2 * LANES, 2))
    odd = shuffle(builder, products, products, range(1, 2 * LANES, 2))
    return builder.add(sums, builder.add(even, odd))


@intrinsic
def add_outer_groups(
    context: Any, tile: Any, sums: Any, a: Any, at: Any, step: Any, b: Any, bt: Any
) -> Any:
    """sums [rows, width] += the groups a[at + i·step] times the row of groups b[bt:]."""
    counts = tile.value

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, packed, left, at, step, right, b_at = values
        parts, vectors = registers(builder, packed), counts.vectors
        row = [
            read(builder, element_at(context, builder, b, right, b_at, LANES * j), LANE)
            for j in range(vectors)
        ]
        for i in range(counts.rows):
            scalar = builder.load(element_at(context, builder, a, left, at))
            factor = splat(builder, scalar, LANES)
            for j in range(vectors):
                place = i * vectors + j
                parts[place] = add_groups(builder, counts.group, parts[place], factor, row[j])
            at = builder.add(at, step)
        return pack(builder, parts)

    return sums(tile, sums, a, intp, intp, b, intp), codegen


# Palette 1: eight tiles of 16 rows of 64 bytes.
AMX_SETUP = np.array([1] + [0] * 15 + [64, 0] * 8 + [0] * 16 + [16] * 8 + [0] * 8, np.uint8)
# Operands: 0 and 1 the first and the other 16 rows, 2 the columns, 3 the number of steps, 8 the
# setup, 9 and 10 the bytes between rows and between groups of columns, 11 the sums. A step takes 64
# bytes of each row, and 16 groups of 128 bytes of the columns.
AMX_CODE = """ldtilecfg ($8)
    tilezero %tmm0
    tilezero %tmm1
    tilezero %tmm2
    tilezero %tmm3
1:  tileloadd ($0,$9,1), %tmm4
    tileloadd ($1,$9,1), %tmm5
    tileloadd ($2,$10,1), %tmm6
    tileloadd 64($2,$10,1), %tmm7
    tdpbusd %tmm6, %tmm4, %tmm0
    tdpbusd %tmm7, %tmm4, %tmm1
    tdpbusd %tmm6, %tmm5, %tmm2
    tdpbusd %tmm7, %tmm5, %tmm3
    addq $$64, $0
    addq $$64, $1
    addq $$2048, $2
    decq $3
    jnz 1b
    tilestored %tmm0, ($11,$10,1)
    tilestored %tmm1, 64($11,$10,1)
    tilestored %tmm2, 2048($11,$10,1)
    tilestored %tmm3, 2112($11,$10,1)
    tilerelease"""
WORD = ir.IntType(64)
AMX = ir.InlineAsm(
    ir.FunctionType(ir.LiteralStructType([WORD] * 4), [WORD] * 8),
    "; ".join(line.strip() for line in AMX_CODE.splitlines()),
    "=&r,=&r,=&r,=&r,0,1,2,3,r,r,r,r,~{memory},~{flags}",
    side_effect=True,
)


@intrinsic
def write_amx_sums(
    context: Any, a: Any, at: Any, depth: Any, b: Any, bt: Any, setup: Any, sums: Any
) -> Any:
    """sums [32, 32] = the 32 rows of `depth` groups from a[at:] times the panel from b[bt:]."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        rows, at, depth, columns, start, setup_data, sums_data = values
        zero, group_bytes, panel_bytes = (depth.type(number) for number in (0, 4, 128))
        later = builder.add(at, builder.mul(depth, depth.type(16)))
        first, other, panel, setup_at, sums_at = (
            builder.ptrtoint(element_at(context, builder, typ, data, place), WORD)
            for typ, data, place in (
                (a, rows, at), (a, rows, later), (b, columns, start), (setup, setup_data, zero),
                (sums, sums_data, zero),
            )
        )  # fmt: skip
        steps, row_bytes = builder.udiv(depth, depth.type(16)), builder.mul(depth, group_bytes)
        builder.call(AMX, [first, other, panel, steps, setup_at, row_bytes, panel_bytes, sums_at])
        return context.get_dummy_value()

    return void(a, intp, intp, b, intp, setup, sums), codegen


@intrinsic
def add_tile(
    context: Any, tile: Any, out: Any, at: Any, step: Any, sums: Any, excess: Any, scale: Any,
    column: Any, scales: Any, row: Any,
) -> Any:  # fmt: skip
    """out[at + i·step:] += (row i of the sums - excess[column:])·scale[column:]·scales[row + i]."""
    vectors, floats = tile.value.vectors, Vectors(1, FLOAT).register

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, data, at, step, packed, excess_data, by_column, column, by_row, row = values
        offsets = [(column, LANES * j) for j in range(vectors)]
        excesses, factors = (
            [
                read(builder, element_at(context, builder, typ, of, *offset), kind)
                for offset in offsets
            ]
            for typ, of, kind in ((excess, excess_data, LANE), (scale, by_column, floats))
        )
        for i, part in enumerate(registers(builder, packed)):
            own, j = divmod(i, vectors)
            place = element_at(context, builder, out, data, at, LANES * j)
            scalar = builder.load(element_at(context, builder, scales, by_row, row, own))
            exact = builder.sitofp(builder.sub(part, excesses[j]), floats)
            factor = builder.fmul(factors[j], splat(builder, scalar, LANES), flags=FAST)
            product = builder.fmul(exact, factor, flags=FAST)
            write(builder, builder.fadd(read(builder, place, floats), product, flags=FAST), place)
            if j + 1 == vectors:
                at = builder.add(at, step)
        return context.get_dummy_value()

    return void(tile, out, intp, intp, sums, excess, scale, intp, scales, intp), codegen


class RoundedRows(NamedTuple):
    """Rows [n, depth] to be multiplied with a matrix, in whole tiles."""

    groups: I32  # [≥ n, depth / group]
    scales: F32  # [≥ n]
    errors: F32  # [n], how far a row's products may be off by the rounding


@dataclass(frozen=True, slots=True, eq=False)
class RoundedMatrix:
    """A fixed matrix [depth, width]; a row's product has the same bits in any batch."""

    tile: Tile
    panels: I32  # flat: panel by panel, groups of depth beside each other
    scale: F32  # [room], what a column's sums are multiplied by
    excess: I32  # [room], what the shift of the rows adds to them
    depth: int  # in whole steps of the tile
    room: int  # the matrix's width with what whole registers need
    longest: float  # the length of the longest column
    lost: float  # the length of what rounding took of a column, at most

    @classmethod
    def of(cls, matrix: F32, tile: Tile = TILE) -> Self:
        height, width = matrix.shape
        depth, room = round_up(max(height, 1), tile.step), round_up(max(width, 1), tile.width)
        groups, full = depth // tile.group, full_level(tile, depth)
        kind = np.int8 if tile.group == INT8_TILE.group else np.int16
        scale, excess = np.zeros(room, np.float32), np.zeros(room, np.int32)
        panels = aligned_zeros((room // tile.width, groups, tile.width, tile.group), kind)
        longest = lost = 0.0
        for first in range(0, width, COLUMNS_AT_ONCE):
            columns = matrix[:, first : first + COLUMNS_AT_ONCE]
            span = slice(first, first + columns.shape[1])
            steps = np.abs(columns).max(axis=0, initial=0) / np.float32(full)
            scale[span] = steps
            levels = np.rint(columns / np.where(steps > 0, steps, 1))
            longest = max(longest, longest_column(columns))
            lost = max(lost, longest_column(columns - levels * steps))
            if tile.group == INT8_TILE.group:
                excess[span] = SHIFT * levels.sum(axis=0)
            whole = np.zeros((depth, round_up(columns.shape[1], tile.width)), kind)
            whole[:height, : columns.shape[1]] = levels
            parts = whole.reshape(groups, tile.group, -1, tile.width).transpose(2, 0, 3, 1)
            panels[first // tile.width :][: len(parts)] = parts
        flat = fixed(panels.ravel().view(np.int32))
        return cls(tile, flat, fixed(scale), fixed(excess), depth, room, longest, lost)

    def rounded(self, rows: F32) -> RoundedRows:
        """Rows no wider than the matrix is deep."""
        count, kind = (
            round_up(len(rows), self.tile.rows),
            np.uint8 if self.tile.group == INT8_TILE.group else np.int16,
        )
        levels, scales = aligned_zeros((count, self.depth), kind), np.zeros(count, np.float32)
        lengths, lost = np.zeros((2, len(rows)))
        shift = SHIFT if self.tile.group == INT8_TILE.group else 0
        full = np.float32(full_level(self.tile, self.depth))
        round_rows(fixed(rows), full, shift, levels, scales, lengths, lost)
        errors = lost * self.longest + (lengths + lost) * self.lost
        return RoundedRows(levels.view(np.int32), scales, errors.astype(np.float32))

    def product(self, rows: F32) -> tuple[F32, F32]:
        """Products with the columns [n, room], and how far those of each row may be off [n]."""
        rounded = self.rounded(rows)
        out = np.zeros((len(rounded.scales), self.room), np.float32)
        matrix = (self.panels, self.scale, self.excess)
        add_products(self.tile, rounded.groups, rounded.scales, *matrix, 0, out)
        return out[: len(rows)], rounded.errors


def aligned_zeros(shape: tuple[int, ...], kind: type[np.number[Any]]) -> NDArray[Any]:
    """An array that begins at a cache line."""
    size = prod(shape) * np.dtype(kind).itemsize
    memory = np.zeros(size + LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % LINE_BYTES
    return memory[start : start + size].view(kind).reshape(shape)


def full_level(tile: Tile, depth: int) -> int:
    """The level of the largest number of a row or column; no sum of products reaches 2³¹."""
    return 127 if tile.group == INT8_TILE.group else min(2**15 - 1, isqrt((2**31 - 1) // depth))


def longest_column(matrix: F32) -> float:
    squares = np.einsum("dk,dk->k", matrix, matrix, dtype=np.float64)
    return float(np.sqrt(squares.max(initial=0)))


@jit()
def largest_size(values: F32) -> np.float32:
    """The largest absolute value; a loop over max() alone would stay scalar."""
    whole = len(values) - len(values) % LANES
    zero = broadcast(1, np.float32(0))
    high, low = zero, zero
    for at in range(0, whole, LANES):
        part = load(1, values, at)
        high, low = maximum(high, part), maximum(low, zero - part)
    most = max(highest_lane(high), highest_lane(low))
    for at in range(whole, len(values)):
        most = max(most, abs(values[at]))
    return np.float32(most)


@jit(fast=True)
def round_rows(
    rows: F32, full: np.float32, shift: int, levels: Any, scales: F32, lengths: F64, lost: F64
) -> None:
    """Write the levels and the scale of each row, its length and that of what rounding took."""
    for row in range(len(rows)):
        most = largest_size(rows[row])
        scale = most / full
        inverse = np.float32(1) / scale if most > 0 else np.float32(0)
        whole, away = np.float32(0), np.float32(0)
        for at in range(rows.shape[1]):
            level = np.rint(rows[row, at] * inverse)
            levels[row, at] = np.int32(level) + shift
            rest = rows[row, at] - level * scale
            whole += rows[row, at] * rows[row, at]
            away += rest * rest
        scales[row], lengths[row], lost[row] = scale, np.sqrt(whole), np.sqrt(away)


def add_block(
    tile: Any, groups: I32, row: int, scales: F32, panels: I32, scale: F32, excess: I32,
    column: int, out: F32, at: int, memory: I32,
) -> None:  # fmt: skip
    """out[row:, at:] += the products of a tile's rows and columns; `memory` has room for them.

    Compiled code calls one of the two functions below in its place.
    """


@overload(add_block, jit_options={"fastmath": FAST_MATH}, strict=False)
def choose_block(
    tile: Any, groups: Any, row: Any, scales: Any, panels: Any, scale: Any, excess: Any,
    column: Any, out: Any, at: Any, memory: Any,
) -> Any:  # fmt: skip
    return add_amx_block if tile.value.amx else add_vector_block


def add_vector_block(
    tile: Any, groups: I32, row: int, scales: F32, panels: I32, scale: F32, excess: I32,
    column: int, out: F32, at: int, memory: I32,
) -> None:  # fmt: skip
    depth, width = groups.shape[1], out.shape[1]
    sums = broadcast(tile.registers, np.int32(0))
    for k in range(depth):
        start = column * depth + k * tile.width
        sums = add_outer_groups(tile, sums, groups, row * depth + k, depth, panels, start)
    add_tile(tile, out, row * width + at, width, sums, excess, scale, column, scales, row)


def add_amx_block(
    tile: Any, groups: I32, row: int, scales: F32, panels: I32, scale: F32, excess: I32,
    column: int, out: F32, at: int, memory: I32,
) -> None:  # fmt: skip
    depth = groups.shape[1]
    write_amx_sums(groups, row * depth, depth, panels, column * depth, AMX_SETUP, memory)
    height, width = memory.shape
    excess, scale = excess[column : column + width], scale[column : column + width]
    for i in range(height):
        sums, line, factor = memory[i], out[row + i, at : at + width], scales[row + i]
        for j in range(width):
            line[j] += np.float32(np.int32(sums[j] - excess[j])) * (scale[j] * factor)


@jit(fast=True)
def add_products(
    tile: Any, groups: I32, scales: F32, panels: I32, scale: F32, excess: I32, first: int, out: F32
) -> None:
    """out [n, columns] += the products of rounded rows with a matrix, from column `first`.

    Columns are those of whole panels, rows those of whole tiles; `out` has room for them.
    """
    memory = np.empty((tile.rows, tile.width), np.int32)
    for at in range(0, out.shape[1], tile.width):
        for row in range(0, len(groups), tile.rows):
            add_block(tile, groups, row, scales, panels, scale, excess, first + at, out, at, memory)
