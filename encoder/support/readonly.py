"""Read-only arrays, for value objects and as the type that compiled code is specialised for."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)


def frozen(array: NDArray[T]) -> NDArray[T]:
    """Make a new array read-only, in place."""
    array.setflags(write=False)
    return array


def fixed(array: NDArray[T]) -> NDArray[T]:
    """A read-only view, so that a compiled function has one signature."""
    return frozen(np.ascontiguousarray(array).view())


def read_only(array: NDArray[T]) -> NDArray[T]:
    """The array itself if nothing can write to it, otherwise a read-only copy."""
    array = np.ascontiguousarray(array)
    return frozen(array.copy()) if array.flags.writeable else array
