"""Texts in UTF-8 → the ids and slots of their chunks: one pass without the GIL, and a second one.

`scan` cuts texts at white space and works out every chunk that is everyday, or copies what the
memory holds of it. The others it lists; the tokenizer reads them in Python, and `expand` puts
everything in order.
"""

from typing import Any

import numpy as np

from encoder.model.weights import F32, I32, I64
from encoder.simd.pointers import bare
from encoder.support.jit import jit
from encoder.text.chunk_cache import ABSENT, body, look_up
from encoder.text.fast_clean import OTHER, passing, read_everyday
from encoder.text.fast_wordpiece import LOW

HERE, NEWER, OLDER, READ = range(4)


@jit()
def space(data: Any, at: int) -> int:
    """How many bytes of white space, as str.split knows it, begin here: a character's, or none."""
    first = data[at]
    if first <= 32:
        return 1 if first == 32 or 9 <= first <= 13 or first >= 28 else 0
    if first == 0xC2:
        return 2 if data[at + 1] == 0x85 or data[at + 1] == 0xA0 else 0
    if not 0xE1 <= first <= 0xE3:
        return 0
    code = (data[at + 1] & 63) << 6 | data[at + 2] & 63 | (first & 15) << 12
    if 0x2000 <= code <= 0x200A or code in (0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000):
        return 3
    return 0


@jit()
def chunk_stop(data: Any, at: int, stop: int) -> int:
    """Where the chunk that begins here ends."""
    while at < stop and space(data, at) == 0:
        at += 1
    return at


@jit()
def longer(array: Any, least: int) -> Any:
    """A copy of the array with room for twice as much as is needed."""
    copy = np.empty(2 * least, array.dtype)
    for i in range(len(array)):  # for a slice numba compiles its error's text, for two seconds
        copy[i] = array[i]
    return copy


@jit()
def crc32_of(table: Any, data: Any, start: int, stop: int) -> int:
    """The crc32 of data[start:stop]."""
    crc = LOW
    for i in range(start, stop):
        crc = (crc >> 8) ^ table[(crc ^ data[i]) & 255]
    return crc ^ LOW


@jit()
def remembered(snapshot: Any, crc: int, data: Any, start: int, stop: int) -> Any:
    """Four times the place of a chunk's record, and in which half it is; or ABSENT."""
    place = look_up(snapshot.newer, crc, data, start, stop)
    if place != ABSENT:
        return 4 * place + NEWER
    place = look_up(snapshot.older, crc, data, start, stop)
    return ABSENT if place == ABSENT else 4 * place + OLDER


@jit()
def scan(
    text: Any, bounds: I64, lexicon: Any, characters: Any, snapshot: Any, held: Any, post: bool
) -> tuple[I32, I64, I64, I64]:
    """Bodies of everyday chunks, where each chunk's is, chunks up to each text's end, misses.

    A place is four times a place or number, and in what. The misses are starts and stops.
    """
    bodies, places = np.empty(len(text) + 64, np.int32), np.empty(len(text) // 4 + 64, np.int64)
    misses, ends = np.empty(64, np.int64), np.empty_like(bounds[1:])
    data, chars, desk = bare(text), bare(characters), bare(held)
    words, memory = bare(lexicon), bare(snapshot)
    end = chunks = missed = 0
    for i in range(len(ends)):
        at, stop = bounds[i], bounds[i + 1]
        while at < stop:
            gap = space(data, at)
            if gap > 0:
                at += gap
                continue
            start, at = at, chunk_stop(data, at, stop)
            if passing(data, start, at, post):
                continue
            if chunks == len(places):
                places = longer(places, chunks)
            if end + 4 * (at - start) + 8 > len(bodies):
                bodies = longer(bodies, end + 4 * (at - start) + 8)
            last = read_everyday(words, chars, desk, data, start, at, bare(bodies), end)
            if last != OTHER:
                places[chunks], end = 4 * end + HERE, last
            else:
                crc = crc32_of(words.crc, data, start, at)
                places[chunks] = remembered(memory, crc, data, start, at)
            if last == OTHER and places[chunks] == ABSENT:
                if missed == len(misses):
                    misses = longer(misses, missed)
                misses[missed], misses[missed + 1] = start, at
                places[chunks] = 2 * missed + READ
                missed += 2
            chunks += 1
        ends[i] = chunks
    return bodies, places[:chunks], ends, misses[:missed]


@jit()
def body_at(place: int, bodies: Any, snapshot: Any, read: Any, read_places: Any) -> Any:
    """The array that holds a chunk's body, from there on."""
    source, place = place & 3, place >> 2
    if source == HERE:
        return bodies + place
    if source == NEWER:
        return snapshot.newer.arena + body(snapshot.newer.arena, place)
    if source == OLDER:
        return snapshot.older.arena + body(snapshot.older.arena, place)
    return read + body(read, read_places[place])


@jit()
def expand(
    found: Any, snapshot: Any, read: I32, read_places: I64, idf: F32, cap: int
) -> tuple[I32, I64, I32, F32, I64]:
    """The ids of every text, at most `cap`, and all its words' slots and idf, with offsets.

    `read` holds the records of the chunks that were missed, at `read_places` by their number.
    """
    bodies, places, ends, _ = found
    ids, slots = np.empty(len(bodies), np.int32), np.empty(len(bodies), np.int32)
    id_offsets, slot_offsets = np.zeros(len(ends) + 1, np.int64), np.zeros(len(ends) + 1, np.int64)
    here, memory, there, numbers = bare(bodies), bare(snapshot), bare(read), bare(read_places)
    free = place = chunk = 0
    for text in range(len(ends)):
        most = free + cap
        while chunk < ends[text]:
            held = body_at(places[chunk], here, memory, there, numbers)
            id_count, slot_count = held[0], held[1]
            if free + id_count > len(ids):
                ids = longer(ids, free + id_count)
            if place + slot_count > len(slots):
                slots = longer(slots, place + slot_count)
            taken = min(id_count, most - free)
            for i in range(taken):
                ids[free + i] = held[2 + i]
            for i in range(slot_count):
                slots[place + i] = held[2 + id_count + i]
            free += taken
            place += slot_count
            chunk += 1
        id_offsets[text + 1], slot_offsets[text + 1] = free, place
    weights = np.empty(place, np.float32)
    for i in range(place):
        weights[i] = idf[slots[i]]
    return ids[:free].copy(), id_offsets, slots[:place].copy(), weights, slot_offsets
