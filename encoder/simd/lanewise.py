"""What register vectors can do besides the operators, each lane for itself."""

from typing import Any

from numba.extending import intrinsic
from numpy import float32

from encoder.simd.registers import FLOAT, INT, Vectors, common, constant, lanewise
from encoder.support.jit import jit


def larger(builder: Any, x: Any, y: Any) -> Any:
    """The larger of two float registers, lane by lane."""
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


@intrinsic
def maximum(context: Any, x: Any, y: Any) -> Any:
    """The larger of x and y, lane by lane; y may be a scalar."""
    return lanewise(larger, common(x, y), x, y)


@intrinsic
def where_positive(context: Any, test: Any, x: Any) -> Any:
    """x where test > 0, else 0."""

    def emit(builder: Any, test: Any, x: Any) -> Any:
        zero = constant(x.type, 0.0)
        return builder.select(builder.fcmp_ordered(">", test, zero), x, zero)

    return lanewise(emit, x, test, x)


def converted(x: Any, element: Any, instruction: str) -> Any:
    """Each lane by one of llvmlite's conversions."""
    result = Vectors(x.count, element)
    return lanewise(lambda builder, x: getattr(builder, instruction)(x, result.register), result, x)


@intrinsic
def as_bits(context: Any, x: Any) -> Any:
    """The int32 with the bits of a float32."""
    return converted(x, INT, "bitcast")


@intrinsic
def from_bits(context: Any, x: Any) -> Any:
    """The float32 with the bits of an int32."""
    return converted(x, FLOAT, "bitcast")


@intrinsic
def to_float(context: Any, x: Any) -> Any:
    """int32 to float32."""
    return converted(x, FLOAT, "sitofp")


@intrinsic
def to_int(context: Any, x: Any) -> Any:
    """float32 to int32, cut towards zero."""
    return converted(x, INT, "fptosi")


@jit(fast=True, inline=True)
def nearest(x: Any) -> Any:
    """The nearest int32, for |x| < 32768: made positive first, so that cutting rounds down."""
    return to_int(x + float32(32768.5)) - 32768
