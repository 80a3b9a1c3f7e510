"""Texts as the chunks that a star reads: each with a relay before its tokens and an end after."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from threading import Lock
from typing import Protocol

import numpy as np

from encoder.embeddings import unit_rows
from encoder.model.star_settings import BEFORE, StarSettings
from encoder.model.weights import F32, I32, I64
from encoder.readers.star_inputs import batches
from encoder.text.tokenizer import Tokens

START, PADDING, END = 0, 1, 2
CHUNK_TOKENS = 126  # beside relay and end
KEPT_BYTES = 2**25

Spread = Callable[[Callable[[Sequence[I32]], F32], Iterable[Sequence[I32]]], Iterable[F32]]
"""Maps over batches of chunks in order, maybe on several threads."""
ReadChunks = Callable[[Sequence[I32]], F32]
"""The vectors [chunks, d] of chunks."""


class StarReader(Protocol):
    """Reads chunks of one padded length; n is their number, L that length."""

    settings: StarSettings
    batch_tokens: int  # at a time, padding included
    keeps_tokens: bool  # whether `both` costs as little as `vectors`

    def vectors(self, texts: Sequence[I32]) -> F32:
        """The vectors [n, d], not normalised."""
        ...

    def tokens(self, texts: Sequence[I32]) -> F32:
        """The vectors [n, L, d] of their tokens, whose mean is the chunk's."""
        ...

    def both(self, texts: Sequence[I32]) -> tuple[F32, F32]:
        """The vectors of chunks, and of their tokens."""
        ...


class RecentTokens:
    """The tokens' vectors of chunks that were read lately: they explain why a post matches.

    Bounded by bytes; those used longest ago go first. Thread-safe.
    """

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._kept: OrderedDict[bytes, F32] = OrderedDict()
        self._most, self._bytes, self._lock = most_bytes, 0, Lock()

    def put(self, chunk: I32, tokens: F32) -> None:
        with self._lock:
            if (before := self._kept.pop(chunk.tobytes(), None)) is not None:
                self._bytes -= before.nbytes
            self._kept[chunk.tobytes()] = tokens
            self._bytes += tokens.nbytes
            while self._bytes > self._most:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes

    def get(self, chunk: I32) -> F32 | None:
        with self._lock:
            return self._kept.get(chunk.tobytes())


def star_vectors(
    reader: StarReader, chunks: Sequence[I32], spread: Spread, kept: RecentTokens | None = None
) -> F32:
    """The vectors [chunks, d] of chunks of any lengths; `spread` maps over batches in order.

    `kept` keeps those of the tokens.
    """
    read = reader.vectors if kept is None else partial(_read_and_keep, reader, kept)
    out = np.zeros((len(chunks), reader.settings.dim), np.float32)
    rows = list(batches(chunks, reader.batch_tokens))
    parts = spread(read, [[chunks[i] for i in own] for own in rows])
    for own, part in zip(rows, parts, strict=True):
        out[own] = part
    return out


def _read_and_keep(reader: StarReader, kept: RecentTokens, chunks: Sequence[I32]) -> F32:
    vectors, tokens = reader.both(chunks)
    for chunk, rows in zip(chunks, tokens, strict=True):
        kept.put(chunk, rows[: len(chunk)].copy())
    return vectors


def star_tokens(
    reader: StarReader, chunks: Sequence[I32], kept: RecentTokens | None = None
) -> list[F32]:
    """The vectors [tokens, d] of the tokens of each chunk, relay and end among them."""
    found = [None if kept is None else kept.get(chunk) for chunk in chunks]
    out = {n: tokens for n, tokens in enumerate(found) if tokens is not None}
    missing = [n for n in range(len(chunks)) if n not in out]
    for own in batches([chunks[n] for n in missing], reader.batch_tokens):
        read = [missing[i] for i in own]
        rows = reader.tokens([chunks[n] for n in read])
        out |= {n: row[: len(chunks[n])] for n, row in zip(read, rows, strict=True)}
    return [out[n] for n in range(len(chunks))]


def chunks_of(ids: I32, offsets: I64) -> tuple[list[I32], I64]:
    """The chunks of texts, and how many each text has: none without tokens."""
    chunks: list[I32] = []
    counts = []
    for start, stop in pairwise(offsets.tolist()):
        own = ids[start:stop]
        parts = [own[i : i + CHUNK_TOKENS] for i in range(0, len(own), CHUNK_TOKENS)]
        chunks += [np.array([START, *(part + BEFORE), END], np.int32) for part in parts]
        counts.append(len(parts))
    return chunks, np.array(counts, np.int64)


def read_texts(tokens: Tokens, read: ReadChunks, lead: bool) -> F32:
    """The unit vectors of texts: the mean over their chunks, the first counted twice if `lead`."""
    chunks, counts = chunks_of(tokens.ids, tokens.offsets)
    vectors = unit_rows(read(chunks)).astype(np.float32)  # [chunks, d]
    out = np.zeros((len(counts), vectors.shape[1]), np.float32)
    for row, (start, stop) in enumerate(pairwise([0, *accumulate(counts.tolist())])):
        if start < stop:
            out[row] = vectors[start:stop].sum(0) + (vectors[start] if lead else 0)
    return unit_rows(out)
