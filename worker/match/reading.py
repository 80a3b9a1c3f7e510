"""Reads the texts of posts that may match: a portion at a time, and lately read texts not again."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import accumulate
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.model.weights import F32, I32, I64
from encoder.score.lexical import SparseRows

PORTION_LETTERS = 32_000  # some 8,000 tokens, which take a slow core a few seconds
KEPT_BYTES = 32 * 2**20
ROW_BYTES = 600  # what Python needs for a text and its row, beside what they hold
T = TypeVar("T", bound=Hashable)


def do_nothing() -> None:
    """No work is done between two portions."""


class Row(NamedTuple):
    """The vector of one text."""

    dense: F32  # [d]
    slots: I32  # [words]
    weights: F32  # [words]


class PostReader:
    """Reads posts with the star; equal texts once, and not again while their rows are kept.

    What is kept is bounded by bytes; the rows used longest ago go first. Thread-safe.
    """

    def __init__(self, enc: Encoder, threads: int, kept_bytes: int = KEPT_BYTES) -> None:
        self._enc, self._threads, self._most = enc, threads, kept_bytes
        self._kept: OrderedDict[str, Row] = OrderedDict()
        self._bytes, self._lock = 0, Lock()

    def read(self, texts: Sequence[str], go_on: Callable[[], None] = do_nothing) -> Embeddings:
        """The vectors of texts. `go_on` is called after each portion; it may raise an error."""
        if not texts:
            return self._enc.posts([])
        distinct, index = deduplicate(texts)
        rows = self._find(distinct)
        for portion in portions([text for text in distinct if text not in rows]):
            vectors = self._enc.posts(portion, threads=self._threads)
            if not np.isfinite(vectors.dense).all():
                raise FloatingPointError("the vector of a text is not finite")
            read = dict(zip(portion, split_rows(vectors), strict=True))
            self._keep(read)
            rows |= read
            go_on()
        return join_rows([rows[text] for text in distinct], self._enc)[index]

    def _find(self, texts: Sequence[str]) -> dict[str, Row]:
        with self._lock:
            found = {text: self._kept[text] for text in texts if text in self._kept}
            for text in found:
                self._kept.move_to_end(text)
        return found

    def _keep(self, rows: dict[str, Row]) -> None:
        with self._lock:
            for text, row in rows.items():
                if text not in self._kept:  # another thread may have read it meanwhile
                    self._kept[text] = row
                    self._bytes += size_of(text, row)
            while self._bytes > self._most:
                self._bytes -= size_of(*self._kept.popitem(last=False))


def deduplicate(items: Sequence[T]) -> tuple[list[T], I64]:
    """Distinct items in order of first occurrence, and the position of each item."""
    places = {item: place for place, item in enumerate(dict.fromkeys(items))}
    return list(places), np.array([places[item] for item in items], np.int64)


def portions(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in order, in lists of so many letters, the last text of each beyond them."""
    portion, letters = list[str](), 0
    for text in texts:
        portion.append(text)
        letters += len(text)
        if letters >= PORTION_LETTERS:
            yield portion
            portion, letters = [], 0
    if portion:
        yield portion


def split_rows(vectors: Embeddings) -> list[Row]:
    """Copies of the rows, which do not hold all of them in memory."""
    words = vectors.lexical
    return [
        Row(dense.copy(), words.slots[start:stop].copy(), words.weights[start:stop].copy())
        for dense, start, stop in zip(
            vectors.dense, words.indptr[:-1].tolist(), words.indptr[1:].tolist(), strict=True
        )
    ]


def join_rows(rows: Sequence[Row], enc: Encoder) -> Embeddings:
    """The embeddings of at least one row."""
    indptr = np.array(list(accumulate((len(row.slots) for row in rows), initial=0)), np.int64)
    slots = np.concatenate([row.slots for row in rows])
    weights = np.concatenate([row.weights for row in rows])
    dense = np.stack([row.dense for row in rows])
    return Embeddings(dense, SparseRows(indptr, slots, weights), enc.mix, enc.digest)


def size_of(text: str, row: Row) -> int:
    # A letter takes up to four bytes.
    return 4 * len(text) + row.dense.nbytes + row.slots.nbytes + row.weights.nbytes + ROW_BYTES
