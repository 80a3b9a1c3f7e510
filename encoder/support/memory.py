"""What glibc does with freed memory."""

import ctypes
from contextlib import suppress

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
MIN_LARGE_BYTES = 12 * 2**20  # The arrays of a batch are smaller, blocks of scores larger.
DEFAULT_FREE_BYTES = 2**17  # glibc's


def return_large_blocks(most_free: int = DEFAULT_FREE_BYTES) -> None:
    """Have large blocks mapped, so that freeing returns them to the system.

    By default glibc takes them from an arena of the thread once one such block was freed, and
    each of a process's threads then holds what its largest job needed. An arena keeps
    at most `most_free` free bytes at its end; to take returned ones again costs page faults.
    """
    with suppress(AttributeError, OSError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, MIN_LARGE_BYTES)
        library.mallopt(M_TRIM_THRESHOLD, most_free)


def return_free_memory() -> None:
    """Return all that is free now, wherever it lies; a start leaves much behind."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
