"""JSON that is not line by line: arrays, and objects around a list, item by item as they come.

Every byte is looked at once, in numpy; no more is held than one item, or what stands around a list.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from encoder.model.weights import I64
from worker.files.messages import FormatError
from worker.files.read import BOM, LONGEST_LINE
from worker.posts.outline import COMMA, END, LIST, OBJECT, QUOTE, SIGNS, STEPS, Signs

DEEPEST = 6  # objects and lists, the list of posts included
LISTS = re.compile(rb'"(?:messages|orderedItems)"\s*+:\s*+\Z')  # of any length, unlike all others
KEY_BYTES = 64
BLANK = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Item:
    """One value of a document, and what stood before its list in the object around that."""

    value: bytes
    around: bytes = b""


class Marks:
    """The brackets, braces and commas of a chunk: where, which, and how deep it is after each."""

    def __init__(self, at: I64, signs: Signs, depths: I64) -> None:
        self.at, self.signs, self.depths = at, signs, depths
        self.ends = cache(lambda level: np.flatnonzero(depths < level))
        self.commas = cache(lambda level: np.flatnonzero((signs == COMMA) & (depths == level)))
        opens = ((signs == LIST) | (signs == OBJECT)) & (depths <= DEEPEST)
        self.steps = np.flatnonzero(opens | ((signs == END) & (depths == 0))).tolist()

    def __len__(self) -> int:
        return len(self.at)


class Scanner:
    """Finds the marks of chunk after chunk, those in strings left out."""

    def __init__(self) -> None:
        self.depth = 0
        self._inside, self._held = False, b""

    @property
    def complete(self) -> bool:
        """Whether nothing is open."""
        return not (self.depth or self._inside or self._held)

    def marks(self, chunk: bytes) -> tuple[bytes, Marks]:
        """A chunk as far as it can be told, and its marks; half an escape waits for the next."""
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
    """The items of JSON documents, one after the other, as their bytes come."""

    def __init__(self) -> None:
        self._scanner = Scanner()
        self._kept = bytearray()  # from the beginning of the item, or of what stands around a list
        self._start = self._base = 0  # in what is kept: of the item, of the chunk
        self._opens: dict[int, int] = {}  # where the object or list of each depth begins
        self._level = 0  # the depth in the list whose items are told; 0 between lists
        self._around, self._first, self._streamed = b"", True, False
        self.count = 0

    def feed(self, chunk: bytes) -> list[Item]:
        """The items that end in this chunk."""
        data, marks = self._scanner.marks(chunk)
        if len(marks) and int(marks.depths.min()) < 0:
            raise self._broken("closes more than it opens")
        self._base = len(self._kept)
        self._kept += data
        found: list[Item] = []
        done = 0
        while done < len(marks):
            done = (self._listed if self._level else self._walked)(marks, done, found)
        self._forget()
        return found

    def end(self) -> None:
        """Refuse what is not complete."""
        if not self._scanner.complete:
            raise self._broken("is cut off")
        if self._kept.strip(BLANK):
            raise self._broken("does not go on as JSON")

    def _broken(self, what: str) -> FormatError:
        told = f"the JSON {what} after item {self.count}"
        return FormatError(f"{told}; mend it, or name what it is with --format")

    def _listed(self, marks: Marks, done: int, found: list[Item]) -> int:
        """Take the items of the list from here on; how many marks are done with."""
        ends, commas = marks.ends(self._level), marks.commas(self._level)
        place = int(np.searchsorted(ends, done))
        end = int(ends[place]) if place < len(ends) else len(marks)
        between = commas[np.searchsorted(commas, done) : np.searchsorted(commas, end)]
        for at in marks.at[between].tolist():
            self._take(self._base + at, found)
        if end == len(marks):
            return end
        at = self._base + int(marks.at[end])
        if self._kept[at : at + 1] != b"]":
            raise self._broken("closes a list as an object")
        if not (self._first and not self._kept[self._start : at].strip(BLANK)):
            self._take(at, found)
        self._start, self._level, self._streamed = at + 1, 0, bool(marks.depths[end])
        self._opens.clear()  # what stands around a second list would be told again and again
        return end + 1

    def _take(self, at: int, found: list[Item]) -> None:
        value = bytes(self._kept[self._start : at].strip(BLANK))
        self._start, self._first = at + 1, False
        self.count += 1
        found.append(Item(value, self._around))

    def _walked(self, marks: Marks, done: int, found: list[Item]) -> int:
        """Go on to the next list of posts, or over documents without one."""
        for place in range(bisect_left(marks.steps, done), len(marks.steps)):
            step = marks.steps[place]
            at, depth = self._base + int(marks.at[step]), int(marks.depths[step])
            if marks.signs[step] == END:
                self._conclude(at, found)
                continue
            self._opens[depth] = at
            if marks.signs[step] == LIST and self._holds_posts(at, depth):
                start = self._opens.get(depth - 1)
                self._around = b"" if start is None else bytes(self._kept[start:at])
                self._level, self._start, self._first = depth, at + 1, True
                return step + 1
        return len(marks)

    def _holds_posts(self, at: int, depth: int) -> bool:
        return depth == 1 or bool(LISTS.search(self._kept, max(0, at - KEY_BYTES), at))

    def _conclude(self, at: int, found: list[Item]) -> None:
        """A document ends: it is an item itself unless its list was told."""
        if not self._streamed:
            self._around = b""
            self._take(at + 1, found)
        self._start, self._streamed = at + 1, False
        self._opens.clear()

    def _forget(self) -> None:
        """Keep what is still needed, and no more of it than may be."""
        del self._kept[: self._start]
        self._opens = {
            depth: at - self._start for depth, at in self._opens.items() if at >= self._start
        }
        self._start = 0
        if len(self._kept) <= LONGEST_LINE:
            return
        if not (self._level or self._streamed):
            most = f"{LONGEST_LINE >> 20} MiB"
            raise FormatError(f"has no list of posts in its first {most}; name its --format")
        del self._kept[LONGEST_LINE + 1 if self._level else 0 :]
        self._opens.clear()


def items(pieces: Iterator[bytes]) -> Iterator[list[Item]]:
    """The items of a document: what each chunk brought."""
    documents = Documents()
    for number, chunk in enumerate(pieces):
        yield documents.feed(chunk.removeprefix(BOM) if number == 0 else chunk)
    documents.end()
