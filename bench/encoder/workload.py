"""What the rows share: texts, their tokens, models and weights, each made once and when needed."""

from collections.abc import Iterator
from functools import cache, cached_property
from itertools import cycle
from pathlib import Path

import numpy as np

from bench.texts import read_posts
from encoder import Encoder, load
from encoder.directory import snap
from encoder.model.config import AstConfig
from encoder.model.weights import I32, I64, Weights, random_weights
from encoder.text.tokenizer import Tokenizer, Tokens

BATCH = 256

IdBatch = tuple[I32, I64]


class Workload:
    """The same real posts for every row, and what a row needs to read them.

    A stream brings new posts made mostly of known words. So what remembers words reads the earlier
    posts first, and is then measured on posts that it has not seen.
    """

    def __init__(self, data: Path | None, model: str, posts: int, earlier: int) -> None:
        found, self.source = read_posts(data, posts + earlier)
        cut = min(earlier, len(found) * earlier // (posts + earlier))
        self.posts, self.earlier = found[cut:], found[:cut] or found
        self.model = model
        self.encoder = cache(self._encoder)
        self.weights = cache(self._weights)

    def _encoder(self, threads: int) -> Encoder:
        """The whole encoder on the CPU with so many threads, after the earlier posts."""
        made = load(self.model, device="cpu", threads=threads)
        made.posts(self.earlier)
        return made

    def _weights(self, star: str) -> Weights:
        """Random weights as they ship: in the paper's settings, or of a gated mean."""
        config = AstConfig(star=star, residual=star == "none")
        return snap(random_weights(config, self.encoder(1).model.vocabulary.size))

    @cached_property
    def tokens(self) -> Tokens:
        """All posts as ids."""
        held = self.encoder(1).model
        front = Tokenizer(held.vocabulary, held.idf, held.weights.config)
        return front.posts(self.posts)

    def batches(self, texts: list[str], size: int) -> Iterator[list[str]]:
        """Full batches in order, without an end; too few texts make one batch."""
        return cycle([texts[low : low + size] for low in starts(len(texts), size)])

    def id_batches(self, size: int) -> Iterator[IdBatch]:
        """The posts likewise as ids and offsets."""
        lows = starts(len(self.posts), size)
        return cycle([cut(self.tokens, low, min(low + size, len(self.posts))) for low in lows])


def starts(count: int, size: int) -> list[int]:
    """Where full batches begin; one at the beginning if none is full."""
    return [*range(0, count - size + 1, size)] or [0]


def cut(tokens: Tokens, low: int, high: int) -> IdBatch:
    """The texts from low to high as a batch of their own."""
    offsets = tokens.offsets[low : high + 1]
    ids = np.ascontiguousarray(tokens.ids[offsets[0] : offsets[-1]])
    return ids, offsets - offsets[0]
