"""JSON that is not line by line: the items of arrays, and of lists in an object.

Each byte is scanned once, in numpy. Memory is bounded by one item, or the object around a list.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from encoder.model.weights import I64
from newsift.files.messages import FormatError
from newsift.files.read import BOM, MAX_LINE_BYTES, lines
from worker.json_outline import (
    CLOSING,
    COMMA,
    DEPTH_STEPS,
    LIST_START,
    OBJECT_START,
    QUOTE,
    SIGN_OF_BYTE,
    Outline,
)

MAX_DEPTH = 6  # of objects and lists down to the list of posts
# Lists under these keys are read item by item; others are a part of an item.
LIST_KEYS = re.compile(rb'"(?:messages|orderedItems)"\s*+:\s*+\Z')
MAX_KEY_BYTES = 64
WHITESPACE = b" \t\r\n"


class Item(NamedTuple):
    """An item of a document, or a line that is one."""

    value: bytes
    number: int  # from 1
    prefix: bytes = b""  # of the object around the list, up to the list


class Punctuation:
    """The brackets, braces and commas of a chunk: position, sign, and depth after each."""

    def __init__(self, positions: I64, signs: Outline, depths: I64) -> None:
        self.positions, self.signs, self.depths = positions, signs, depths
        self.ends = cache(lambda level: np.flatnonzero(depths < level))
        self.commas = cache(lambda level: np.flatnonzero((signs == COMMA) & (depths == level)))
        opens = ((signs == LIST_START) | (signs == OBJECT_START)) & (depths <= MAX_DEPTH)
        self.candidates = np.flatnonzero(opens | ((signs == CLOSING) & (depths == 0))).tolist()

    def __len__(self) -> int:
        return len(self.positions)


class ItemParser:
    """Parses the items of consecutive JSON documents."""

    def __init__(self) -> None:
        # Of the scanned bytes, without a final half of an escape.
        self._depth, self._in_string, self._pending_escape = 0, False, b""
        # From the start of the item, or of the object around a list.
        self._buffer = bytearray()
        self._item_start = self._chunk_start = 0  # positions in the buffer
        self._opens: dict[int, int] = {}  # the start of the object or list of each depth
        self._level = 0  # the depth of the current list; 0 between lists
        self._prefix, self._is_first_item, self._had_list = b"", True, False
        self.count = 0

    def feed(self, chunk: bytes) -> list[Item]:
        data, punctuation = self._scan(chunk)
        if len(punctuation) and int(punctuation.depths.min()) < 0:
            raise self._error("closes more than it opens")
        self._chunk_start = len(self._buffer)
        self._buffer += data
        items_out: list[Item] = []
        index = 0
        while index < len(punctuation):
            if self._level:
                index = self._read_list(punctuation, index, items_out)
            else:
                index = self._find_list(punctuation, index, items_out)
        self._trim_buffer()
        return items_out

    def end(self) -> None:
        """Raises FormatError if the document is incomplete."""
        if self._depth or self._in_string or self._pending_escape:
            raise self._error("is cut off")
        if self._buffer.strip(WHITESPACE):
            raise self._error("is followed by text that is not JSON")

    def _error(self, problem: str) -> FormatError:
        message = f"the JSON {problem} after item {self.count}"
        return FormatError(f"{message}; fix it, or name the format with --format")

    def _scan(self, chunk: bytes) -> tuple[bytes, Punctuation]:
        """The scanned part of the chunk, and its punctuation outside strings."""
        data = self._pending_escape + chunk
        plain = data.replace(rb"\\", b"__").replace(rb"\"", b"__")
        self._pending_escape = b"\\" if plain.endswith(b"\\") else b""
        size = len(plain) - len(self._pending_escape)
        codes = np.frombuffer(plain, np.uint8, size)
        in_string = np.bitwise_xor.accumulate(codes == QUOTE) ^ self._in_string
        positions = np.flatnonzero((SIGN_OF_BYTE[codes] > 0) & ~in_string)
        signs = SIGN_OF_BYTE[codes[positions]]
        depths = np.cumsum(DEPTH_STEPS[signs], dtype=np.int64) + self._depth
        if size:
            self._in_string = bool(in_string[-1])
        if len(positions):
            self._depth = int(depths[-1])
        return data[:size], Punctuation(positions, signs, depths)

    def _read_list(self, punctuation: Punctuation, start: int, items_out: list[Item]) -> int:
        """Read the items of the current list. Returns the index of the next sign."""
        ends, commas = punctuation.ends(self._level), punctuation.commas(self._level)
        place = int(np.searchsorted(ends, start))
        end = int(ends[place]) if place < len(ends) else len(punctuation)
        between = commas[np.searchsorted(commas, start) : np.searchsorted(commas, end)]
        for position in punctuation.positions[between].tolist():
            self._take(self._chunk_start + position, items_out)
        if end == len(punctuation):
            return end
        position = self._chunk_start + int(punctuation.positions[end])
        if self._buffer[position : position + 1] != b"]":
            raise self._error("closes a list as an object")
        is_empty = not self._buffer[self._item_start : position].strip(WHITESPACE)
        if not (self._is_first_item and is_empty):
            self._take(position, items_out)
        self._item_start, self._level = position + 1, 0
        self._had_list = bool(punctuation.depths[end])
        self._opens.clear()  # a second list gets no prefix, which would be copied to its items
        return end + 1

    def _take(self, end: int, items_out: list[Item]) -> None:
        value = bytes(self._buffer[self._item_start : end].strip(WHITESPACE))
        self._item_start, self._is_first_item = end + 1, False
        self.count += 1
        items_out.append(Item(value, self.count, self._prefix))

    def _find_list(self, punctuation: Punctuation, start: int, items_out: list[Item]) -> int:
        """Go to the next list of posts, or past documents without one."""
        for index in punctuation.candidates[bisect_left(punctuation.candidates, start) :]:
            position = self._chunk_start + int(punctuation.positions[index])
            depth = int(punctuation.depths[index])
            if punctuation.signs[index] == CLOSING:
                self._end_document(position, items_out)
                continue
            self._opens[depth] = position
            before = max(0, position - MAX_KEY_BYTES)
            if punctuation.signs[index] == LIST_START and (
                depth == 1 or LIST_KEYS.search(self._buffer, before, position)
            ):
                parent = self._opens.get(depth - 1)
                self._prefix = b"" if parent is None else bytes(self._buffer[parent:position])
                self._level, self._item_start, self._is_first_item = depth, position + 1, True
                return index + 1
        return len(punctuation)

    def _end_document(self, position: int, items_out: list[Item]) -> None:
        """A document without a list of posts is an item itself."""
        if not self._had_list:
            self._prefix = b""
            self._take(position + 1, items_out)
        self._item_start, self._had_list = position + 1, False
        self._opens.clear()

    def _trim_buffer(self) -> None:
        """Drop the bytes that are no longer needed. Raises FormatError if too many are left."""
        del self._buffer[: self._item_start]
        self._opens = {
            depth: position - self._item_start
            for depth, position in self._opens.items()
            if position >= self._item_start
        }
        self._item_start = 0
        if len(self._buffer) <= MAX_LINE_BYTES:
            return
        if not (self._level or self._had_list):
            limit = f"{MAX_LINE_BYTES >> 20} MiB"
            raise FormatError(f"has no list of posts in its first {limit}; name its --format")
        if self._level:
            del self._buffer[MAX_LINE_BYTES + 1 :]  # a long item is cut, but stays too long
        else:
            self._buffer.clear()  # between lists nothing is needed
        self._opens.clear()


def items(chunks: Iterator[bytes]) -> Iterator[list[Item]]:
    parser = ItemParser()
    for number, chunk in enumerate(chunks):
        yield parser.feed(chunk.removeprefix(BOM) if number == 0 else chunk)
    parser.end()


def json_items(chunks: Iterator[bytes], unit: str) -> Iterator[list[Item]]:
    """Batches of the items of documents, or for "line" of the lines that are not blank."""
    if unit != "line":
        yield from items(chunks)
        return
    for first, rows in lines(chunks):
        yield [Item(row, number) for number, row in enumerate(rows, first) if row.strip()]
