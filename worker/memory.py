"""What glibc does with freed memory."""

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD = -3  # malloc.h
MIN_LARGE_BYTES = 2**23  # The arrays of a batch are smaller.


def return_large_blocks() -> None:
    """Have large blocks mapped, so that freeing returns them to the system.

    By default glibc takes them from an arena of the thread once one such block was freed, and
    each of a process's threads then holds what its largest job needed.
    """
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MIN_LARGE_BYTES)
