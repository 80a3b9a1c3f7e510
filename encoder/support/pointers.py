"""Pointers without reference counts for numba.

numba counts references to array arguments atomically: a tuple of twenty costs a microsecond per
call. The entry point keeps the arrays alive and passes pointers to the functions that it calls.
"""

import operator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.types.containers import BaseTuple
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

INDEX = ir.IntType(64)


class Pointer(types.Type):
    """A pointer to an element of an array."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Pointer({dtype})")


@register_model(Pointer)
def pointer_model(manager: Any, typ: Pointer) -> Any:
    element = manager.lookup(typ.dtype).get_data_type()
    return models.PrimitiveModel(manager, typ, element.as_pointer())


def pointer_type(typ: Any) -> Any:
    """Replace arrays by pointers, in tuples too."""
    if isinstance(typ, types.Array):
        return Pointer(typ.dtype)
    if isinstance(typ, BaseTuple):
        return BaseTuple.from_types(
            [pointer_type(t) for t in typ], getattr(typ, "instance_class", None)
        )
    return typ


def pointer_value(context: Any, builder: Any, typ: Any, value: Any) -> Any:
    if isinstance(typ, types.Array):
        return context.make_array(typ)(context, builder, value).data
    if isinstance(typ, BaseTuple):
        parts = [
            pointer_value(context, builder, part, builder.extract_value(value, i))
            for i, part in enumerate(typ)
        ]
        return context.make_tuple(builder, pointer_type(typ), parts)
    return value


@intrinsic
def pointers_to(context: Any, arrays: Any) -> Any:
    """Convert an array, or a named tuple of arrays, to pointers; the caller keeps them alive."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return pointer_value(context, builder, arrays, values[0])

    return pointer_type(arrays)(arrays), codegen


def element_address(builder: Any, signature: Any, values: Any) -> Any:
    pointer, index = values[:2]
    kind = signature.args[1]
    if kind.bitwidth < 64:
        index = builder.sext(index, INDEX) if kind.signed else builder.zext(index, INDEX)
    return builder.gep(pointer, [index])


def is_pointer_index(pointer: Any, index: Any) -> bool:
    return isinstance(pointer, Pointer) and isinstance(index, types.Integer)


@intrinsic
def prefetch(context: Any, pointer: Any, index: Any) -> Any:
    """Load the cache line of an element that is read soon; this never fails and never waits."""
    if not is_pointer_index(pointer, index):
        return None

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(element_address(builder, signature, values), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        read, every_level, data = number(0), number(3), number(1)
        builder.call(function, [address, read, every_level, data])
        return context.get_dummy_value()

    return types.void(pointer, index), codegen


@type_callable(operator.getitem)
def type_read(context: Any) -> Any:
    return lambda pointer, index: pointer.dtype if is_pointer_index(pointer, index) else None


@lower_builtin(operator.getitem, Pointer, types.Integer)
def lower_read(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """The index is not checked; a negative one does not wrap."""
    return builder.load(element_address(builder, signature, values))


@type_callable(operator.setitem)
def type_write(context: Any) -> Any:
    return lambda pointer, index, value: types.void if is_pointer_index(pointer, index) else None


@lower_builtin(operator.setitem, Pointer, types.Integer, types.Any)
def lower_write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """The value is converted to the element's type."""
    pointer, _, value = signature.args
    element = context.cast(builder, values[2], value, pointer.dtype)
    builder.store(element, element_address(builder, signature, values))


@type_callable(operator.add)
def type_shift(context: Any) -> Any:
    return lambda pointer, index: pointer if is_pointer_index(pointer, index) else None


@lower_builtin(operator.add, Pointer, types.Integer)
def lower_shift(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    return element_address(builder, signature, values)
