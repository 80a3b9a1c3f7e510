"""Everyday chunks in compiled code: links, mentions, words of ASCII, emoji, curly quotes, hashtags.

What a chunk becomes is defined in text.py, words.py and vocabulary.py. Of most chunks this says the
same without the interpreter, and of all others that they are not everyday: what might be a link
within text, a drawn-out word, an HTML entity, a letter outside ASCII.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from encoder.model.weights import I32, I64
from encoder.score.lexical import NO_SLOT
from encoder.support.jit import jit
from encoder.text.clean import plain
from encoder.text.fast_wordpiece import ELLIPSIS, alphanumeric, write_word

LONGEST = 96  # bytes; a longer chunk is not everyday
OTHER, NOTHING, SPACE = -1, 0, 32
SYMBOLS = (
    *range(0x200B, 0x2C00),
    *range(0xFE00, 0xFE10),
    *range(0x1F000, 0x1FB00),
)
BEYOND = SYMBOLS[-1] + 1
A, H, I, P, T, Z = map(ord, "ahiptz")  # noqa: E741
HASH, AND, AT, SLASH, DOT, SEMICOLON, COLON, LINE = map(ord, "#&@/.;:_")


class Desk(NamedTuple):
    """What one reading of texts writes on: the chunk cleaned, and in lower case, and its slots."""

    cased: Any  # uint8 [LONGEST]
    low: Any  # uint8 [LONGEST]
    crcs: I64  # [LONGEST]
    slots: I32  # [2 * LONGEST]


@cache
def plain_characters() -> NDArray[np.int8]:
    """By code point the character of ASCII, `…`, space or nothing that stands for it; or OTHER."""
    table = np.full(BEYOND, OTHER, np.int8)
    table[33:127] = np.arange(33, 127)
    for code in SYMBOLS:
        made = plain(chr(code))
        if made == "":
            table[code] = NOTHING
        elif made == "…":
            table[code] = ELLIPSIS
        elif len(made) == 1 and " " <= made <= "~":
            table[code] = ord(made)
    return table


def make_desk() -> Desk:
    """A desk of its own for every reading; whoever calls compiled code keeps it alive."""
    return Desk(
        np.empty(LONGEST, np.uint8),
        np.empty(LONGEST, np.uint8),
        np.empty(LONGEST, np.int64),
        np.empty(2 * LONGEST, np.int32),
    )


@jit()
def word_sign(char: int) -> bool:
    """Whether a byte is what ASCII counts as part of a word."""
    return alphanumeric(char) or char == LINE


@jit()
def link_sign(char: int) -> bool:
    """Whether a byte may stand in a link that is nothing else: not white space, not `"&<>`."""
    return 33 <= char <= 126 and char != 34 and char != AND and char != 60 and char != 62


@jit()
def passing(data: Any, start: int, stop: int, post: bool) -> bool:
    """Whether a chunk is a link, or in a post a mention: cleaned to nothing."""
    if post and data[start] == AT:
        at = start + 1
        while at < stop and word_sign(data[at]):
            at += 1
        return at > start + 1 and (at == stop or (at == stop - 1 and data[at] == COLON))
    return data[start] == H and stop - start > 8 and link(data, start, stop)


@jit()
def link(data: Any, start: int, stop: int) -> bool:
    """Whether a chunk of more than 8 bytes is a link, perhaps cut off with `…`, and no more."""
    if data[start + 1] != T or data[start + 2] != T or data[start + 3] != P:
        return False
    at = start + 4
    if data[at] == ord("s"):
        at += 1
    if data[at] != COLON or data[at + 1] != SLASH or data[at + 2] != SLASH:
        return False
    at += 3
    if data[stop - 3] == 0xE2 and data[stop - 2] == 0x80 and data[stop - 1] == 0xA6:
        stop -= 3
    if at >= stop:
        return False
    short = (
        stop - at >= 5
        and data[at] | 32 == T
        and data[at + 1] == DOT
        and data[at + 2] | 32 == ord("c")
        and data[at + 3] | 32 == ord("o")
        and data[at + 4] == SLASH
    )
    if short:
        if data[at] != T or data[at + 2] != ord("c") or data[at + 3] != ord("o") or stop - at < 6:
            return False
        at += 5
    while at < stop and (alphanumeric(data[at]) if short else link_sign(data[at])):
        at += 1
    return at == stop


@jit()
def cleaned(data: Any, start: int, stop: int, characters: Any, desk: Any) -> int:
    """Write the characters of a chunk to the desk; how many, or OTHER if it is not everyday."""
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
            desk.cased[end] = char
            desk.low[end] = char | 32 if 65 <= char <= 90 else char
            end += 1
    return OTHER if entity == 3 else end


@jit()
def cut_off(low: Any, stop: int) -> bool:
    """Whether what stands before `…` might be the beginning of `http`."""
    at = stop
    while at > 0 and (low[at - 1] == T or low[at - 1] == H):
        at -= 1
    return at < stop and (at == 0 or not alphanumeric(low[at - 1]))


@jit()
def needs_rules(low: Any, length: int) -> bool:
    """Whether the rules for links, mentions or drawn-out words might change this chunk."""
    dots = slashes = 0
    for i in range(length):
        char, before = low[i], low[i - 1] if i > 0 else SPACE
        letter = A <= char <= Z
        if char == AT or (letter and i > 1 and char == before and char == low[i - 2]):
            return True
        if char == P and before == T:
            return True
        if char == DOT:
            dots += 1
            if i > 2 and before == ord("c") and low[i - 2] == I and low[i - 3] == P:
                return True
        elif char in (SLASH, ELLIPSIS):
            slashes += 1
            if char == ELLIPSIS and cut_off(low, i):
                return True
    return dots > 0 and slashes > 0


@jit()
def breaks(cased: Any, at: int, stop: int) -> bool:
    """Whether a hashtag's next word begins here: Hurricane|Sandy, NYC|Marathon, Sandy|2012."""
    before, char = cased[at - 1], cased[at]
    if (before <= 57) != (char <= 57):
        return True
    capital = 65 <= char <= 90
    if capital and before >= 97:
        return True
    return capital and 65 <= before <= 90 and at + 1 < stop and 97 <= cased[at + 1] <= 122


@jit()
def word_end(cased: Any, first: int, length: int, tag: int) -> int:
    """Where a word ends that begins here, in the hashtag that ends at `tag` or outside of any."""
    at = first + 1
    if first < tag:
        while at < tag and not breaks(cased, at, tag):
            at += 1
    elif alphanumeric(cased[first]):
        while at < length and alphanumeric(cased[at]):
            at += 1
    return at


@jit()
def tag_end(cased: Any, first: int, length: int) -> tuple[int, bool]:
    """Where a hashtag's word ends, OTHER if it has a `_`, and whether it is made of several."""
    at, several = first, False
    while at < length and word_sign(cased[at]):
        if cased[at] == LINE:
            return OTHER, False
        several |= at > first and breaks(cased, at, length)
        at += 1
    return at, several


@jit()
def read_everyday(
    lexicon: Any, characters: Any, desk: Any, data: Any, start: int, stop: int, out: Any, at: int
) -> int:
    """Write a chunk's body as in chunks.py to out[at:]; where it ends, or OTHER: not everyday."""
    if not lexicon.known or stop - start > LONGEST:
        return OTHER
    length = cleaned(data, start, stop, characters, desk)
    if length < 0 or needs_rules(desk.low, length):
        return OTHER
    end, slots, first, tag = at + 2, 0, 0, 0
    while first < length:
        several = False
        char = desk.cased[first]
        if char == HASH and first + 1 < length and word_sign(desk.cased[first + 1]):
            first += 1
            last, several = tag_end(desk.cased, first, length)
            if last == OTHER:
                return OTHER
        else:
            last = word_end(desk.cased, first, length, tag)
        if char != SPACE:
            end, place = write_word(lexicon, desk.low, first, last, desk.crcs, out, end)
            if place != NO_SLOT:
                desk.slots[slots] = place
                slots += 1
        # a hashtag is one word, and then the words it is made of
        tag = last if several else tag
        first = first if several else last
    out[at], out[at + 1] = end - at - 2, slots
    for k in range(slots):
        out[end + k] = desk.slots[k]
    return end + slots
