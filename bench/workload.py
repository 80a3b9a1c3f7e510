"""What the rows share: texts, their tokens, models and weights, each made once and when needed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import cycle
from typing import Protocol, TypeVar

import numpy as np

from bench.floor import Support, measure_support
from bench.measure import NotAvailable
from bench.posts import Article, Texts
from encoder import Encoder, load
from encoder.model.config import AstConfig, Side
from encoder.model.weights import I32, I64, Weights, random_weights
from encoder.text.tokenizer import Tokenizer, Tokens

BATCH = 256
ARTICLE_BATCH = 16
SUPPORT_POSTS = 64

T = TypeVar("T")
IdBatch = tuple[I32, I64]


class Forward(Protocol):
    """Anything that turns ids into vectors."""

    def forward(self, ids: I32, offsets: I64, side: Side) -> object:
        """The vectors of the texts between consecutive offsets."""
        ...


@dataclass
class Workload:
    """The same real texts for every row, and what a row needs to read them."""

    texts: Texts
    model: str = "default"
    threads: tuple[int, ...] = (1, 2)
    peer_posts: int = 256
    _encoders: dict[int, Encoder] = field(default_factory=dict)
    _kernels: dict[tuple[int, bool], Forward] = field(default_factory=dict)

    def encoder(self, threads: int) -> Encoder:
        """The whole encoder on the CPU with so many threads, after the earlier texts."""
        made = self._encoders.get(threads)
        if made is None:
            made = load(self.model, device="cpu", threads=threads)
            made.posts(self.texts.earlier_posts)
            made.articles(self.texts.earlier_articles)
            self._encoders[threads] = made
        return made

    def kernel(self, threads: int, *, residual: bool = False) -> Forward:
        """The CPU kernel with random weights, or the reason why this machine has none."""
        from encoder.backends.kernel import KernelBackend, supported

        weights = self.gated if residual else self.plain
        reason = supported(weights.config)
        if reason is not None:
            raise NotAvailable(reason)
        if (threads, residual) not in self._kernels:
            self._kernels[threads, residual] = KernelBackend(weights, threads)
        return self._kernels[threads, residual]

    def torch(self, device: str = "cpu") -> Forward:
        """The torch path with random weights; on a GPU with the residual."""
        from encoder.backends.torch_backend import TorchBackend

        made: Forward = TorchBackend(self.plain if device == "cpu" else self.gated, device)
        return made

    @cached_property
    def loaded(self) -> Encoder:
        """One encoder, for its vocabulary and settings."""
        return self.encoder(1)

    def tokenizer(self) -> Tokenizer:
        """The model's front end, which has read nothing."""
        held, config = self.loaded.model, self.loaded.model.weights.config
        return Tokenizer(held.vocabulary, held.idf, config.post_tokens, config.article_tokens)

    @cached_property
    def front(self) -> Tokenizer:
        """One front end that has read the earlier posts."""
        made = self.tokenizer()
        made.posts(self.texts.earlier_posts)
        return made

    @cached_property
    def posts(self) -> Tokens:
        """All posts as ids."""
        return self.tokenizer().posts(self.texts.posts)

    @cached_property
    def articles(self) -> Tokens:
        """All articles as ids."""
        return self.tokenizer().articles(self.texts.articles)

    @cached_property
    def plain(self) -> Weights:
        """Random weights in the paper's settings, over the vocabulary of the model."""
        return random_weights(AstConfig(), self.loaded.model.vocabulary.size)

    @cached_property
    def gated(self) -> Weights:
        """The same with the residual: the form of the default model."""
        return random_weights(AstConfig(residual=True), self.loaded.model.vocabulary.size)

    @cached_property
    def support(self) -> Support:
        """How many entries of the attention are above zero, on the first posts."""
        offsets = self.posts.offsets[: SUPPORT_POSTS + 1]
        return measure_support(self.plain, self.posts.ids[: offsets[-1]], offsets)

    def text_batches(self, size: int) -> Iterator[Sequence[str]]:
        """Batches of posts, one after the other and from the start again, without an end."""
        return endless(self.texts.posts, size)

    def earlier_batches(self, size: int) -> Iterator[Sequence[str]]:
        """Batches of posts that were read before anything was measured, without an end."""
        return endless(self.texts.earlier_posts or self.texts.posts, size)

    def article_batches(self, size: int) -> Iterator[Sequence[Article]]:
        """Batches of articles, without an end."""
        return endless(self.texts.articles, size)

    def id_batches(self, size: int, side: Side = Side.POST) -> Iterator[IdBatch]:
        """The same batches as ids and offsets, without an end."""
        tokens = self.posts if side is Side.POST else self.articles
        count = len(tokens.offsets) - 1
        starts = [*range(0, count - size + 1, size)] or [0]
        return cycle([cut(tokens, low, min(low + size, count)) for low in starts])


def endless(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Full batches in order, from the start again at the end; fewer items make one batch."""
    starts = [*range(0, len(items) - size + 1, size)] or [0]
    for low in cycle(starts):
        yield items[low : low + size]


def cut(tokens: Tokens, low: int, high: int) -> IdBatch:
    """The texts from low to high as a batch of their own."""
    offsets = tokens.offsets[low : high + 1]
    ids = np.ascontiguousarray(tokens.ids[offsets[0] : offsets[-1]])
    return ids, offsets - offsets[0]
