"""Work on many rows at once; where it fails on fewer, until it is known which row is at fault."""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

T = TypeVar("T")
Work = Callable[[Sequence[int]], T]


def by_halves(
    work: Work[T], rows: Sequence[int]
) -> Generator[tuple[Sequence[int], T | Exception], None, bool]:
    """The results of the work on all rows; where it fails, on halves, down to one.

    A single row that it fails on comes with the error. An error that is no single row's is raised,
    unless memory did not reach for all rows at once.
    """
    if not rows:
        return False
    try:
        made: T | Exception = work(rows)
    except Exception as error:  # noqa: BLE001 - told apart by the caller
        made = error
    if not isinstance(made, Exception) or len(rows) == 1:
        yield rows, made
        return isinstance(made, Exception)
    middle = len(rows) // 2
    first = yield from by_halves(work, rows[:middle])
    second = yield from by_halves(work, rows[middle:])
    if not (first or second or out_of_memory(made)):
        raise made
    return first or second


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory is full; torch's own is known by name."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
