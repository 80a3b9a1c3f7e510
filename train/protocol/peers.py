"""What a user would take instead, each as a scorer: BM25, TF-IDF, MiniLM, MiniLM with words."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log
from typing import Protocol

import numpy as np

from encoder import Embeddings, Encoder
from encoder.embeddings import unit_rows
from encoder.model.weights import F32
from encoder.score.lexical import NO_SLOT, SLOTS, SparseRows, slot
from train.data.readers import Story
from train.teacher.chunks import chunks, readable
from train.teacher.minilm import Embedder

WORD = re.compile(r"\w+")
K1, B = 1.2, 0.75
PEER_MIX = 0.6


class Scored(Protocol):
    """Posts and articles that are ready to be compared."""

    def block(self, articles: slice) -> F32:
        """The scores of all posts with some of the articles: [n, some]."""
        ...


class Scorer(Protocol):
    """Something that scores posts with articles."""

    @property
    def name(self) -> str:
        """What it is called in a table."""
        ...

    def prepare(self, posts: Sequence[str], stories: Sequence[Story]) -> Scored:
        """Read all the texts once."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """Two sets of embeddings of one model."""

    posts: Embeddings
    articles: Embeddings

    def block(self, articles: slice) -> F32:
        """The scores of all posts with some of the articles."""
        return self.posts.similarity(self.articles[articles])


@dataclass(frozen=True, slots=True)
class Ours:
    """A model of newsift, with its own mix or another."""

    name: str
    encoder: Encoder
    mix: float | None = None

    def prepare(self, posts: Sequence[str], stories: Sequence[Story]) -> Vectors:
        """Embed all the texts."""
        made = self.encoder.posts(posts), self.encoder.articles([pair(story) for story in stories])
        if self.mix is None:
            return Vectors(*made)
        return Vectors(*(Embeddings(x.dense, x.lexical, self.mix, x.digest) for x in made))


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Sparse rows whose product is the score."""

    posts: SparseRows
    articles: SparseRows

    def block(self, articles: slice) -> F32:
        """The scores of all posts with some of the articles."""
        return self.posts.dot(self.articles[articles])


@dataclass(frozen=True, slots=True)
class TfIdf:
    """Cosine of (1 + log tf)·idf, with the idf given, else counted in the texts compared."""

    name: str
    idf: F32 | None = None  # [slots]

    def prepare(self, posts: Sequence[str], stories: Sequence[Story]) -> Rows:
        """Count and weigh the words of all the texts."""
        texts = [full(story) for story in stories]
        idf = inverse([*posts, *texts]) if self.idf is None else self.idf
        return Rows(*(sparse(map(words, part), idf).unit() for part in (posts, texts)))


@dataclass(frozen=True, slots=True)
class Bm25:
    """The post as query, the articles as documents, idf counted in the articles."""

    name: str = "BM25"

    def prepare(self, posts: Sequence[str], stories: Sequence[Story]) -> Rows:
        """Count the words of all the texts."""
        counts = [words(full(story)) for story in stories]
        lengths = [sum(count.values()) for count in counts]
        mean = sum(lengths) / max(len(lengths), 1) or 1.0
        having = Counter(place for count in counts for place in count)
        n = len(counts)
        documents = [
            {
                place: log(1 + (n - having[place] + 0.5) / (having[place] + 0.5))
                * (tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / mean)))
                for place, tf in count.items()
            }
            for count, length in zip(counts, lengths, strict=True)
        ]
        queries = [{place: float(tf) for place, tf in words(post).items()} for post in posts]
        return Rows(rows_of(queries), rows_of(documents))


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """Dense unit vectors, and with a mix above 0 sparse rows beside them."""

    posts: F32
    articles: F32
    lexical: Rows
    mix: float

    def block(self, articles: slice) -> F32:
        """The scores of all posts with some of the articles."""
        score: F32 = (1 - self.mix) * (self.posts @ self.articles[articles].T)
        return score + self.mix * self.lexical.block(articles) if self.mix else score


@dataclass(frozen=True, slots=True)
class MiniLm:
    """all-MiniLM-L6-v2 without training, an article by its lead or by all its chunks."""

    name: str
    teacher: Embedder
    whole: bool = False
    words: Encoder | None = None

    def prepare(self, posts: Sequence[str], stories: Sequence[Story]) -> Mixed:
        """Embed all the texts."""
        dense = unit_rows(self.teacher.texts([readable(post) for post in posts]))
        articles = self._whole(stories) if self.whole else self._lead(stories)
        none = Rows(SparseRows.empty(len(posts)), SparseRows.empty(len(stories)))
        if self.words is None:
            return Mixed(dense, articles, none, 0.0)
        own = Ours("", self.words).prepare(posts, stories)
        return Mixed(dense, articles, Rows(own.posts.lexical, own.articles.lexical), PEER_MIX)

    def _lead(self, stories: Sequence[Story]) -> F32:
        return unit_rows(self.teacher.texts([full(story) for story in stories]))

    def _whole(self, stories: Sequence[Story]) -> F32:
        parts = [chunks(story.title, story.text) or [""] for story in stories]
        vectors = unit_rows(self.teacher.texts(list(chain(*parts))))
        starts = np.cumsum([0, *map(len, parts)])[:-1]
        return unit_rows(np.add.reduceat(vectors, starts, axis=0) + vectors[starts])


def pair(story: Story) -> tuple[str, str]:
    """An article as the encoder takes it."""
    return story.title, story.text


def full(story: Story) -> str:
    """An article as one text."""
    return f"{story.title}. {story.text}" if story.title else story.text


def words(text: str) -> Counter[int]:
    """How often each word of a text occurs, the words by their slots."""
    counts = Counter(slot(word) for word in WORD.findall(readable(text).casefold()))
    counts.pop(NO_SLOT, None)
    return counts


def inverse(texts: Iterable[str]) -> F32:
    """The idf of every slot, counted in these texts: [slots]."""
    count, having = 0, np.zeros(SLOTS)
    for text in texts:
        count += 1
        having[list(words(text))] += 1
    return np.asarray(np.log((count + 1) / (having + 1)).clip(min=0), dtype=np.float32)


def sparse(counts: Iterable[Counter[int]], idf: F32) -> SparseRows:
    """Rows of (1 + log tf)·idf."""
    return rows_of(
        [{place: (1 + log(tf)) * float(idf[place]) for place, tf in c.items()} for c in counts]
    )


def rows_of(weights: Sequence[dict[int, float]]) -> SparseRows:
    """Sparse rows out of dictionaries from slot to weight."""
    indptr = np.cumsum([0, *(len(row) for row in weights)]).astype(np.int64)
    places = [place for row in weights for place in sorted(row)]
    values = [row[place] for row in weights for place in sorted(row)]
    return SparseRows(indptr, np.array(places, np.int32), np.array(values, np.float32))
