"""Constants in a type: numba compiles each function once per value, and caches it on disk.

A jitted closure or generated source would fix the shape of a model just as well, but the closure
misses numba's cache and the source cannot be read. Here the shape is an argument like any other:
`shape.pairs` is a whole number in jitted code, and a literal of its type to an intrinsic.
"""

from functools import cache
from typing import Any

from numba.core import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, models, register_model, unbox
from numba.extending import lower_getattr_generic as lower_attribute


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
    """The numba type of a value: asked for at every call, so made once."""
    return StaticType(value)


register_model(StaticType)(models.OpaqueModel)


@unbox(StaticType)
def unbox_static(typ: Any, obj: Any, c: Any) -> Any:
    """Nothing is carried over from Python: all there is to know is in the type."""
    return NativeValue(c.context.get_dummy_value())


@infer_getattr
class StaticAttributes(AttributeTemplate):  # type: ignore[misc]  # numba has no types
    """Gives an attribute of a Static its type: a literal, or another Static."""

    key = StaticType

    def generic_resolve(self, typ: StaticType, attr: str) -> Any:
        """The type of one attribute; None makes numba report it as unknown."""
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
