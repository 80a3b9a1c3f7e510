"""Arrays that nobody can write: what a value object holds, and what compiled code is made for."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)


def frozen(array: NDArray[T]) -> NDArray[T]:
    """An array that was just made, which nobody shall write to from now on."""
    array.setflags(write=False)
    return array


def fixed(array: NDArray[T]) -> NDArray[T]:
    """A read-only view: compiled code is made once, for arrays that nobody can write."""
    return frozen(np.ascontiguousarray(array).view())


def read_only(array: NDArray[T]) -> NDArray[T]:
    """The array as a value object keeps it: a copy, unless nobody can write to it anyway."""
    array = np.ascontiguousarray(array)
    return frozen(array.copy()) if array.flags.writeable else array
