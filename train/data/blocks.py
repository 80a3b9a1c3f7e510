"""Lists in blocks."""

from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


def blocks_of(items: list[T], size: int = 2048) -> Iterator[list[T]]:
    """Divide the items into lists; no items give one empty list."""
    return (items[start : start + size] for start in range(0, max(len(items), 1), size))
