"""Texts in UTF-8 → the ids and slots of their chunks: one pass without the GIL, and a second one.

`scan` cuts texts at white space and works out every chunk that is everyday. The others it lists;
the tokenizer reads them in Python, and `expand` puts everything in order. What is known of a chunk
is its body: how many ids it has, how many slots, the ids, the slots.
"""

from typing import Any

import numpy as np

from encoder.model.weights import I32, I64
from encoder.simd.pointers import bare
from encoder.support.jit import jit
from encoder.text.fast_clean import OTHER, passing, read_everyday

MISSED = -1
LARGEST = 4  # numbers of a body for each byte of its chunk, but for the two counts


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
def scan(
    text: Any, bounds: I64, lexicon: Any, characters: Any, held: Any, post: bool
) -> tuple[I32, I64, I64, I64]:
    """The bodies of everyday chunks, where each chunk's is or MISSED, chunks up to each text's end.

    Last the starts and stops of what was missed, in turn.
    """
    most = (len(text) + len(bounds)) // 2
    places, misses = np.empty(most, np.int64), np.empty(2 * most, np.int64)
    bodies, ends = np.empty(len(text) + 64, np.int32), np.empty_like(bounds[1:])
    data, chars, words, desk = bare(text), bare(characters), bare(lexicon), bare(held)
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
            needed = end + LARGEST * (at - start) + 2
            if needed > len(bodies):
                bodies = longer(bodies, needed)
            last = read_everyday(words, chars, desk, data, start, at, bare(bodies), end)
            places[chunks] = MISSED if last == OTHER else end
            if last == OTHER:
                misses[missed], misses[missed + 1] = start, at
                missed += 2
            else:
                end = last
            chunks += 1
        ends[i] = chunks
    return bodies[:end], places[:chunks], ends, misses[:missed]


@jit()
def expand(bodies: I32, places: I64, ends: I64, cap: int) -> tuple[I32, I64, I32, I64]:
    """The ids of every text, at most `cap`, and all its words' slots, each with offsets."""
    id_offsets, slot_offsets = np.zeros(len(ends) + 1, np.int64), np.zeros(len(ends) + 1, np.int64)
    chunk = 0
    for text in range(len(ends)):
        ids = slots = 0
        while chunk < ends[text]:
            ids += bodies[places[chunk]]
            slots += bodies[places[chunk] + 1]
            chunk += 1
        id_offsets[text + 1] = id_offsets[text] + min(ids, cap)
        slot_offsets[text + 1] = slot_offsets[text] + slots
    all_ids, all_slots = np.empty(id_offsets[-1], np.int32), np.empty(slot_offsets[-1], np.int32)
    chunk = place = 0
    for text in range(len(ends)):
        free, stop = id_offsets[text], id_offsets[text + 1]
        while chunk < ends[text]:
            at = places[chunk]
            ids, slots = bodies[at], bodies[at + 1]
            for i in range(min(ids, stop - free)):
                all_ids[free + i] = bodies[at + 2 + i]
            for i in range(slots):
                all_slots[place + i] = bodies[at + 2 + ids + i]
            free, place, chunk = free + min(ids, stop - free), place + slots, chunk + 1
    return all_ids, id_offsets, all_slots, slot_offsets
