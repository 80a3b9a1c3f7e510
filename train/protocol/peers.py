"""Scorers to compare with: BM25, TF-IDF, transformers, and these with words."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import log
from typing import Generic, TypeVar

import numpy as np
import torch

from encoder import Embeddings, Encoder
from encoder.embeddings import row_blocks, unit_rows
from encoder.errors import DeviceError
from encoder.model.config import Side
from encoder.model.weights import F32
from encoder.score.lexical import NO_SLOT, Idf, SparseRows, slot
from encoder.text.clean import Article
from encoder.text.tokenizer import Tokenizer
from train.data.readers import TrainingArticle
from train.model.encoders import Baseline
from train.model.export import embed_tokens
from train.teacher.minilm import PEER_MIX, Read, readable, whole

WORD = re.compile(r"\w+")
K1, B = 1.2, 0.75

Scorer = Callable[[Sequence[str], Sequence[TrainingArticle]], F32]
"""The scores of all posts with all articles: [posts, articles]."""
T = TypeVar("T", bound=Article)


def similarity(posts: Embeddings, articles: Embeddings, mix: float | None = None) -> F32:
    """Score with a model's embeddings at a given λ."""
    if mix is not None:
        posts, articles = (
            Embeddings(part.dense, part.lexical, mix, part.digest) for part in (posts, articles)
        )
    return posts.similarity(articles)


class ReadOnce(Generic[T]):
    """Embeds each text once, however many sets and scorers ask: crises share one background."""

    def __init__(self, read: Callable[[Sequence[T]], Embeddings]) -> None:
        self._read = read
        self._kept = read([])
        self._rows: dict[T, int] = {}

    def __call__(self, texts: Sequence[T]) -> Embeddings:
        new = [text for text in dict.fromkeys(texts) if text not in self._rows]
        self._kept = Embeddings.concat([self._kept, self._read(new)])
        self._rows |= {text: row for row, text in enumerate(new, len(self._rows))}
        return self._kept[[self._rows[text] for text in texts]]


class JudgedEncoder:
    """A newsift model that is judged: its scores, and its words for the peers."""

    def __init__(self, encoder: Encoder, skim: bool = False) -> None:
        self.posts: Callable[[Sequence[str]], Embeddings]
        self.posts = encoder.skim if skim else ReadOnce(encoder.posts)
        self.articles = ReadOnce(encoder.articles)
        self.has_words = encoder.model.idf is not None
        self._skim = encoder.skim

    def scorer(self, mix: float | None = None) -> Scorer:
        """Score with the model's own λ or `mix`."""
        return lambda posts, stories: similarity(self.posts(posts), self.articles(stories), mix)

    def words(
        self, posts: Sequence[str], stories: Sequence[TrainingArticle]
    ) -> tuple[SparseRows, SparseRows]:
        """The words of posts and of articles; both readers see the same."""
        return self._skim(posts).lexical, self.articles(stories).lexical


def baseline(peer: Baseline, device: str = "auto", mix: float | None = None) -> Scorer:
    """The scorer of a baseline encoder, with its own λ or `mix`."""
    if device == "cuda" and not torch.cuda.is_available():
        raise DeviceError("device: no CUDA here; use auto or cpu")
    model = peer.model.to("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
    config = peer.config
    reader = Tokenizer(peer.vocabulary, peer.idf, config)

    def score(posts: Sequence[str], stories: Sequence[TrainingArticle]) -> F32:
        rows = embed_tokens(model, reader.posts(posts), Side.POST, config.lead)
        columns = embed_tokens(model, reader.articles(stories), Side.ARTICLE, config.lead)
        return similarity(rows, columns, peer.mix if mix is None else mix)

    return score


def tf_idf(training: Iterable[str]) -> Scorer:
    """Cosine of (1 + log tf)·idf, with the idf of the training texts."""
    idf = Idf.fit(map(split, training))

    def weigh(text: str) -> dict[int, float]:
        return {at: (1 + log(tf)) * float(idf.table[at]) for at, tf in words(text).items()}

    def score(posts: Sequence[str], stories: Sequence[TrainingArticle]) -> F32:
        rows = (sparse(map(weigh, part)).unit() for part in (posts, map(full, stories)))
        return SparseRows.dot(*rows)

    return score


def bm25(posts: Sequence[str], stories: Sequence[TrainingArticle]) -> F32:
    """BM25 with posts as queries and articles as documents."""
    counts = [words(full(story)) for story in stories]
    mean = sum(count.total() for count in counts) / max(len(counts), 1) or 1.0
    having = Counter(at for count in counts for at in count)
    idf = {at: log(1 + (len(counts) - n + 0.5) / (n + 0.5)) for at, n in having.items()}

    def weigh(count: Counter[int]) -> dict[int, float]:
        long = K1 * (1 - B + B * count.total() / mean)
        return {at: idf[at] * (tf * (K1 + 1) / (tf + long)) for at, tf in count.items()}

    return sparse(map(words, posts)).dot(sparse(map(weigh, counts)))


def transformer(read: Read, judged: JudgedEncoder | None = None) -> Scorer:
    """A pretrained transformer, optionally mixed with a model's words."""

    def score(posts: Sequence[str], stories: Sequence[TrainingArticle]) -> F32:
        vectors = unit_rows(read([readable(post) for post in posts]))
        dense: F32 = vectors @ whole(stories, read).T
        if judged is None:
            return dense
        words, others = judged.words(posts, stories)
        for rows in row_blocks(len(dense), dense.shape[1]):
            products = words[rows].dot(others)
            dense[rows] = (1 - PEER_MIX) * dense[rows] + PEER_MIX * products
        return dense

    return score


def full(story: TrainingArticle) -> str:
    """An article as one text."""
    return f"{story.title}. {story.text}" if story.title else story.text


def split(text: str) -> list[str]:
    return WORD.findall(readable(text).casefold())


def words(text: str) -> Counter[int]:
    """Count the words of a text by slot."""
    counts = Counter(map(slot, split(text)))
    counts.pop(NO_SLOT, None)
    return counts


def sparse(weights: "Iterable[dict[int, float] | Counter[int]]") -> SparseRows:
    rows = [sorted(row.items()) for row in weights]
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    entries = np.array([entry for row in rows for entry in row]).reshape(-1, 2)
    return SparseRows(indptr, entries[:, 0].astype(np.int32), entries[:, 1].astype(np.float32))
