"""Sums and maxima across lanes and across registers."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from encoder.simd.lanewise import larger
from encoder.simd.loads import element_at, read
from encoder.simd.registers import FAST, FLOAT, Vectors, constant, known, pack, registers, shuffle
from encoder.simd.tile import LANES

ONE = Vectors(1, FLOAT)


def add(builder: Any, x: Any, y: Any) -> Any:
    """The sum of two float registers."""
    return builder.fadd(x, y, flags=FAST)


def combined(x: Any, combine: Callable[..., Any]) -> Any:
    """An intrinsic that makes one register of all, from the first to the last."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return pack(builder, [reduce(partial(combine, builder), registers(builder, values[0]))])

    return ONE(x), codegen


@intrinsic
def largest(context: Any, x: Any) -> Any:
    """The largest of all registers, lane by lane."""
    return combined(x, larger)


@intrinsic
def sum_registers(context: Any, x: Any) -> Any:
    """The sum of all registers, lane by lane."""
    return combined(x, add)


@intrinsic
def highest_lane(context: Any, x: Any) -> Any:
    """The largest lane of one register, as a scalar."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        part = registers(builder, values[0])[0]
        for apart in (8, 4, 2, 1):
            other = shuffle(builder, part, part, [i ^ apart for i in range(LANES)])
            part = larger(builder, part, other)
        return builder.extract_element(part, ir.Constant(ir.IntType(32), 0))

    return types.float32(x), codegen


@intrinsic(prefer_literal=True)
def double_own(context: Any, own: Any, x: Any) -> Any:
    """x with register `own` doubled: the token itself stands in its context twice."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        parts = registers(builder, values[1])
        i = known(own)
        parts[i] = add(builder, parts[i], parts[i])
        return pack(builder, parts)

    return x(own, x), codegen


def transpose_sum(builder: Any, parts: list[Any]) -> Any:
    """The lanes of register i added up, in lane i; up to 16 registers, the missing ones zero.

    A step takes two registers whose numbers differ in one bit and leaves one whose lanes with that
    bit clear belong to the first: 15 additions of whole registers instead of 16 sums of 16 lanes.
    """
    zero = constant(parts[0].type, 0.0)
    bit = 1
    while bit < LANES:
        merged = []
        for i in range(0, len(parts), 2):
            x, y = parts[i], parts[i + 1] if i + 1 < len(parts) else zero
            near = [lane if not lane & bit else LANES + lane for lane in range(LANES)]
            far = [lane ^ bit if not lane & bit else LANES + (lane ^ bit) for lane in range(LANES)]
            kept, moved = shuffle(builder, x, y, near), shuffle(builder, x, y, far)
            merged.append(add(builder, kept, moved))
        parts, bit = merged, 2 * bit
    return parts[0]


def dot(builder: Any, x: list[Any], y: list[Any]) -> Any:
    """Lane by lane Σ x·y, in two chains so that one addition need not wait for the last."""
    chains: list[Any] = [None, None]
    for i, (p, q) in enumerate(zip(x, y, strict=True)):
        product = builder.fmul(p, q, flags=FAST)
        last = chains[i % 2]
        chains[i % 2] = product if last is None else add(builder, last, product)
    if chains[1] is None:
        return chains[0]
    return add(builder, chains[0], chains[1])


@intrinsic(prefer_literal=True)
def row_dots(context: Any, count: Any, x: Any, array: Any, at: Any, step: Any) -> Any:
    """x · array[at + i·step:] in lane i, for `count` ≤ 16 rows; 0 in the other lanes."""
    rows = known(count)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, packed, data, at, step = values
        left, sums = registers(builder, packed), []
        for _ in range(rows):
            right = [
                read(builder, element_at(context, builder, array, data, at, LANES * i), p.type)
                for i, p in enumerate(left)
            ]
            sums.append(dot(builder, left, right))
            at = builder.add(at, step)
        return pack(builder, [transpose_sum(builder, sums)])

    return ONE(count, x, array, types.intp, types.intp), codegen
