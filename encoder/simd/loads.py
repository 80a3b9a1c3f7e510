"""Between arrays and registers: loads and stores. No index is checked."""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from encoder.simd.pointers import bare_value
from encoder.simd.registers import Vectors, known, pack, splat


def element_at(context: Any, builder: Any, typ: Any, array: Any, at: Any, offset: int = 0) -> Any:
    """A pointer to array[at + offset]."""
    data = bare_value(context, builder, typ, array)
    return builder.gep(builder.gep(data, [at]), [ir.Constant(at.type, offset)])


def read(builder: Any, pointer: Any, register: Any) -> Any:
    """One register from memory aligned to its elements only."""
    loaded = builder.load(builder.bitcast(pointer, register.as_pointer()))
    loaded.align = register.element.width // 8 if isinstance(register.element, ir.IntType) else 4
    return loaded


def write(builder: Any, register: Any, pointer: Any) -> None:
    """One register to memory aligned to its elements only."""
    element = register.type.element
    stored = builder.store(register, builder.bitcast(pointer, register.type.as_pointer()))
    stored.align = element.width // 8 if isinstance(element, ir.IntType) else 4


def read_all(context: Any, builder: Any, typ: Any, array: Any, at: Any, kind: Vectors) -> list[Any]:
    """As many registers as `kind` has, from array[at] on."""
    return [
        read(builder, element_at(context, builder, typ, array, at, kind.lanes * i), kind.register)
        for i in range(kind.count)
    ]


@intrinsic(prefer_literal=True)
def filled(context: Any, count: Any, value: Any) -> Any:
    """`count` registers with one float32 or int32 in every lane."""
    element = types.float32 if isinstance(value, types.Float) else types.int32
    result = Vectors(known(count), element)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return pack(builder, [splat(builder, values[1], result.lanes)] * result.count)

    return result(count, element), codegen


@intrinsic(prefer_literal=True)
def load(context: Any, count: Any, array: Any, at: Any) -> Any:
    """`count` registers of the array's own elements from array[at] on."""
    result = Vectors(known(count), array.dtype)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, data, at = values
        return pack(builder, read_all(context, builder, signature.args[1], data, at, result))

    return result(count, array, types.intp), codegen
