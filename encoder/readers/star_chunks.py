"""Texts as the chunks that a star reads: each with a relay before its tokens and an end after."""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Protocol

import numpy as np

from encoder.embeddings import unit_rows
from encoder.model.star_settings import BEFORE, StarSettings
from encoder.model.weights import F32, I32, I64
from encoder.readers.star_inputs import batches
from encoder.text.tokenizer import Tokens

START, PADDING, END = 0, 1, 2
CHUNK_TOKENS = 126  # beside relay and end

Spread = Callable[[Callable[[Sequence[I32]], F32], Iterable[Sequence[I32]]], Iterable[F32]]
"""Maps over batches of chunks in order, maybe on several threads."""
ReadChunks = Callable[[Sequence[I32]], F32]
"""The vectors [chunks, d] of chunks."""


class StarReader(Protocol):
    """Reads chunks of one padded length; n is their number, L that length."""

    settings: StarSettings
    batch_tokens: int  # at a time, padding included

    def vectors(self, texts: Sequence[I32]) -> F32:
        """The vectors [n, d], not normalised."""
        ...

    def tokens(self, texts: Sequence[I32]) -> F32:
        """The vectors [n, L, d] of their tokens, whose mean is the chunk's."""
        ...


def star_vectors(reader: StarReader, chunks: Sequence[I32], spread: Spread) -> F32:
    """The vectors [chunks, d] of chunks of any lengths; `spread` maps over batches in order."""
    out = np.zeros((len(chunks), reader.settings.dim), np.float32)
    rows = list(batches(chunks, reader.batch_tokens))
    parts = spread(reader.vectors, [[chunks[i] for i in own] for own in rows])
    for own, part in zip(rows, parts, strict=True):
        out[own] = part
    return out


def star_tokens(reader: StarReader, chunks: Sequence[I32]) -> list[F32]:
    """The vectors [tokens, d] of the tokens of each chunk, relay and end among them."""
    out: dict[int, F32] = {}
    for own in batches(chunks, reader.batch_tokens):
        rows = reader.tokens([chunks[i] for i in own])
        out |= {i: row[: len(chunks[i])] for i, row in zip(own, rows, strict=True)}
    return [out[i] for i in range(len(chunks))]


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
