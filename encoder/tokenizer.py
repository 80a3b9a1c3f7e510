"""Texts → token ids and lexical rows, with a bounded memory of the chunks met before."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Lock
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
NUMBERS_PER_WORD = 8
KEPT_CHARS = 32
NOTHING = 0
LARGEST_ID = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """A batch of texts as the model reads it: of text i, the ids offsets[i] to offsets[i + 1]."""

    ids: I32  # [tokens]
    offsets: I64  # [texts + 1]
    lexical: SparseRows  # unit rows, or empty


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text: its token ids, its lexical slot (or NO_SLOT) and its idf."""

    text: str
    ids: tuple[int, ...]
    slot: int
    weight: float


class Lookup(NamedTuple):
    """Texts looked up: where in the pool the record of each of their chunks lies."""

    pool: F32  # float32 holds ids and slots exactly, as they are below LARGEST_ID
    records: I32  # [chunks]
    ends: I64  # [texts]: where each text's chunks end


class Memory(dict[str, int]):
    """Where in a pool the record of each chunk lies: two counts, its ids, its slots, their idf.

    The pool is only ever added to, and makes way for a larger copy when it is full, so that
    whoever reads the pool of a moment ago, in another thread, is not disturbed.
    """

    def __init__(self, side: Side, read: Callable[[str], list[Word]], capacity: int) -> None:
        super().__init__()
        self.passing, self.read, self.capacity = PASSING[side], read, capacity
        self.pool: F32 = np.zeros(1024, np.float32)
        self.used = 2  # at NOTHING: no ids, no slots
        self.fresh: list[float] = []

    def __missing__(self, chunk: str) -> int:
        if self.passing(chunk):
            return NOTHING
        words = self.read(chunk)
        ids = [i for word in words for i in word.ids]
        lexical = [word for word in words if word.slot != NO_SLOT]
        record = self.used + len(self.fresh)
        self.fresh += (len(ids), len(lexical), *ids)
        self.fresh += [word.slot for word in lexical]
        self.fresh += [word.weight for word in lexical]
        if len(chunk) <= KEPT_CHARS and "://" not in chunk:
            self[chunk] = record
        return record

    @property
    def full(self) -> bool:
        """Whether it is time to start over with an empty memory."""
        numbers = self.used + len(self.fresh)
        return len(self) >= self.capacity or numbers >= NUMBERS_PER_WORD * self.capacity

    def settle(self) -> F32:
        """Move the fresh records into the pool, and return the pool."""
        end = self.used + len(self.fresh)
        if end > len(self.pool):
            grown = np.zeros(2 * end, np.float32)
            grown[: self.used] = self.pool[: self.used]
            self.pool = grown
        self.pool[self.used : end] = self.fresh
        self.used, self.fresh = end, []
        return self.pool


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
        if vocabulary.size > LARGEST_ID:
            raise InputError(f"vocabulary: {vocabulary.size} entries, more than {LARGEST_ID}")
        self.vocabulary, self.idf = vocabulary, idf
        self._caps = {Side.POST: post_tokens, Side.ARTICLE: article_tokens}
        self._cache_words = cache_words
        self._word = lru_cache(max(1, cache_words // 4))(self._look_at)
        self._memories = {side: self._empty_memory(side) for side in Side}
        self._lock = Lock()

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
        return Word(word, ids, place, float(self.idf.table[place]))

    def _empty_memory(self, side: Side) -> Memory:
        return Memory(side, partial(self._read, side), self._cache_words)

    def _look_up(self, texts: Iterator[list[str]], side: Side) -> list[Lookup]:
        """Look up every chunk of every text; a memory that gets full on the way is replaced."""
        lookups: list[Lookup] = []
        with self._lock:
            memory = self._memories[side]
            records: list[int] = []
            ends: list[int] = []
            for chunks in texts:
                records += map(memory.__getitem__, chunks)
                ends.append(len(records))
                if memory.full:
                    lookups.append(lookup(memory, records, ends))
                    memory = self._memories[side] = self._empty_memory(side)
                    records, ends = [], []
            lookups.append(lookup(memory, records, ends))
        return lookups

    def _tokens(self, texts: Iterator[list[str]], side: Side) -> Tokens:
        parts = [self._expand(part, self._caps[side]) for part in self._look_up(texts, side)]
        return parts[0] if len(parts) == 1 else joined(parts)

    def _expand(self, part: Lookup, cap: int) -> Tokens:
        ids, offsets, slots, idf, slot_offsets = expand(*part, cap)
        return Tokens(ids, offsets, unit_rows(slots, idf, slot_offsets))


def lookup(memory: Memory, records: list[int], ends: list[int]) -> Lookup:
    """What was looked up in a memory, in the arrays that the compiled part reads."""
    return Lookup(memory.settle(), np.array(records, np.int32), np.array(ends, np.int64))


def joined(parts: list[Tokens]) -> Tokens:
    """The texts of all parts as one batch."""
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    lexical = SparseRows.concat([part.lexical for part in parts])
    return Tokens(np.concatenate([part.ids for part in parts]), offsets, lexical)


@jit()
def expand(pool: F32, records: I32, ends: I64, cap: int) -> tuple[I32, I64, I32, F32, I64]:
    """The ids of every text, at most `cap`, and all its words' slots and idf, with offsets."""
    id_offsets, slot_offsets = count(pool, records, ends, cap)
    ids = np.empty(id_offsets[-1], np.int32)
    slots = np.empty(slot_offsets[-1], np.int32)
    idf = np.empty(slot_offsets[-1], np.float32)
    chunk = 0
    for text in range(len(ends)):
        at, free = slot_offsets[text], id_offsets[text]
        while chunk < ends[text]:
            start = records[chunk] + 2
            id_count, slot_count = np.int64(pool[start - 2]), np.int64(pool[start - 1])
            for i in range(min(id_count, id_offsets[text + 1] - free)):
                ids[free + i] = np.int32(pool[start + i])
            free = min(free + id_count, id_offsets[text + 1])
            start += id_count
            for i in range(slot_count):
                slots[at + i] = np.int32(pool[start + i])
                idf[at + i] = pool[start + slot_count + i]
            at += slot_count
            chunk += 1
    return ids, id_offsets, slots, idf, slot_offsets


@jit()
def count(pool: F32, records: I32, ends: I64, cap: int) -> tuple[I64, I64]:
    """The offsets of the ids, at most `cap` a text, and of the slots of every text."""
    id_offsets = np.zeros(len(ends) + 1, np.int64)
    slot_offsets = np.zeros(len(ends) + 1, np.int64)
    chunk = 0
    for text in range(len(ends)):
        ids = slots = 0
        while chunk < ends[text]:
            ids += np.int64(pool[records[chunk]])
            slots += np.int64(pool[records[chunk] + 1])
            chunk += 1
        id_offsets[text + 1] = id_offsets[text] + min(ids, cap)
        slot_offsets[text + 1] = slot_offsets[text] + slots
    return id_offsets, slot_offsets
