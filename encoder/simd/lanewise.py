"""What register vectors can do besides the operators, each lane for itself."""

from typing import Any

from numba.extending import intrinsic

from encoder.simd.registers import common, lanewise


def larger(builder: Any, x: Any, y: Any) -> Any:
    """The larger of two float registers, lane by lane."""
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


@intrinsic
def maximum(context: Any, x: Any, y: Any) -> Any:
    """The larger of x and y, lane by lane; y may be a scalar."""
    return lanewise(larger, common(x, y), x, y)
