"""Sums and maxima across lanes and across registers."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from encoder.simd.lanewise import larger
from encoder.simd.registers import FLOAT, Vectors, pack, registers, shuffle
from encoder.simd.tile import LANES

ONE = Vectors(1, FLOAT)


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
def highest_lane(context: Any, x: Any) -> Any:
    """The largest lane of one register, as a scalar."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        part = registers(builder, values[0])[0]
        for apart in (8, 4, 2, 1):
            other = shuffle(builder, part, part, [i ^ apart for i in range(LANES)])
            part = larger(builder, part, other)
        return builder.extract_element(part, ir.Constant(ir.IntType(32), 0))

    return types.float32(x), codegen
