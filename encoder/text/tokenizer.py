"""Texts → token ids and lexical rows, with bounded caches of chunks and words."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from encoder.model.config import AstConfig, Side
from encoder.model.weights import I32, I64
from encoder.score.lexical import NO_SLOT, Idf, SparseRows, article_rows, post_rows, slot
from encoder.text.clean import (
    POST_CHARS,
    POST_TOKENS,
    Article,
    article_chunks,
    article_text,
    clean_chunk,
    post_chunks,
    post_text,
    validate_texts,
)
from encoder.text.fast_clean import MISSED, UNREAD, expand, make_buffers, plain_characters, scan
from encoder.text.fast_wordpiece import make_lexicon
from encoder.text.scripts import ScriptPart
from encoder.text.vocabulary import Vocabulary

CACHED_CHUNKS = 2**16
CACHED_WORDS = 2**16
CACHED_SPLITS = 2**14  # chunks
CACHED_LETTERS = 32  # longer words are not cached
CACHED_BYTES = 64  # longer chunks are not cached
BYTES = 4  # per number of a body
MAX_MISSED_BYTES = 4 * POST_TOKENS  # of a post whose tokens are not counted one by one
NO_LIMIT = 2**31


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """A batch of tokenized texts; text i has ids[offsets[i]:offsets[i + 1]]."""

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
    """Tokenizes posts and articles; thread-safe."""

    def __init__(self, vocabulary: Vocabulary, idf: Idf | None, config: AstConfig) -> None:
        self.vocabulary, self.idf, self._config = vocabulary, idf, config
        self._idf = np.array([] if idf is None else idf.table, np.float32)
        self._word = lru_cache(CACHED_WORDS)(self._make_word)
        self._bodies = lru_cache(CACHED_CHUNKS)(self._body)
        self._split = lru_cache(CACHED_SPLITS)(self._read)
        self._lexicon, self._characters = make_lexicon(vocabulary, idf), plain_characters()

    def posts(self, texts: Sequence[str]) -> Tokens:
        posts = validate_texts(texts, Side.POST)
        encoded = encode_utf8(posts)
        data, bounds = join(encoded)
        cleaned = ((row, post_text(posts[row])) for row in rows_to_clean(data, bounds))
        if changed := [(row, text) for row, text in cleaned if text != posts[row]]:
            for row, text in changed:
                (encoded[row],) = encode_utf8([text])
            data, bounds = join(encoded)
        return self._tokens(data, bounds, Side.POST)

    def articles(self, texts: Sequence[Article]) -> Tokens:
        """Tokenize articles, each a text or a (title, text)."""
        joined = [article_text(text) for text in validate_texts(texts, Side.ARTICLE)]
        return self._tokens(*join(encode_utf8(joined)), Side.ARTICLE)

    def words(self, text: Article, side: Side) -> list[Word]:
        """Return the words of one text, including those beyond the model's cap on tokens."""
        (text,) = validate_texts([text], side)
        chunks = article_chunks(text) if side is Side.ARTICLE else post_chunks(str(text))
        words, tokens, most = list[Word](), 0, most_tokens(side)
        for chunk in chunks:
            read = (self._split if len(chunk) <= CACHED_LETTERS else self._read)(side, chunk)
            words += read
            tokens += sum(len(word.ids) for word in read)
            if tokens >= most:
                break
        return words

    def _read(self, side: Side, chunk: str) -> list[Word]:
        words, tokens, most = list[Word](), 0, most_tokens(side)
        for word in self.vocabulary.split(clean_chunk(chunk, side), most):
            read = self._word(word) if len(word) <= CACHED_LETTERS else self._make_word(word)
            if tokens >= most and read.ids:  # the bigrams of the last run have none
                break
            words.append(read)
            tokens += len(read.ids)
        return words

    def _make_word(self, word: str | ScriptPart) -> Word:
        text, letters, term = (word, word, word) if isinstance(word, str) else word
        ids = self.vocabulary.pieces(letters)
        index = NO_SLOT if self.idf is None else slot(term)
        if self.idf is None or index == NO_SLOT:
            return Word(text, ids, NO_SLOT, 0.0)
        return Word(text, ids, index, self.idf.table.item(index))

    def _tokens(self, data: bytes, bounds: I64, side: Side) -> Tokens:
        """`data` has the texts in UTF-8, `bounds` [n + 1] where each begins and the last ends."""
        buffers = make_buffers(bounds)
        rules = self._lexicon, self._characters, buffers
        bodies, places, ends, misses = scan(
            np.frombuffer(data, np.uint8), bounds, *rules, side is Side.POST
        )
        if len(misses):
            numbers = iter(misses.tolist())  # a start and a stop of each, in turn
            chunks = [data[a:b] for a, b in zip(numbers, numbers, strict=True)]
            if side is Side.POST:
                chunks = self._leave_unread(bodies, places, ends, chunks)
            bodies = self._add(bodies, places, chunks, side)
        most = self._config.cap(side), most_tokens(side)
        ids, offsets, slots, slot_offsets = expand(bodies, places, ends, most)
        read = slots, self._idf[slots], slot_offsets
        rows = post_rows(*read) if side is Side.POST else article_rows(*read, self._config.lead)
        return Tokens(ids, offsets, rows)

    def _leave_unread(
        self, bodies: I32, places: I64, ends: I64, missed: list[bytes]
    ) -> list[bytes]:
        """The missed chunks without those beyond the last token of a post, which are marked.

        Of a post with few such bytes all are read, which costs little.
        """
        numbers = np.flatnonzero(places == MISSED)  # of the missed chunks, among all
        posts = np.searchsorted(ends, numbers, "right")
        sizes = np.bincount(posts, list(map(len, missed)))
        of_chunk = dict(zip(numbers.tolist(), missed, strict=True))
        for post in np.flatnonzero(sizes > MAX_MISSED_BYTES).tolist():
            tokens = 0
            for number in range(ends[post - 1] if post else 0, ends[post]):
                if number not in of_chunk:
                    tokens += bodies[places[number]]
                elif tokens < POST_TOKENS:
                    words = self._read(Side.POST, of_chunk[number].decode("utf-8", "surrogatepass"))
                    tokens += sum(len(word.ids) for word in words)
                else:
                    places[number] = UNREAD
                    del of_chunk[number]
        return list(of_chunk.values())

    def _add(self, bodies: I32, places: I64, missed: list[bytes], side: Side) -> I32:
        """Append the bodies of the missed chunks, and write their positions to `places`."""
        added = dict.fromkeys(missed, b"")
        for chunk in added:
            read = self._bodies if len(chunk) <= CACHED_BYTES else self._body
            added[chunk] = read(chunk, side)
        ends = len(bodies) + np.cumsum([0, *map(len, added.values())]) // BYTES
        position = dict(zip(added, ends.tolist(), strict=False))
        places[places == MISSED] = [position[chunk] for chunk in missed]
        return np.concatenate([bodies, np.frombuffer(b"".join(added.values()), np.int32)])

    def _body(self, chunk: bytes, side: Side) -> bytes:
        """Encode a chunk for `expand`: the counts of ids and slots, the ids, the slots."""
        words = self._read(side, chunk.decode("utf-8", "surrogatepass"))
        ids = [i for word in words for i in word.ids]
        slots = [word.slot for word in words if word.slot != NO_SLOT]
        return array("i", (len(ids), len(slots), *ids, *slots)).tobytes()


def most_tokens(side: Side) -> int:
    """An article is read whole."""
    return POST_TOKENS if side is Side.POST else NO_LIMIT


def encode_utf8(texts: list[str]) -> list[bytes]:
    """Encode texts in UTF-8; lone surrogates are allowed."""
    try:
        return list(map(str.encode, texts))
    except UnicodeEncodeError:
        return [text.encode("utf-8", "surrogatepass") for text in texts]


def join(texts: list[bytes]) -> tuple[bytes, I64]:
    """The texts as one, and where each begins and the last ends [n + 1]."""
    return b"".join(texts), np.cumsum([0, *map(len, texts)], dtype=np.int64)


def rows_to_clean(data: bytes, bounds: I64) -> list[int]:
    """The posts that `post_text` may change: long ones, and those that contain "RT"."""
    letters = np.frombuffer(data, np.uint8)
    retweets = np.flatnonzero((letters[:-1] == ord("R")) & (letters[1:] == ord("T")))
    long = np.flatnonzero(np.diff(bounds) > POST_CHARS)  # A character has one byte or more.
    rows = np.searchsorted(bounds, retweets, "right") - 1
    return sorted({*rows.tolist(), *long.tolist()})
