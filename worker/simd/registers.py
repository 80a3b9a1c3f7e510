"""Registers of 512 bits for numba, with shapes that are known at compile time.

A jitted closure or generated source would fix the shape of a model just as well, but the closure
misses numba's cache and the source cannot be read. Here the shape is an argument like any other:
`shape.pairs` is a whole number in jitted code, and a literal of its type to an intrinsic.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import Any

from llvmlite import binding, ir
from numba.core import config, types
from numba.core.errors import TypingError
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_builtin,
    models,
    register_model,
    type_callable,
    unbox,
)
from numba.extending import lower_getattr_generic as lower_attribute

from encoder.support.pointers import pointer_value


class StaticType(types.Type):
    """The numba type of one Static value; a value of this type takes no room at run time."""

    def __init__(self, value: "Static") -> None:
        self.value = value
        super().__init__(name=f"Static({value!r})")


class Static:
    """Base of frozen dataclasses whose whole-number attributes are compile-time constants."""

    @property
    def _numba_type_(self) -> StaticType:
        return type_of(self)


@cache
def type_of(value: Static) -> StaticType:
    """Cached, because every call needs it."""
    return StaticType(value)


register_model(StaticType)(models.OpaqueModel)


@unbox(StaticType)
def unbox_static(typ: Any, obj: Any, c: Any) -> Any:
    """The type holds everything."""
    return NativeValue(c.context.get_dummy_value())


@infer_getattr
class StaticAttributes(AttributeTemplate):  # type: ignore[misc]  # numba has no types
    """An attribute is a literal, or another Static."""

    key = StaticType

    def generic_resolve(self, typ: StaticType, attr: str) -> Any:
        """None makes numba report an unknown attribute."""
        value = getattr(typ.value, attr, None)
        if isinstance(value, Static):
            return StaticType(value)
        return types.IntegerLiteral(value) if isinstance(value, int) else None


@lower_attribute(StaticType)
def lower_static(context: Any, builder: Any, typ: StaticType, value: Any, attr: str) -> Any:
    """An attribute of a Static as an LLVM constant."""
    constant = getattr(typ.value, attr)
    if isinstance(constant, Static):
        return context.get_dummy_value()
    return context.get_constant(types.intp, constant)


LANES = 16  # float32 or int32 in 512 bits
# Of the processor that is compiled for: NUMBA_CPU_NAME names another than the host.
FEATURES = {} if config.CPU_NAME else binding.get_host_cpu_features()

# How many vectors of 512 bits can be summed up without spilling one to memory: three quarters of
# the registers; the others hold factors. There are 32 with AVX-512, else 16 of half the size.
SUMS = 24 if FEATURES.get("avx512f") else 6


def round_up(value: int, step: int) -> int:
    """`value` rounded up to a multiple of `step`."""
    return -(-value // step) * step


@dataclass(frozen=True)
class Tile(Static):
    """The part of a matrix product that stays in registers."""

    vectors: int
    group: int  # factors in a lane: four of int8, or two of int16
    amx: int = 0  # 1: the tile registers of AMX, each of 16 rows of 64 bytes

    @property
    def rows(self) -> int:
        return 32 if self.amx else min(SUMS // self.vectors, 12)

    @property
    def registers(self) -> int:
        return self.rows * self.vectors

    @property
    def step(self) -> int:
        """factors that are multiplied at once"""
        return 16 * self.group if self.amx else self.group

    @property
    def width(self) -> int:
        """columns"""
        return self.vectors * LANES


BITS = 512
FLOAT, INT, INT16 = types.float32, types.int32, types.int16
ELEMENTS = {FLOAT: ir.FloatType(), INT: ir.IntType(32), INT16: ir.IntType(16)}
# Not "reassoc": sums keep the order written, so that a text's bits depend on the text alone.
FAST = ("contract", "arcp", "nsz", "afn")


class Vectors(types.Type):
    """`count` registers of float32, int32 or int16."""

    def __init__(self, count: int, element: Any) -> None:
        self.count, self.element = count, element
        super().__init__(name=f"Vectors({count} x {element})")

    @property
    def lanes(self) -> int:
        """of one register"""
        return BITS // int(self.element.bitwidth)

    @property
    def register(self) -> Any:
        """the LLVM type of one register"""
        return ir.VectorType(ELEMENTS[self.element], self.lanes)


@register_model(Vectors)
def vectors_model(manager: Any, typ: Vectors) -> Any:
    """Registers are passed as an LLVM array, which LLVM splits again."""
    return models.PrimitiveModel(manager, typ, ir.ArrayType(typ.register, typ.count))


def constant_count(count: Any) -> int:
    """The value of a count, which must be a compile-time constant."""
    if not isinstance(count, types.IntegerLiteral):
        raise TypingError(f"{count}: a number of registers must be a constant")
    return int(count.literal_value)


def registers(builder: Any, value: Any) -> list[Any]:
    return [builder.extract_value(value, i) for i in range(value.type.count)]


def pack(builder: Any, parts: Sequence[Any]) -> Any:
    """The inverse of `registers`."""
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
    return ir.Constant(register, [value] * register.count)


def lanewise(emit: Callable[..., Any], result: Vectors, *operands: Any) -> Any:
    """An intrinsic that applies one operation to each register; scalars repeat."""
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


def common_type(x: Any, y: Any) -> Any:
    """The result type of x ∘ y: the longer vector; the other may have only one register."""
    if isinstance(x, Vectors) and isinstance(y, Vectors):
        fits = x.element == y.element and (x.count == y.count or 1 in (x.count, y.count))
        return (x if x.count >= y.count else y) if fits else None
    if isinstance(x, Vectors) and isinstance(y, types.Number):
        return x
    return y if isinstance(y, Vectors) and isinstance(x, types.Number) else None


@type_callable(operator.sub)
def type_difference(context: Any) -> Any:
    def typer(x: Any, y: Any) -> Any:
        result = common_type(x, y)
        return None if result is None else lanewise(lambda: None, result, x, y)[0]

    return typer


def lower_difference(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    def emit(builder: Any, x: Any, y: Any) -> Any:
        return builder.fsub(x, y, flags=FAST)

    codegen = lanewise(emit, signature.return_type, *signature.args)[1]
    return codegen(context, builder, signature, values)


lower_builtin(operator.sub, Vectors, Vectors)(lower_difference)


def larger(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


@intrinsic
def maximum(context: Any, x: Any, y: Any) -> Any:
    """The larger of x and y, lane by lane; y may be a scalar."""
    return lanewise(larger, common_type(x, y), x, y)


def element_at(context: Any, builder: Any, typ: Any, array: Any, at: Any, offset: int = 0) -> Any:
    """A pointer to array[at + offset]."""
    data = pointer_value(context, builder, typ, array)
    return builder.gep(builder.gep(data, [at]), [ir.Constant(at.type, offset)])


def read(builder: Any, pointer: Any, register: Any) -> Any:
    """Memory is aligned to elements only."""
    loaded = builder.load(builder.bitcast(pointer, register.as_pointer()))
    loaded.align = register.element.width // 8 if isinstance(register.element, ir.IntType) else 4
    return loaded


def write(builder: Any, register: Any, pointer: Any) -> None:
    """Memory is aligned to elements only."""
    element = register.type.element
    stored = builder.store(register, builder.bitcast(pointer, register.type.as_pointer()))
    stored.align = element.width // 8 if isinstance(element, ir.IntType) else 4


def read_all(context: Any, builder: Any, typ: Any, array: Any, at: Any, kind: Vectors) -> list[Any]:
    return [
        read(builder, element_at(context, builder, typ, array, at, kind.lanes * i), kind.register)
        for i in range(kind.count)
    ]


@intrinsic(prefer_literal=True)
def broadcast(context: Any, count: Any, value: Any) -> Any:
    """`count` registers with one float32 or int32 in every lane."""
    element = types.float32 if isinstance(value, types.Float) else types.int32
    result = Vectors(constant_count(count), element)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return pack(builder, [splat(builder, values[1], result.lanes)] * result.count)

    return result(count, element), codegen


@intrinsic(prefer_literal=True)
def load(context: Any, count: Any, array: Any, at: Any) -> Any:
    """`count` registers of the array's own elements from array[at]."""
    result = Vectors(constant_count(count), array.dtype)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, data, at = values
        return pack(builder, read_all(context, builder, signature.args[1], data, at, result))

    return result(count, array, types.intp), codegen


ONE = Vectors(1, FLOAT)


def fold_registers(x: Any, combine: Callable[..., Any]) -> Any:
    """An intrinsic that folds all registers into one, first to last."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return pack(builder, [reduce(partial(combine, builder), registers(builder, values[0]))])

    return ONE(x), codegen


@intrinsic
def largest(context: Any, x: Any) -> Any:
    """The largest of all registers, lane by lane."""
    return fold_registers(x, larger)


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
