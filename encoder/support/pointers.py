"""Bare pointers: numba counts references to every array that a function receives.

Atomically, so that a tuple of twenty arrays costs a microsecond a call. The one entry point holds
the arrays; all below it sees where they begin, and nothing else.
"""

import operator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.types.containers import BaseTuple
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

INDEX = ir.IntType(64)


class Pointer(types.Type):
    """Where an array of this element type begins, or a place inside it."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Pointer({dtype})")


@register_model(Pointer)
def pointer_model(manager: Any, typ: Pointer) -> Any:
    """How a pointer is passed: as LLVM's own."""
    element = manager.lookup(typ.dtype).get_data_type()
    return models.PrimitiveModel(manager, typ, element.as_pointer())


def bare_type(typ: Any) -> Any:
    """The type without reference counts: of arrays their pointers, in tuples too."""
    if isinstance(typ, types.Array):
        return Pointer(typ.dtype)
    if isinstance(typ, BaseTuple):
        return BaseTuple.from_types(
            [bare_type(t) for t in typ], getattr(typ, "instance_class", None)
        )
    return typ


def bare_value(context: Any, builder: Any, typ: Any, value: Any) -> Any:
    if isinstance(typ, types.Array):
        return context.make_array(typ)(context, builder, value).data
    if isinstance(typ, BaseTuple):
        parts = [
            bare_value(context, builder, part, builder.extract_value(value, i))
            for i, part in enumerate(typ)
        ]
        return context.make_tuple(builder, bare_type(typ), parts)
    return value


@intrinsic
def bare(context: Any, held: Any) -> Any:
    """An array, or a named tuple of arrays, as pointers; the caller keeps the arrays alive."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return bare_value(context, builder, held, values[0])

    return bare_type(held)(held), codegen


def place(builder: Any, signature: Any, values: Any) -> Any:
    pointer, index = values[:2]
    kind = signature.args[1]
    if kind.bitwidth < 64:
        index = builder.sext(index, INDEX) if kind.signed else builder.zext(index, INDEX)
    return builder.gep(pointer, [index])


def indexes(pointer: Any, index: Any) -> bool:
    """Whether these two types are a pointer and a number."""
    return isinstance(pointer, Pointer) and isinstance(index, types.Integer)


@type_callable(operator.getitem)
def type_read(context: Any) -> Any:
    """pointer[i] is an element."""
    return lambda pointer, index: pointer.dtype if indexes(pointer, index) else None


@lower_builtin(operator.getitem, Pointer, types.Integer)
def lower_read(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Neither checks the index nor wraps a negative one."""
    return builder.load(place(builder, signature, values))


@type_callable(operator.setitem)
def type_write(context: Any) -> Any:
    """pointer[i] = element."""
    return lambda pointer, index, value: types.void if indexes(pointer, index) else None


@lower_builtin(operator.setitem, Pointer, types.Integer, types.Any)
def lower_write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Converts the value to the element's type, as an array does."""
    pointer, _, value = signature.args
    element = context.cast(builder, values[2], value, pointer.dtype)
    builder.store(element, place(builder, signature, values))


@type_callable(operator.add)
def type_shift(context: Any) -> Any:
    """pointer + i begins i elements further."""
    return lambda pointer, index: pointer if indexes(pointer, index) else None


@lower_builtin(operator.add, Pointer, types.Integer)
def lower_shift(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """The same place that pointer[i] reads."""
    return place(builder, signature, values)
