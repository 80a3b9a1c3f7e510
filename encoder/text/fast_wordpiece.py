"""Compiled WordPiece for ASCII words and `…`, with the vocabulary as arrays.

vocabulary.py defines the result. Entries are found by the crc32 of their bytes, which also gives a
word's slot, and are compared byte by byte.
"""

from string import ascii_letters, digits
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from encoder.model.weights import I64
from encoder.score.lexical import GOLDEN, NO_SLOT, SLOT_BITS, Idf
from encoder.support.jit import jit
from encoder.text.vocabulary import Vocabulary, WordPiece

MASK_32 = 0xFFFFFFFF
PACKED_BYTES = 7  # of an entry in its cell
ELLIPSIS = 1  # the byte that represents '…' among ASCII bytes


class Entries(NamedTuple):
    """The word starts or the continuations of a vocabulary: a hash table from crc32 to id.

    A cell holds a short entry whole, so that a word costs one access to distant memory.
    """

    cells: I64  # [2 * size]: crc32 << 32 | id + 1, or 0 if empty; and the entry by `pack`
    size: int  # of the table, a power of two
    starts: I64  # [ids], where an entry begins in `text`
    text: Any  # all entries' bytes, uint8


class Lexicon(NamedTuple):
    """The tables for ids and slots of plain words; `usable` is false for other vocabularies."""

    usable: bool
    heads: Entries
    tails: Entries
    unknown: int
    ellipsis: int
    slots: bool  # whether words have slots
    crc: I64  # [256], the table of crc32
    lower: Any  # uint8 [256], an ASCII letter or digit in lower case; 0 for any other byte


# One per vocabulary, for all its tokenizers.
LEXICONS: WeakKeyDictionary[Vocabulary, Lexicon] = WeakKeyDictionary()


def make_lexicon(vocabulary: Vocabulary, idf: Idf | None) -> Lexicon:
    lexicon = LEXICONS.get(vocabulary)
    if lexicon is None:
        lexicon = LEXICONS[vocabulary] = build_lexicon(vocabulary)
    return lexicon._replace(slots=idf is not None)


def build_lexicon(vocabulary: Vocabulary) -> Lexicon:
    heads: dict[str, int] = {}
    if isinstance(vocabulary, WordPiece):
        heads = {entry: i for i, entry in enumerate(vocabulary.lines())}
    tails = {entry[2:]: i for entry, i in heads.items() if entry[:2] == "##" != entry}
    ellipsis = vocabulary.pieces("…") if heads else (0,)
    return Lexicon(
        usable=bool(heads) and len(ellipsis) == 1,
        heads=make_entries(heads),
        tails=make_entries(tails),
        unknown=vocabulary.unknown or 0,
        ellipsis=ellipsis[0],
        slots=False,
        crc=crc_table(),
        lower=lower_letters(),
    )


def make_entries(ids: dict[str, int]) -> Entries:
    """Build the hash table, at most half full."""
    texts = [entry.encode("utf-8", "surrogatepass") for entry in ids]
    bounds = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    size = 1 << (2 * len(texts) + 2).bit_length()
    cells, text = np.zeros(2 * size, np.int64), np.frombuffer(b"".join(texts), np.uint8).copy()
    numbers = np.array(list(ids.values()), np.int64)
    insert(cells, np.array(list(map(crc32, texts)), np.int64), numbers, text, bounds)
    starts = np.zeros(numbers.max(initial=0) + 1, np.int64)
    starts[numbers] = bounds[:-1]
    return Entries(cells, size, starts, text)


def lower_letters() -> NDArray[np.uint8]:
    """Map each byte to the lower case of an ASCII letter or digit, any other byte to 0."""
    table = np.zeros(256, np.uint8)
    for char in ascii_letters + digits:
        table[ord(char)] = ord(char.lower())
    return table


def crc_table() -> I64:
    """Compute the table of crc32 from its results for single bytes."""
    return np.array([crc32(bytes([b ^ 0xFF])) ^ 0xFF000000 for b in range(256)], np.int64)


@jit()
def first_cell(crc: int, size: int) -> int:
    """Return the first cell to search for a crc32."""
    return (((crc * GOLDEN) & MASK_32) * size) >> 32


@jit()
def pack(word: Any, start: int, stop: int) -> int:
    """The length of word[start:stop] and its first `PACKED_BYTES` bytes as one number."""
    packed = min(stop - start, 255) << 8 * PACKED_BYTES
    for i in range(min(stop - start, PACKED_BYTES)):
        packed |= word[start + i] << 8 * i
    return packed


@jit()
def insert(cells: I64, crcs: I64, ids: I64, text: Any, bounds: I64) -> None:
    """Insert the entries text[bounds[n]:bounds[n + 1]] into the table."""
    size = len(cells) // 2
    for number in range(len(crcs)):
        at = first_cell(crcs[number], size)
        while cells[2 * at] != 0:
            at = (at + 1) & (size - 1)
        cells[2 * at] = crcs[number] << 32 | (ids[number] + 1)
        cells[2 * at + 1] = pack(text, bounds[number], bounds[number + 1])


@jit()
def find(entries: Any, crc: int, word: Any, start: int, stop: int) -> int:
    """Return the id of word[start:stop], given its crc32; -1 if there is no such entry."""
    packed, at = pack(word, start, stop), first_cell(crc, entries.size)
    while True:
        at, entry = next_entry(entries, crc, packed, at)
        if entry < 0:
            return -1
        i, first = start + PACKED_BYTES, entries.starts[entry] - start
        while i < stop and entries.text[first + i] == word[i]:
            i += 1
        if i >= stop:
            return int(entry)


@jit()
def next_entry(entries: Any, crc: int, packed: int, at: int) -> tuple[int, int]:
    """Return the next cell, and the id of the next entry from `at` on; -1 if there is none.

    An entry of more than `PACKED_BYTES` is yet to be compared.
    """
    cells = entries.cells
    while cells[2 * at] != 0:
        cell, at = at, (at + 1) & (entries.size - 1)
        if cells[2 * cell + 1] == packed and (cells[2 * cell] >> 32) & MASK_32 == crc:
            return at, (cells[2 * cell] & MASK_32) - 1
    return at, -1


@jit()
def write_crcs(table: Any, word: Any, start: int, stop: int, crcs: Any) -> None:
    """Write the crc32 of word[start : i + 1] to crcs[i], for every i up to stop."""
    crc = MASK_32
    for i in range(start, stop):
        crc = (crc >> 8) ^ table[(crc ^ word[i]) & 255]
        crcs[i] = crc ^ MASK_32


@jit()
def longest(entries: Any, crcs: Any, word: Any, start: int, stop: int) -> tuple[int, int]:
    """Return the id of the longest entry that word[start:stop] starts with, or -1, and its end."""
    for last in range(stop, start, -1):
        entry = find(entries, crcs[last - 1], word, start, last)
        if entry >= 0:
            return entry, last
    return -1, stop


@jit()
def write_word(
    lexicon: Any, word: Any, start: int, stop: int, crcs: Any, ids: Any, end: int
) -> tuple[int, int]:
    """Write the ids of the lower-case word[start:stop]; return their end and the word's slot."""
    if word[start] == ELLIPSIS:
        ids[end] = lexicon.ellipsis
        return end + 1, NO_SLOT
    write_crcs(lexicon.crc, word, start, stop, crcs)
    whole, entries, first, at = crcs[stop - 1], lexicon.heads, end, start
    while at < stop:
        entry, last = longest(entries, crcs, word, at, stop)
        if entry < 0:
            ids[first], end = lexicon.unknown, first + 1
            break
        ids[end] = entry
        entries, at, end = lexicon.tails, last, end + 1
        write_crcs(lexicon.crc, word, at, stop, crcs)
    if not lexicon.slots or not alphanumeric(word[start]):
        return end, NO_SLOT
    return end, slot_of(whole)


@jit()
def slot_of(crc: int) -> int:
    """Return the slot of a word, given its crc32; as `lexical.slot`."""
    return ((crc * GOLDEN) & MASK_32) >> (32 - SLOT_BITS)


@jit()
def alphanumeric(char: int) -> bool:
    return (97 <= char | 32 <= 122 and char < 128) or 48 <= char <= 57
