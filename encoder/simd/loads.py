"""Between arrays and registers: loads, stores, prefetches. No index is checked."""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from encoder.simd.pointers import bare_value
from encoder.simd.registers import INT, Vectors, known, pack, registers, splat


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


def read_all(
    context: Any, builder: Any, typ: Any, array: Any, at: Any, kind: Vectors
) -> Sequence[Any]:
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


@intrinsic(prefer_literal=True)
def load_rows(context: Any, count: Any, array: Any, at: Any, step: Any) -> Any:
    """`count` registers, the i-th from array[at + i·step]."""
    result = Vectors(known(count), array.dtype)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, data, at, step = values
        parts = []
        for _ in range(result.count):
            pointer = element_at(context, builder, array, data, at)
            parts.append(read(builder, pointer, result.register))
            at = builder.add(at, step)
        return pack(builder, parts)

    return result(count, array, types.intp, types.intp), codegen


@intrinsic(prefer_literal=True)
def load_halves(context: Any, count: Any, array: Any, at: Any) -> Any:
    """`count` registers of int32 from the int16 array[at] on, in their order."""
    result = Vectors(known(count), INT)
    half = ir.VectorType(ir.IntType(16), result.lanes)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        parts = []
        for i in range(result.count):
            pointer = element_at(context, builder, array, values[1], values[2], i * result.lanes)
            parts.append(builder.sext(read(builder, pointer, half), result.register))
        return pack(builder, parts)

    return result(count, array, types.intp), codegen


@intrinsic
def store(context: Any, array: Any, at: Any, value: Any) -> Any:
    """Write the registers to array[at] on."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data, at, packed = values
        for i, part in enumerate(registers(builder, packed)):
            pointer = element_at(context, builder, array, data, at, i * value.lanes)
            write(builder, part, pointer)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@intrinsic
def store_halves(context: Any, array: Any, at: Any, step: Any, value: Any) -> Any:
    """Write int32 registers as int16, the i-th to array[at + i·step] on."""
    half = ir.VectorType(ir.IntType(16), value.lanes)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data, at, step, packed = values
        for part in registers(builder, packed):
            pointer = element_at(context, builder, array, data, at)
            write(builder, builder.trunc(part, half), pointer)
            at = builder.add(at, step)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, value), codegen


@intrinsic
def address(context: Any, array: Any, at: Any) -> Any:
    """Where array[at] lies, as a number: a list of these may point into several arrays."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = element_at(context, builder, array, *values)
        return builder.ptrtoint(pointer, ir.IntType(64))

    return types.int64(array, types.intp), codegen


@intrinsic
def prefetch(context: Any, array: Any, at: Any) -> Any:
    """Ask for the cache line of array[at]: rows of a large table come from main memory."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = element_at(context, builder, array, *values)
        byte = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte.type, flag, flag, flag])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read_to_second_level = [ir.Constant(flag, k) for k in (0, 2, 1)]
        builder.call(call, [byte, *read_to_second_level])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


def halves_at(builder: Any, where: Any, offset: int, lanes: int) -> Any:
    """The int16 register at an address plus an offset in elements."""
    register = ir.VectorType(ir.IntType(16), lanes)
    start = builder.add(where, ir.Constant(where.type, 2 * offset))
    return read(builder, builder.inttoptr(start, register.as_pointer()), register)
