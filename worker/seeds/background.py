"""The background in two halves: what an event is told apart from never calibrates its threshold."""

from zlib import crc32

import numpy as np

from encoder.embeddings import Embeddings


def split(background: Embeddings) -> tuple[Embeddings, Embeddings]:
    """The posts that may speak against an event, and those that calibrate, by their hashes.

    Copies of a post stand on one side, wherever and however often they occur.
    """
    words, ends = background.lexical, background.lexical.indptr
    sides = np.array([
        crc32(words.slots[begin:end].tobytes(), crc32(dense.tobytes())) & 1
        for dense, begin, end in zip(background.dense, ends, ends[1:], strict=False)
    ], bool)  # fmt: skip
    return background[np.flatnonzero(~sides)], background[np.flatnonzero(sides)]
