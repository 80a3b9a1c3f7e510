"""Texts → token ids and lexical rows, with a bounded memory of the chunks met before."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from encoder.errors import InputError
from encoder.model.config import Side
from encoder.model.weights import I32, I64
from encoder.score.lexical import NO_SLOT, Idf, SparseRows, slot, word_rows
from encoder.text.chunk_cache import Chunks, record
from encoder.text.clean import (
    Article,
    article_chunks,
    article_text,
    checked,
    clean_chunk,
    post_chunks,
    post_text,
)
from encoder.text.fast_clean import make_desk, plain_characters
from encoder.text.fast_scan import OLDER, expand, scan
from encoder.text.fast_wordpiece import make_lexicon
from encoder.text.split import split_words
from encoder.text.vocabulary import Vocabulary

CACHE_WORDS = 2**18
KEPT_BYTES = 64  # of a chunk
KEPT_LETTERS = 32  # of a word
NONE = (np.frombuffer(b"", np.int32), np.zeros(0, np.int64))


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
        self._idf = np.array([] if idf is None else idf.table, np.float32)
        self._caps = {Side.POST: post_tokens, Side.ARTICLE: article_tokens}
        self._word = lru_cache(max(1, cache_words // 4))(self._look_at)
        self._memories = {side: Chunks(cache_words) for side in Side}
        self._lexicon, self._characters = make_lexicon(vocabulary, idf), plain_characters()

    def posts(self, texts: Sequence[str]) -> Tokens:
        """The tokens of posts."""
        return self._tokens([post_text(text) for text in checked(texts, Side.POST)], Side.POST)

    def articles(self, texts: Sequence[Article]) -> Tokens:
        """The tokens of articles, each a text or a (title, text)."""
        found = [article_text(text) for text in checked(texts, Side.ARTICLE)]
        return self._tokens(found, Side.ARTICLE)

    def words(self, text: Article, side: Side) -> list[Word]:
        """The words of one text as posts() or articles() read it, those beyond the cap too."""
        (text,) = checked([text], side)
        chunks = article_chunks(text) if side is Side.ARTICLE else post_chunks(str(text))
        return [word for chunk in chunks for word in self._read(side, chunk)]

    def _read(self, side: Side, chunk: str) -> list[Word]:
        """The words of a chunk."""
        return [
            self._word(word) if len(word) <= KEPT_LETTERS else self._look_at(word)
            for word in split_words(clean_chunk(chunk, side))
        ]

    def _look_at(self, word: str) -> Word:
        """A word of the basic split with all that is known about it."""
        ids = self.vocabulary.pieces(word)
        place = NO_SLOT if self.idf is None else slot(word)
        if self.idf is None or place == NO_SLOT:
            return Word(word, ids, NO_SLOT, 0.0)
        return Word(word, ids, place, self.idf.table.item(place))

    def _tokens(self, texts: list[str], side: Side) -> Tokens:
        encoded = in_utf8(texts)
        bounds = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        data = b"".join(encoded)
        letters = np.frombuffer(data, np.uint8)
        memory, lexicon = self._memories[side], self._lexicon
        snapshot = memory.snapshot()
        rules = lexicon, self._characters, snapshot, make_desk()
        found = scan(letters, bounds, *rules, side is Side.POST)
        _, places, _, misses = found
        reused = places[places & 3 == OLDER] >> 2
        if len(reused):
            memory.keep(snapshot.older.arena, reused)
        read, read_places = self._missed(data, misses, side) if len(misses) else NONE
        expanded = expand(found, snapshot, read, read_places, self._idf, self._caps[side])
        ids, offsets, slots, idf, slot_offsets = expanded
        return Tokens(ids, offsets, word_rows(slots, idf, slot_offsets))

    def _missed(self, data: bytes, misses: I64, side: Side) -> tuple[I32, I64]:
        """The records of the chunks that start and stop here, and the place of each."""
        marks = misses.tolist()
        chunks = [data[a:b] for a, b in zip(marks[::2], marks[1::2], strict=True)]
        records = {chunk: self._record(chunk, side) for chunk in dict.fromkeys(chunks)}
        sizes = np.cumsum([0, *map(len, records.values())], dtype=np.int64) // 4
        place = dict(zip(records, sizes.tolist(), strict=False))
        read = np.frombuffer(b"".join(records.values()), np.int32)
        kept = [place[chunk] for chunk in records if worth_keeping(chunk)]
        if kept:
            self._memories[side].keep(read, np.array(kept, np.int64))
        return read, np.array([place[chunk] for chunk in chunks], np.int64)

    def _record(self, chunk: bytes, side: Side) -> bytes:
        words = self._read(side, chunk.decode("utf-8", "surrogatepass"))
        ids = [i for word in words for i in word.ids]
        return record(chunk, ids, [word.slot for word in words if word.slot != NO_SLOT])


def worth_keeping(chunk: bytes) -> bool:
    """Whether a chunk may well be met again; long ones and links hardly are."""
    return len(chunk) <= KEPT_BYTES and b"://" not in chunk


def in_utf8(texts: list[str]) -> list[bytes]:
    """The texts in UTF-8, lone surrogates as they are."""
    try:
        return list(map(str.encode, texts))
    except UnicodeEncodeError:
        return [text.encode("utf-8", "surrogatepass") for text in texts]
