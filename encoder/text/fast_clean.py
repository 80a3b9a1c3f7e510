"""Compiled fast path for common chunks: links, mentions, ASCII words, emoji, quotes, hashtags.

clean.py, split.py and vocabulary.py define the result; this module gives the same result or returns
OTHER. It returns OTHER for a possible link within text, repeated letters, an HTML entity, or a
letter outside ASCII.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from encoder.model.weights import I32, I64
from encoder.score.lexical import NO_SLOT
from encoder.support.jit import jit
from encoder.support.pointers import pointers_to, prefetch
from encoder.text.clean import to_plain
from encoder.text.fast_wordpiece import (
    ELLIPSIS,
    MASK_32,
    PACKED_BYTES,
    alphanumeric,
    first_cell,
    next_entry,
    slot_of,
    write_word,
)

MAX_CHUNK_BYTES = 96  # a longer chunk gives OTHER
NUMBERS_PER_BYTE = 4  # of a body at most, per byte of its chunk, without the two counts
MISSED, UNREAD = -1, -2  # places of chunks that have no body, for now or at all
OTHER, NOTHING, SPACE = -1, 0, 32
SYMBOLS = (
    *range(0x200B, 0x2C00),
    *range(0xFE00, 0xFE10),
    *range(0x1F000, 0x1FB00),
)
BEYOND = SYMBOLS[-1] + 1
A, H, P, S, T, Z = map(ord, "ahpstz")
HASH, AND, AT, SLASH, DOT, SEMICOLON, COLON, LINE = map(ord, "#&@/.;:_")
HTTP, AFTER_SCHEME, SHORTENED, CUT = map(tuple, (b"http", b"://", b"t.co/", "…".encode()))
PIC = tuple(b"pic.")
LOWER_BIT = 32  # makes an ASCII letter lower-case; `.` and `/` already have it


class ScanBuffers(NamedTuple):
    """Scratch space: for the chunks of one text, and for the cleaned bytes and slots of a chunk."""

    cased: Any  # uint8 [MAX_CHUNK_BYTES]
    lower: Any  # uint8 [MAX_CHUNK_BYTES]
    crcs: I64  # [MAX_CHUNK_BYTES]
    slots: I32  # [2 * MAX_CHUNK_BYTES]
    starts: I64  # [chunks]
    stops: I64  # [chunks]
    words: I64  # [chunks], the crc32 of a plain word, else OTHER
    packed: I64  # [chunks], a plain word by `pack`


@cache
def plain_characters() -> NDArray[np.int8]:
    """Map each code point to ASCII, ELLIPSIS, a space, NOTHING or OTHER."""
    table = np.full(BEYOND, OTHER, np.int8)
    table[33:127] = np.arange(33, 127)
    for code in SYMBOLS:
        letters = to_plain(chr(code))
        if letters == "":
            table[code] = NOTHING
        elif letters == "…":
            table[code] = ELLIPSIS
        elif len(letters) == 1 and " " <= letters <= "~":
            table[code] = ord(letters)
    return table


def make_buffers(bounds: I64) -> ScanBuffers:
    """Allocate buffers; the caller must keep them alive while compiled code uses them."""
    chunks = (np.diff(bounds).max(initial=0).item() + 1) // 2
    return ScanBuffers(
        np.empty(MAX_CHUNK_BYTES, np.uint8),
        np.empty(MAX_CHUNK_BYTES, np.uint8),
        np.empty(MAX_CHUNK_BYTES, np.int64),
        np.empty(2 * MAX_CHUNK_BYTES, np.int32),
        *(np.empty(chunks, np.int64) for _ in range(4)),
    )


@jit()
def is_word_byte(char: int) -> bool:
    return alphanumeric(char) or char == LINE


@jit()
def is_link_byte(char: int) -> bool:
    """Whether a byte may be part of a link: not white space, not `"&<>`."""
    return 33 <= char <= 126 and char != 34 and char != AND and char != 60 and char != 62


@jit()
def is_removed(data: Any, start: int, stop: int, post: bool) -> bool:
    """Whether cleaning removes the whole chunk: a link, or in a post a mention."""
    if post and data[start] == AT:
        at = start + 1
        while at < stop and is_word_byte(data[at]):
            at += 1
        return at == stop or (at == stop - 1 and data[at] == COLON)
    return data[start] == H and stop - start > 8 and is_link(data, start, stop)


@jit()
def starts_with(data: Any, at: int, prefix: Any, bit: int) -> bool:
    """Whether data[at:], with `bit` set in every byte, starts with `prefix`."""
    i = 0
    while i < len(prefix) and data[at + i] | bit == prefix[i]:
        i += 1
    return i == len(prefix)


@jit()
def is_link(data: Any, start: int, stop: int) -> bool:
    """Whether a chunk of more than 8 bytes is exactly one link, perhaps truncated with `…`."""
    at = start + 5 if data[start + 4] == S else start + 4
    if not (starts_with(data, start, HTTP, 0) and starts_with(data, at, AFTER_SCHEME, 0)):
        return False
    at += 3
    if starts_with(data, stop - 3, CUT, 0):
        stop -= 3
    short = stop - at >= 5 and starts_with(data, at, SHORTENED, LOWER_BIT)
    if short and (stop - at == 5 or not starts_with(data, at, SHORTENED, 0)):
        return False
    first = at = at + 5 if short else at
    while at < stop and (alphanumeric(data[at]) if short else is_link_byte(data[at])):
        at += 1
    return first < at and at == stop


@jit()
def clean(data: Any, start: int, stop: int, characters: Any, buffers: Any) -> int:
    """Write the cleaned characters of a chunk to the buffers; return their number, or OTHER."""
    end, at, entity = 0, start, 0
    while at < stop:
        code = int(data[at])
        if code < 128:
            at += 1
            entity |= (code == AND) | (code == SEMICOLON) << 1
        elif code < 0xE0:
            return OTHER
        elif code < 0xF0:
            code = (code & 15) << 12 | (data[at + 1] & 63) << 6 | data[at + 2] & 63
            at += 3
        else:
            code = (code & 7) << 18 | (data[at + 1] & 63) << 12 | (data[at + 2] & 63) << 6
            code |= data[at + 3] & 63
            at += 4
        char = characters[code] if code < BEYOND else OTHER
        if char == OTHER:
            return OTHER
        if char != NOTHING:
            buffers.cased[end] = char
            buffers.lower[end] = char | 32 if 65 <= char <= 90 else char
            end += 1
    return OTHER if entity == 3 else end


@jit()
def is_truncated_link(lower: Any, stop: int) -> bool:
    """Whether the letters before `…` may be a truncated `http`."""
    at = stop
    while at > 0 and (lower[at - 1] == T or lower[at - 1] == H):
        at -= 1
    return at < stop and (at == 0 or not alphanumeric(lower[at - 1]))


@jit()
def is_repeated(lower: Any, i: int) -> bool:
    """Whether this is the third equal letter in a row."""
    return A <= lower[i] <= Z and i > 1 and lower[i] == lower[i - 1] and lower[i] == lower[i - 2]


@jit()
def may_start_link(lower: Any, i: int) -> bool:
    """Whether a link may start here: `http`, `pic.`, or a link truncated with `…`."""
    if lower[i] == P:
        return bool(i > 0 and lower[i - 1] == T)
    if lower[i] == DOT:
        return bool(i > 2 and starts_with(lower, i - 3, PIC, 0))
    return bool(lower[i] == ELLIPSIS and is_truncated_link(lower, i))


@jit()
def needs_rules(lower: Any, length: int) -> bool:
    """Whether the rules for links, mentions or repeated letters may change this chunk."""
    dots = paths = False
    for i in range(length):
        if lower[i] == AT or is_repeated(lower, i) or may_start_link(lower, i):
            return True
        dots |= lower[i] == DOT
        paths |= lower[i] == SLASH or lower[i] == ELLIPSIS
    return bool(dots and paths)


@jit()
def is_part_start(cased: Any, at: int, stop: int) -> bool:
    """Whether the next word of a hashtag starts here: Hurricane|Sandy, NYC|Marathon, Sandy|2012."""
    before, char = cased[at - 1], cased[at]
    if (before <= 57) != (char <= 57):
        return True
    capital = 65 <= char <= 90
    if capital and before >= 97:
        return True
    return capital and 65 <= before <= 90 and at + 1 < stop and 97 <= cased[at + 1] <= 122


@jit()
def word_end(cased: Any, first: int, length: int) -> int:
    """Return the end of the word at `first`: letters and digits, or one other character."""
    at = first + 1
    while alphanumeric(cased[first]) and at < length and alphanumeric(cased[at]):
        at += 1
    return at


@jit()
def tag_end(cased: Any, first: int, length: int) -> int:
    """Return the end of the hashtag at `first`; OTHER if it contains a `_`."""
    for at in range(first, length):
        if cased[at] == LINE:
            return OTHER
        if not alphanumeric(cased[at]):
            return at
    return length


@jit()
def part_end(cased: Any, first: int, stop: int) -> int:
    """Return the end of the hashtag's part at `first`."""
    at = first + 1
    while at < stop and not is_part_start(cased, at, stop):
        at += 1
    return at


@jit()
def write_slotted_word(
    lexicon: Any, buffers: Any, first: int, stop: int, out: Any, end: int, slots: int
) -> tuple[int, int]:
    """Write a word's ids to out[end:] and its slot to the buffers; return the new ends of both."""
    end, slot = write_word(lexicon, buffers.lower, first, stop, buffers.crcs, out, end)
    if slot != NO_SLOT:
        buffers.slots[slots] = slot
        slots += 1
    return end, slots


@jit()
def write_tag(
    lexicon: Any, buffers: Any, first: int, stop: int, out: Any, end: int, slots: int
) -> tuple[int, int]:
    """Write a hashtag as one word, followed by its parts if there are several."""
    end, slots = write_slotted_word(lexicon, buffers, first, stop, out, end, slots)
    several = part_end(buffers.cased, first, stop) < stop
    while several and first < stop:
        last = part_end(buffers.cased, first, stop)
        end, slots = write_slotted_word(lexicon, buffers, first, last, out, end, slots)
        first = last
    return end, slots


@jit()
def plain_word(lexicon: Any, data: Any, start: int, stop: int) -> tuple[int, int, int]:
    """Return the end of the letters and digits at `start`, their crc32 and `pack` in lower case.

    The crc32 is OTHER if they may need cleaning.
    """
    crc, packed, last, before, odd, at = MASK_32, 0, 0, 0, not lexicon.usable, start
    while at < stop:
        char = lexicon.lower[data[at]]
        if char == 0:
            break
        is_third_equal_letter = char == last == before and char >= A
        may_start_http = char == P and last == T
        odd |= is_third_equal_letter or may_start_http
        crc = (crc >> 8) ^ lexicon.crc[(crc ^ char) & 255]
        if at - start < PACKED_BYTES:
            packed |= char << 8 * (at - start)
        last, before, at = char, last, at + 1
    if odd or at - start > MAX_CHUNK_BYTES:
        return at, OTHER, 0
    return at, crc ^ MASK_32, packed | (at - start) << 8 * PACKED_BYTES


@jit()
def encode_plain(
    lexicon: Any, crc: int, packed: int, data: Any, start: int, stop: int, out: Any, at: int
) -> int:
    """As `encode_chunk`, for a plain word that is one entry of the vocabulary; else OTHER."""
    heads, place = lexicon.heads, first_cell(crc, lexicon.heads.size)
    while True:
        place, entry = next_entry(heads, crc, packed, place)
        if entry < 0:
            return OTHER
        i, first = start + PACKED_BYTES, heads.starts[entry] - start
        while i < stop and heads.text[first + i] == lexicon.lower[data[i]]:
            i += 1
        if i >= stop:
            break
    slots = 1 if lexicon.slots else 0
    out[at], out[at + 1], out[at + 2] = 1, slots, entry
    if lexicon.slots:
        out[at + 3] = slot_of(crc)
    return at + 3 + slots


@jit()
def encode_chunk(
    lexicon: Any, characters: Any, buffers: Any, data: Any, start: int, stop: int, out: Any, at: int
) -> int:
    """Write a chunk's body to out[at:]; return its end, or OTHER."""
    length = clean(data, start, stop, characters, buffers)
    if length < 0 or needs_rules(buffers.lower, length):
        return OTHER
    end, slots, first = at + 2, 0, 0
    while first < length:
        if (
            buffers.cased[first] == HASH
            and first + 1 < length
            and is_word_byte(buffers.cased[first + 1])
        ):
            last = tag_end(buffers.cased, first + 1, length)
            if last == OTHER:
                return OTHER
            end, slots = write_tag(lexicon, buffers, first + 1, last, out, end, slots)
        else:
            last = word_end(buffers.cased, first, length)
            if buffers.cased[first] != SPACE:
                end, slots = write_slotted_word(lexicon, buffers, first, last, out, end, slots)
        first = last
    out[at], out[at + 1] = end - at - 2, slots
    for k in range(slots):
        out[end + k] = buffers.slots[k]
    return end + slots


@jit()
def space_length(data: Any, at: int) -> int:
    """Return the bytes of the white-space character at `at`, as in str.split; 0 if it is none."""
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
    while at < stop and space_length(data, at) == 0:
        at += 1
    return at


@jit()
def grow(array: Any, least: int) -> Any:
    """Copy the array to one of twice the required length."""
    copy = np.empty(2 * least, array.dtype)
    for i in range(len(array)):  # a slice assignment takes numba two seconds to compile
        copy[i] = array[i]
    return copy


@jit()
def read_chunks(lexicon: Any, data: Any, at: int, stop: int, post: bool, buffers: Any) -> int:
    """Write the chunks that cleaning does not remove to the buffers; return their number.

    Meanwhile the cells of the plain words are loaded: the table exceeds a core's cache.
    """
    count = 0
    while at < stop:
        gap = space_length(data, at)
        if gap > 0:
            at += gap
            continue
        start = at
        at, crc, packed = plain_word(lexicon, data, start, stop)
        if at < stop and space_length(data, at) == 0:
            at, crc = chunk_stop(data, at, stop), OTHER
            if is_removed(data, start, at, post):
                continue
        if crc != OTHER:
            prefetch(lexicon.heads.cells, 2 * first_cell(crc, lexicon.heads.size))
        buffers.starts[count], buffers.stops[count] = start, at
        buffers.words[count], buffers.packed[count] = crc, packed
        count += 1
    return count


@jit()
def scan(
    text: Any, bounds: I64, lexicon: Any, characters: Any, scratch: Any, post: bool
) -> tuple[I32, I64, I64, I64]:
    """Return the bodies of all chunks, and each chunk's position among them or MISSED.

    Then the number of chunks up to each text's end, and start and stop of each missed chunk.
    """
    most = (len(text) + len(bounds)) // 2
    places, misses = np.empty(most, np.int64), np.empty(2 * most, np.int64)
    bodies, ends = np.empty(len(text) + 64, np.int32), np.empty_like(bounds[1:])
    data, chars, words, buffers = (
        pointers_to(text),
        pointers_to(characters),
        pointers_to(lexicon),
        pointers_to(scratch),
    )
    end = chunks = missed = 0
    for i in range(len(ends)):
        for n in range(read_chunks(words, data, bounds[i], bounds[i + 1], post, buffers)):
            start, stop, crc = buffers.starts[n], buffers.stops[n], buffers.words[n]
            needed = end + NUMBERS_PER_BYTE * (stop - start) + 2
            if needed > len(bodies):
                bodies = grow(bodies, needed)
            out, last = pointers_to(bodies), OTHER
            if crc != OTHER:
                last = encode_plain(words, crc, buffers.packed[n], data, start, stop, out, end)
            if last == OTHER and words.usable and stop - start <= MAX_CHUNK_BYTES:
                last = encode_chunk(words, chars, buffers, data, start, stop, out, end)
            places[chunks] = MISSED if last == OTHER else end
            if last == OTHER:
                misses[missed], misses[missed + 1] = start, stop
                missed += 2
            else:
                end = last
            chunks += 1
        ends[i] = chunks
    return bodies[:end], places[:chunks], ends, misses[:missed]


@jit()
def expand(bodies: I32, places: I64, ends: I64, most: tuple[int, int]) -> tuple[I32, I64, I32, I64]:
    """Return the ids of every text, and all slots, each with offsets.

    Of a text the first `most[0]` ids, and the slots of the chunks up to the one with which it has
    `most[1]` ids.
    """
    id_offsets, slot_offsets = np.zeros(len(ends) + 1, np.int64), np.zeros(len(ends) + 1, np.int64)
    stops, chunk = np.empty(len(ends), np.int64), 0
    for text in range(len(ends)):
        ids = slots = 0
        while chunk < ends[text] and ids < most[1]:
            ids += bodies[places[chunk]]
            slots += bodies[places[chunk] + 1]
            chunk += 1
        stops[text], chunk = chunk, ends[text]
        id_offsets[text + 1] = id_offsets[text] + min(ids, most[0])
        slot_offsets[text + 1] = slot_offsets[text] + slots
    all_ids, all_slots = np.empty(id_offsets[-1], np.int32), np.empty(slot_offsets[-1], np.int32)
    chunk = place = 0
    for text in range(len(ends)):
        free, stop = id_offsets[text], id_offsets[text + 1]
        while chunk < stops[text]:
            at = places[chunk]
            ids, slots = bodies[at], bodies[at + 1]
            for i in range(min(ids, stop - free)):
                all_ids[free + i] = bodies[at + 2 + i]
            for i in range(slots):
                all_slots[place + i] = bodies[at + 2 + ids + i]
            free, place, chunk = free + min(ids, stop - free), place + slots, chunk + 1
        chunk = ends[text]
    return all_ids, id_offsets, all_slots, slot_offsets
