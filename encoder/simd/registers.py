"""Register vectors: a numba type of `count` registers of 512 bits, with a difference.

Plain loops reach half of this speed: LLVM does not find the products of int16 pairs by itself, and
spills the sums. Here every sum is named and stays in a register. The code is generic LLVM IR
without one target intrinsic, so LLVM lowers it to AVX-512 with VNNI, AVX2, SSE or NEON, whatever
there is.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import (
    lower_builtin,
    models,
    register_model,
    type_callable,
)

BITS = 512
FLOAT, INT, HALF = types.float32, types.int32, types.int16
ELEMENTS = {FLOAT: ir.FloatType(), INT: ir.IntType(32), HALF: ir.IntType(16)}
# Not "reassoc": sums keep the order written, so that a text's bits depend on the text alone.
FAST = ("contract", "arcp", "nsz", "afn")


class Vectors(types.Type):
    """`count` registers of float32, int32 or int16 lanes."""

    def __init__(self, count: int, element: Any) -> None:
        self.count, self.element = count, element
        super().__init__(name=f"Vectors({count} x {element})")

    @property
    def lanes(self) -> int:
        """Lanes of one register."""
        return BITS // int(self.element.bitwidth)

    @property
    def register(self) -> Any:
        """The LLVM type of one register."""
        return ir.VectorType(ELEMENTS[self.element], self.lanes)


@register_model(Vectors)
def vectors_model(manager: Any, typ: Vectors) -> Any:
    """How the registers are passed: as an LLVM array, which LLVM takes apart again."""
    return models.PrimitiveModel(manager, typ, ir.ArrayType(typ.register, typ.count))


def known(count: Any) -> int:
    """The value of a count, which has to be a constant when numba compiles."""
    if not isinstance(count, types.IntegerLiteral):
        raise TypingError(f"{count}: a number of registers must be a constant")
    return int(count.literal_value)


def registers(builder: Any, value: Any) -> list[Any]:
    """The registers of a Vectors value."""
    return [builder.extract_value(value, i) for i in range(value.type.count)]


def pack(builder: Any, parts: Sequence[Any]) -> Any:
    """A Vectors value of these registers."""
    value = ir.Constant(ir.ArrayType(parts[0].type, len(parts)), ir.Undefined)
    for i, part in enumerate(parts):
        value = builder.insert_value(value, part, i)
    return value


def shuffle(builder: Any, x: Any, y: Any, lanes: Sequence[int]) -> Any:
    """The register whose lane i is lane lanes[i] of x and y side by side."""
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))
    return builder.shuffle_vector(x, y, mask)


def splat(builder: Any, scalar: Any, lanes: int) -> Any:
    """A register with the same scalar in every lane."""
    empty = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
    first = builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
    return shuffle(builder, first, empty, [0] * lanes)


def constant(register: Any, value: float) -> Any:
    """A register with the same constant in every lane."""
    return ir.Constant(register, [value] * register.count)


def lanewise(emit: Callable[..., Any], result: Vectors, *operands: Any) -> Any:
    """An intrinsic that does the same to each register; scalars and single registers repeat."""
    vectors = [t for t in operands if isinstance(t, Vectors)]
    scalar = vectors[0].element
    signature = result(*[t if isinstance(t, Vectors) else scalar for t in operands])

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        columns = []
        for typ, value in zip(signature.args, values, strict=True):
            if not isinstance(typ, Vectors):
                parts = [splat(builder, value, vectors[0].lanes)]
            else:
                parts = registers(builder, value)
            columns.append(parts * (result.count // len(parts)))
        return pack(builder, [emit(builder, *parts) for parts in zip(*columns, strict=True)])

    return signature, codegen


def common(x: Any, y: Any) -> Any:
    """The type of x ∘ y: of two vectors the longer one, of which the other must be one register."""
    if isinstance(x, Vectors) and isinstance(y, Vectors):
        fits = x.element == y.element and (x.count == y.count or 1 in (x.count, y.count))
        return (x if x.count >= y.count else y) if fits else None
    if isinstance(x, Vectors) and isinstance(y, types.Number):
        return x
    return y if isinstance(y, Vectors) and isinstance(x, types.Number) else None


@type_callable(operator.sub)
def type_difference(context: Any) -> Any:
    def typer(x: Any, y: Any) -> Any:
        result = common(x, y)
        return None if result is None else lanewise(lambda: None, result, x, y)[0]

    return typer


def lower_difference(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    def emit(builder: Any, x: Any, y: Any) -> Any:
        return builder.fsub(x, y, flags=FAST)

    codegen = lanewise(emit, signature.return_type, *signature.args)[1]
    return codegen(context, builder, signature, values)


lower_builtin(operator.sub, Vectors, Vectors)(lower_difference)
