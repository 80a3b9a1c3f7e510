"""Texts → token ids and lexical rows, with a bounded memory of the chunks met before."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from struct import pack
from typing import NamedTuple

import numpy as np

from encoder.config import Side
from encoder.errors import InputError
from encoder.jit import jit
from encoder.lexical import NO_SLOT, Idf, SparseRows, slot, unit_rows
from encoder.text import PASSING, Article, article_chunks, checked, clean_chunk, post_chunks
from encoder.vocabulary import Vocabulary
from encoder.weights import F32, I32, I64
from encoder.words import split_words

CACHE_WORDS = 2**18
KEPT_CHARS = 32


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """A batch of texts as the model reads it: of text i, the ids offsets[i] to offsets[i + 1]."""

    ids: I32  # [tokens]
    offsets: I64  # [texts + 1]
    lexical: SparseRows  # unit rows, or empty


class Word(NamedTuple):
    """One word of a text: its token ids, its lexical slot (or NO_SLOT) and its idf."""

    text: str
    ids: tuple[int, ...]
    slot: int
    weight: float


class Memory(dict[str, bytes]):
    """What each chunk met before was found to hold, as one record: its ids, its slots, their idf.

    A record is bytes, so that those of a whole batch are joined in one go and need no lock. When
    half of what may be kept is new, the older half goes, but for what was met again meanwhile.
    """

    def __init__(self, side: Side, read: Callable[[str], list[Word]], capacity: int) -> None:
        super().__init__()
        self.passing, self.read, self.half = PASSING[side], read, max(1, capacity // 2)
        self.older: dict[str, bytes] = {}

    def __missing__(self, chunk: str) -> bytes:
        found = self.older.get(chunk)
        if found is None:
            if self.passing(chunk):
                return NOTHING
            found = record(self.read(chunk))
            if len(chunk) > KEPT_CHARS or "://" in chunk:
                return found
        if len(self) >= self.half:
            self.older = self.copy()
            self.clear()
        self[chunk] = found
        return found


def record(words: list[Word]) -> bytes:
    """The words of a chunk in the form that `expand` reads: two counts, ids, slots, idf."""
    ids: list[int] = []
    slots: list[int] = []
    weights: list[float] = []
    for _, pieces, place, weight in words:
        ids += pieces
        if place != NO_SLOT:
            slots.append(place)
            weights.append(weight)
    layout = f"{2 + len(ids) + len(slots)}i{len(slots)}f"
    return pack(layout, len(ids), len(slots), *ids, *slots, *weights)


NOTHING = record([])


class Tokenizer:
    """Reads posts and articles; safe to call from several threads."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        idf: Idf | None,
        post_tokens: int,
        article_tokens: int,
        cache_words: int = CACHE_WORDS,
    ) -> None:
        for name, value in (
            ("post_tokens", post_tokens),
            ("article_tokens", article_tokens),
            ("cache_words", cache_words),
        ):
            if type(value) is not int or value < 1:
                raise InputError(f"{name}: {value!r} is not a whole number of at least 1")
        self.vocabulary, self.idf = vocabulary, idf
        self._caps = {Side.POST: post_tokens, Side.ARTICLE: article_tokens}
        self._word = lru_cache(max(1, cache_words // 4))(self._look_at)
        self._memories = {
            side: Memory(side, partial(self._read, side), cache_words) for side in Side
        }

    def posts(self, texts: Sequence[str]) -> Tokens:
        """The tokens of posts."""
        return self._tokens(map(post_chunks, checked(texts, Side.POST)), Side.POST)

    def articles(self, texts: Sequence[Article]) -> Tokens:
        """The tokens of articles, each a text or a (title, text)."""
        return self._tokens(map(article_chunks, checked(texts, Side.ARTICLE)), Side.ARTICLE)

    def words(self, text: Article, side: Side) -> list[Word]:
        """The words of one text as posts() or articles() read it, those beyond the cap too."""
        (text,) = checked([text], side)
        chunks = article_chunks(text) if side is Side.ARTICLE else post_chunks(str(text))
        return [word for chunk in chunks for word in self._read(side, chunk)]

    def _read(self, side: Side, chunk: str) -> list[Word]:
        """The words of a chunk."""
        return list(map(self._word, split_words(clean_chunk(chunk, side))))

    def _look_at(self, word: str) -> Word:
        """A word of the basic split with all that is known about it."""
        ids = self.vocabulary.pieces(word)
        place = NO_SLOT if self.idf is None else slot(word)
        if self.idf is None or place == NO_SLOT:
            return Word(word, ids, NO_SLOT, 0.0)
        return Word(word, ids, place, self.idf.table.item(place))

    def _tokens(self, texts: Iterator[list[str]], side: Side) -> Tokens:
        look_up = self._memories[side].__getitem__
        records: list[bytes] = []
        ends: list[int] = []
        for chunks in texts:
            records += map(look_up, chunks)
            ends.append(len(records))
        joined = np.frombuffer(b"".join(records), np.int32)
        found = expand(joined, np.array(ends, np.int64), self._caps[side])
        ids, offsets, slots, idf, slot_offsets = found
        return Tokens(ids, offsets, unit_rows(slots, idf, slot_offsets))


@jit()
def expand(records: I32, ends: I64, cap: int) -> tuple[I32, I64, I32, F32, I64]:
    """The ids of every text, at most `cap`, and all its words' slots and idf, with offsets.

    The records lie one after the other; `ends` counts how many there are up to each text's end.
    """
    id_offsets, slot_offsets = count(records, ends, cap)
    ids = np.empty(id_offsets[-1], np.int32)
    slots = np.empty(slot_offsets[-1], np.int32)
    idf = np.empty(slot_offsets[-1], np.float32)
    weights = records.view(np.float32)
    chunk = at = place = 0
    for text in range(len(ends)):
        free = id_offsets[text]
        while chunk < ends[text]:
            id_count, slot_count = records[at], records[at + 1]
            at += 2
            for i in range(min(id_count, id_offsets[text + 1] - free)):
                ids[free + i] = records[at + i]
            free = min(free + id_count, id_offsets[text + 1])
            at += id_count
            for i in range(slot_count):
                slots[place + i] = records[at + i]
                idf[place + i] = weights[at + slot_count + i]
            place += slot_count
            at += 2 * slot_count
            chunk += 1
    return ids, id_offsets, slots, idf, slot_offsets


@jit()
def count(records: I32, ends: I64, cap: int) -> tuple[I64, I64]:
    """The offsets of the ids, at most `cap` a text, and of the slots of every text."""
    id_offsets = np.zeros(len(ends) + 1, np.int64)
    slot_offsets = np.zeros(len(ends) + 1, np.int64)
    chunk = at = 0
    for text in range(len(ends)):
        ids = slots = 0
        while chunk < ends[text]:
            ids += records[at]
            slots += records[at + 1]
            at += 2 + records[at] + 2 * records[at + 1]
            chunk += 1
        id_offsets[text + 1] = id_offsets[text] + min(ids, cap)
        slot_offsets[text + 1] = slot_offsets[text] + slots
    return id_offsets, slot_offsets
