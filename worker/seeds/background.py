"""The background that automatic thresholds are found on: the model's, or one of one's own.

It is in two: what an event is told apart from never calibrates its threshold. An eighth tells
events apart as well as all of it would; the tail of a threshold needs the rest.
"""

from dataclasses import dataclass
from zlib import crc32

import numpy as np

from encoder.embeddings import Embeddings

PARTS = 8  # by the hash of a post; the first speaks against events


@dataclass(frozen=True, slots=True, eq=False)
class OwnBackground:
    """A background of one's own, and the first 12 hex digits of the SHA-256 of its file."""

    posts: Embeddings
    mark: str


def sides_of(background: Embeddings) -> tuple[Embeddings, Embeddings]:
    """The posts that may speak against an event, and those that calibrate, by their hashes.

    Copies of a post stand on one side, wherever and however often they occur.
    """
    words, ends = background.lexical, background.lexical.indptr
    sides = np.array([
        crc32(words.slots[begin:end].tobytes(), crc32(dense.tobytes())) % PARTS
        for dense, begin, end in zip(background.dense, ends, ends[1:], strict=False)
    ], bool)  # fmt: skip
    return background[np.flatnonzero(~sides)], background[np.flatnonzero(sides)]
