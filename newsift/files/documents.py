"""JSON that is not line by line: arrays, and objects around a list, item by item.

Each byte is scanned once, in numpy. Memory is bounded by one item, or by what surrounds a list.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from encoder.model.weights import I64
from newsift.files.messages import FormatError
from newsift.files.read import BOM, LONGEST_LINE, lines
from worker.posts.checks import COMMA, END, LIST, OBJECT, QUOTE, SIGNS, STEPS, Signs

DEEPEST = 6  # objects and lists, the list of posts included
LISTS = re.compile(rb'"(?:messages|orderedItems)"\s*+:\s*+\Z')  # of any length, unlike all others
KEY_BYTES = 64
BLANK = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Item:
    """One value of a document, and what preceded its list in the surrounding object."""

    value: bytes
    around: bytes = b""


class Marks:
    """The brackets, braces and commas of a chunk: position, kind, and depth after each."""

    def __init__(self, at: I64, signs: Signs, depths: I64) -> None:
        self.at, self.signs, self.depths = at, signs, depths
        self.ends = cache(lambda level: np.flatnonzero(depths < level))
        self.commas = cache(lambda level: np.flatnonzero((signs == COMMA) & (depths == level)))
        opens = ((signs == LIST) | (signs == OBJECT)) & (depths <= DEEPEST)
        self.steps = np.flatnonzero(opens | ((signs == END) & (depths == 0))).tolist()

    def __len__(self) -> int:
        return len(self.at)


class Scanner:
    """Finds the marks of consecutive chunks, outside strings."""

    def __init__(self) -> None:
        self.depth = 0
        self._inside, self._held = False, b""

    @property
    def complete(self) -> bool:
        return not (self.depth or self._inside or self._held)

    def marks(self, chunk: bytes) -> tuple[bytes, Marks]:
        """The scanned part of the chunk and its marks; half an escape waits for the next chunk."""
        data = self._held + chunk
        bare = data.replace(rb"\\", b"__").replace(rb"\"", b"__")
        self._held = b"\\" if bare.endswith(b"\\") else b""
        size = len(bare) - len(self._held)
        letters = np.frombuffer(bare, np.uint8, size)
        inside = np.bitwise_xor.accumulate(letters == QUOTE) ^ self._inside
        at = np.flatnonzero((SIGNS[letters] > 0) & ~inside)
        signs = SIGNS[letters[at]]
        depths = np.cumsum(STEPS[signs], dtype=np.int64) + self.depth
        if size:
            self._inside = bool(inside[-1])
        if len(at):
            self.depth = int(depths[-1])
        return data[:size], Marks(at, signs, depths)


class Documents:
    """The items of consecutive JSON documents."""

    def __init__(self) -> None:
        self._scanner = Scanner()
        self._buffer = (
            bytearray()
        )  # from the beginning of the item, or of what stands around a list
        self._start = self._base = 0  # in what is kept: of the item, of the chunk
        self._opens: dict[int, int] = {}  # where the object or list of each depth begins
        self._level = 0  # the depth in the list whose items are told; 0 between lists
        self._around, self._first, self._streamed = b"", True, False
        self.count = 0

    def feed(self, chunk: bytes) -> list[Item]:
        data, marks = self._scanner.marks(chunk)
        if len(marks) and int(marks.depths.min()) < 0:
            raise self._broken("closes more than it opens")
        self._base = len(self._buffer)
        self._buffer += data
        items_out: list[Item] = []
        done = 0
        while done < len(marks):
            done = (self._read_list if self._level else self._find_list)(marks, done, items_out)
        self._forget()
        return items_out

    def end(self) -> None:
        """Raises FormatError if the document is incomplete."""
        if not self._scanner.complete:
            raise self._broken("is cut off")
        if self._buffer.strip(BLANK):
            raise self._broken("does not go on as JSON")

    def _broken(self, what: str) -> FormatError:
        message = f"the JSON {what} after item {self.count}"
        return FormatError(f"{message}; mend it, or name what it is with --format")

    def _read_list(self, marks: Marks, done: int, items_out: list[Item]) -> int:
        """Take the items of the current list. Returns how many marks are done."""
        ends, commas = marks.ends(self._level), marks.commas(self._level)
        place = int(np.searchsorted(ends, done))
        end = int(ends[place]) if place < len(ends) else len(marks)
        between = commas[np.searchsorted(commas, done) : np.searchsorted(commas, end)]
        for at in marks.at[between].tolist():
            self._take(self._base + at, items_out)
        if end == len(marks):
            return end
        at = self._base + int(marks.at[end])
        if self._buffer[at : at + 1] != b"]":
            raise self._broken("closes a list as an object")
        if not (self._first and not self._buffer[self._start : at].strip(BLANK)):
            self._take(at, items_out)
        self._start, self._level, self._streamed = at + 1, 0, bool(marks.depths[end])
        self._opens.clear()  # what stands around a second list would be told again and again
        return end + 1

    def _take(self, at: int, items_out: list[Item]) -> None:
        value = bytes(self._buffer[self._start : at].strip(BLANK))
        self._start, self._first = at + 1, False
        self.count += 1
        items_out.append(Item(value, self._around))

    def _find_list(self, marks: Marks, done: int, items_out: list[Item]) -> int:
        """Go to the next list of posts, or past documents without one."""
        for place in range(bisect_left(marks.steps, done), len(marks.steps)):
            step = marks.steps[place]
            at, depth = self._base + int(marks.at[step]), int(marks.depths[step])
            if marks.signs[step] == END:
                self._conclude(at, items_out)
                continue
            self._opens[depth] = at
            before = max(0, at - KEY_BYTES)
            if marks.signs[step] == LIST and (depth == 1 or LISTS.search(self._buffer, before, at)):
                start = self._opens.get(depth - 1)
                self._around = b"" if start is None else bytes(self._buffer[start:at])
                self._level, self._start, self._first = depth, at + 1, True
                return step + 1
        return len(marks)

    def _conclude(self, at: int, items_out: list[Item]) -> None:
        """A document without a list of posts is an item itself."""
        if not self._streamed:
            self._around = b""
            self._take(at + 1, items_out)
        self._start, self._streamed = at + 1, False
        self._opens.clear()

    def _forget(self) -> None:
        """Drop what is no longer needed. Raises FormatError if too much is left."""
        del self._buffer[: self._start]
        self._opens = {
            depth: at - self._start for depth, at in self._opens.items() if at >= self._start
        }
        self._start = 0
        if len(self._buffer) <= LONGEST_LINE:
            return
        if not (self._level or self._streamed):
            most = f"{LONGEST_LINE >> 20} MiB"
            raise FormatError(f"has no list of posts in its first {most}; name its --format")
        del self._buffer[LONGEST_LINE + 1 if self._level else 0 :]
        self._opens.clear()


def items(pieces: Iterator[bytes]) -> Iterator[list[Item]]:
    documents = Documents()
    for number, chunk in enumerate(pieces):
        yield documents.feed(chunk.removeprefix(BOM) if number == 0 else chunk)
    documents.end()


def json_rows(pieces: Iterator[bytes], is_array: bool) -> Iterator[tuple[str, bytes]]:
    """The items of an array, or the lines that are not blank, each after its place."""
    if is_array:
        values = (item.value for batch in items(pieces) for item in batch)
        yield from ((f"item {number}", value) for number, value in enumerate(values, 1))
        return
    for first, rows in lines(pieces):
        yield from ((f"line {n}", row) for n, row in enumerate(rows, first) if row.strip())
