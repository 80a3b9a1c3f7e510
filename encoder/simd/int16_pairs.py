"""Arithmetic on pairs of int16: the heart of the kernel.

Two neighbouring int16 are multiplied by two others and the products summed into one int32. That is
one instruction with VNNI (vpdpwssd) and two with AVX2 or SSE (pmaddwd, paddd); LLVM knows the
pattern that `multiply_pairs` writes out. It does four times the work of a float32 multiply-add per
byte read.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from encoder.simd.loads import halves_at, read_all
from encoder.simd.registers import (
    HALF,
    INT,
    Vectors,
    constant,
    lanewise,
    pack,
    registers,
    shuffle,
    splat,
)
from encoder.simd.tile import HALVES, LANES

WIDE = ir.VectorType(ir.IntType(32), HALVES)
PAIRS = ir.VectorType(ir.IntType(16), HALVES)


def multiply_pairs(builder: Any, x: Any, y: Any) -> Any:
    """x[2i]·y[2i] + x[2i+1]·y[2i+1] in lane i."""
    products = builder.mul(builder.sext(x, WIDE), builder.sext(y, WIDE), flags=("nsw",))
    even = shuffle(builder, products, products, range(0, HALVES, 2))
    odd = shuffle(builder, products, products, range(1, HALVES, 2))
    return builder.add(even, odd)


@intrinsic
def add_scaled(context: Any, total: Any, where: Any, weights: Any) -> Any:
    """total + the pairs at an address times one pair of int16 weights, packed into an int32."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        sums, start, packed = values
        both = builder.bitcast(splat(builder, packed, LANES), PAIRS)
        parts = []
        for i, part in enumerate(registers(builder, sums)):
            row = halves_at(builder, start, HALVES * i, HALVES)
            parts.append(builder.add(part, multiply_pairs(builder, row, both)))
        return pack(builder, parts)

    return total(total, types.int64, types.int32), codegen


@intrinsic
def join_pairs(context: Any, low: Any, high: Any) -> Any:
    """int32 registers as int16 pairs: the low halves, and the high ones."""
    result = Vectors(low.count, HALF)

    def emit(builder: Any, low: Any, high: Any) -> Any:
        below, by = constant(low.type, 0xFFFF), constant(low.type, 16)
        both = builder.or_(builder.and_(low, below), builder.shl(high, by))
        return builder.bitcast(both, result.register)

    return lanewise(emit, result, low, high)


def gather_heads(builder: Any, shape: Any, sums: list[Any]) -> Any:
    """The parts of each head added up: head i of the bank in lane i; other lanes hold anything."""
    total = None
    for part in range(shape.parts):
        lanes = []
        for head in range(LANES):
            group, within = divmod(head, shape.group_heads)
            used = head < shape.bank_heads
            lanes.append(group * LANES + part * shape.group_heads + within if used else 0)
        piece = shuffle(builder, sums[0], sums[-1], lanes)
        total = piece if total is None else builder.add(total, piece)
    return total


@intrinsic
def head_logits(context: Any, shape: Any, queries: Any, array: Any, at: Any) -> Any:
    """Query times key for each head of a bank, head i in lane i, from keys at array[at]."""
    counts = shape.value
    result = Vectors(1, INT)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        q = registers(builder, values[1])
        k = read_all(context, builder, array, values[2], values[3], queries)
        sums = []
        for group in range(counts.groups):
            total = constant(result.register, 0)
            for i in range(group * counts.steps, (group + 1) * counts.steps):
                total = builder.add(total, multiply_pairs(builder, q[i], k[i]))
            sums.append(total)
        return pack(builder, [gather_heads(builder, counts, sums)])

    return result(shape, queries, array, types.intp), codegen
