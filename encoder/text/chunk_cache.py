"""What chunks of text were found to hold, kept in arrays that are read without the GIL.

A record is a row of int32: the crc32 of the chunk's bytes, their number, the bytes (padded), and
its body: two counts, ids, slots. Records are appended to an arena and never changed; a table leads
from a crc32 to them. When half of what may be kept is new, the older half goes, but for what was
met again meanwhile.

A reader takes a snapshot under the lock: the arrays, and how far they are filled. What a writer
adds meanwhile lies beyond that mark and counts as absent; arrays that were let go stay as they are
for those who still read them. So no reader waits and none sees half a record.
"""

from collections.abc import Iterator
from struct import pack
from threading import Lock
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from encoder.model.weights import I32, I64
from encoder.support.jit import jit
from encoder.text.fast_wordpiece import LOW, home

WORDS_EACH = 24  # int32 of the arena for each chunk that may be kept
PROBES = 16  # so that chunks made to collide cost no more than chunks never met
ABSENT = -1


class Half(NamedTuple):
    """One generation as a reader sees it."""

    cells: I64  # crc32 << 32 | place of the record + 1; 0: empty
    size: int  # of the table, a power of two
    arena: I32
    letters: Any  # the arena as uint8
    end: int


class Snapshot(NamedTuple):
    """Both generations at one moment."""

    newer: Half
    older: Half


class Chunks:
    """A bounded memory of chunks, for several threads."""

    def __init__(self, capacity: int) -> None:
        self._half = max(1, capacity // 2)
        self._lock = Lock()
        self._count, self._older_count = 0, 0
        self._newer = self._older = self._empty()

    def __len__(self) -> int:
        return self._count + self._older_count

    def __iter__(self) -> Iterator[bytes]:
        """The chunks that are kept; one met again may stand there twice."""
        for _, _, arena, letters, end in self.snapshot():
            at = 0
            while at < end:
                yield letters[4 * at + 8 : 4 * at + 8 + arena[at + 1]].tobytes()
                at = record_end(arena, at)

    def snapshot(self) -> Snapshot:
        """What a reader may read, as of now."""
        with self._lock:
            return Snapshot(self._newer, self._older)

    def keep(self, source: I32, places: I64) -> None:
        """Keep the records that begin at these places of an array, unless they are here."""
        done = 0
        while done < len(places):
            with self._lock:
                held, begun = self._newer, self._count
                room = self._half - begun
                done, end, added = insert(
                    held.cells, held.arena, held.end, room, source, places, done
                )
                self._count += added
                self._newer = held._replace(end=end)
                if done == len(places):
                    return
                if self._count == 0:
                    done += 1  # larger than the arena
                    continue
                self._older, self._older_count = self._newer, self._count
                self._newer, self._count = self._empty(), 0

    def _empty(self) -> Half:
        cells = np.zeros(1 << max(5, (2 * self._half - 1).bit_length()), np.int64)
        arena = np.empty(WORDS_EACH * self._half + 256, np.int32)
        return Half(cells, len(cells), arena, arena.view(np.uint8), 0)


def record(chunk: bytes, ids: list[int], slots: list[int]) -> bytes:
    """A chunk's record."""
    held = chunk + bytes(-len(chunk) % 4)
    head = pack(f"=Ii{len(held)}sii", crc32(chunk), len(chunk), held, len(ids), len(slots))
    return head + pack(f"={len(ids) + len(slots)}i", *ids, *slots)


@jit()
def body(arena: Any, at: int) -> Any:
    """Where the body of the record at a place begins."""
    return at + 2 + ((arena[at + 1] + 3) >> 2)


@jit()
def body_end(arena: Any, at: int) -> Any:
    """Where the body at a place ends."""
    return at + 2 + arena[at] + arena[at + 1]


@jit()
def record_end(arena: I32, at: int) -> Any:
    """Where the record at a place ends."""
    return body_end(arena, body(arena, at))


@jit()
def look_up(half: Any, crc: int, data: Any, start: int, stop: int) -> Any:
    """The place of the record of data[start:stop], whose crc32 is given, or ABSENT."""
    at = home(crc, half.size)
    for _ in range(PROBES):
        cell = half.cells[at]
        if cell == 0:
            return ABSENT
        place = (cell & LOW) - 1
        likely = (cell >> 32) & LOW == crc and place < half.end
        if likely and half.arena[place + 1] == stop - start:
            first, i = 4 * place + 8, 0
            while i < stop - start and half.letters[first + i] == data[start + i]:
                i += 1
            if i == stop - start:
                return place
        at = (at + 1) & (half.size - 1)
    return ABSENT


@jit()
def same(arena: I32, place: int, source: I32, at: int) -> bool:
    """Whether two records are of the same chunk."""
    length, i = body(source, at) - at, 0
    while i < length and arena[place + i] == source[at + i]:
        i += 1
    return bool(i == length)


@jit()
def free_cell(cells: I64, arena: I32, source: I32, at: int) -> Any:
    """The cell for the record at a place of `source`; ABSENT if it is kept or there is none."""
    crc = source[at] & LOW
    cell = home(crc, len(cells))
    for _ in range(PROBES):
        if cells[cell] == 0:
            return cell
        if same(arena, (cells[cell] & LOW) - 1, source, at):
            return ABSENT
        cell = (cell + 1) & (len(cells) - 1)
    return ABSENT


@jit()
def insert(
    cells: I64, arena: I32, end: int, room: int, source: I32, places: I64, done: int
) -> tuple[int, int, int]:
    """Keep records while there is room: how many of them are done, the arena's end, and added."""
    added = 0
    while done < len(places):
        at = places[done]
        cell = free_cell(cells, arena, source, at)
        if cell != ABSENT:
            length = record_end(source, at) - at
            if added == room or end + length > len(arena):
                break
            arena[end : end + length] = source[at : at + length]
            cells[cell] = (source[at] & LOW) << 32 | (end + 1)
            end += length
            added += 1
        done += 1
    return done, end, added
