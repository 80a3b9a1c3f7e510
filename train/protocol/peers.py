"""What scores beside the model: BM25, TF-IDF, MiniLM, MiniLM with words; each as a scorer."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Protocol

import numpy as np

from encoder import Embeddings, Encoder
from encoder.embeddings import unit_rows
from encoder.model.weights import F32
from encoder.score.lexical import NO_SLOT, SLOTS, SparseRows, slot
from train.data.readers import Story
from train.teacher.chunks import readable, whole
from train.teacher.minilm import Embedder

WORD = re.compile(r"\w+")
K1, B = 1.2, 0.75
PEER_MIX = 0.6

Weights = dict[int, float]  # of one text, by slot


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
class Embedded:
    """The embeddings of posts and articles by one model."""

    posts: Embeddings
    articles: Embeddings

    def block(self, articles: slice) -> F32:
        """The scores of all posts with some of the articles."""
        return self.posts.similarity(self.articles[articles])

    def at(self, mix: float) -> "Embedded":
        """The same with another λ."""
        both = (self.posts, self.articles)
        return Embedded(*(Embeddings(x.dense, x.lexical, mix, x.digest) for x in both))


@dataclass(frozen=True, slots=True)
class Ours:
    """A model of newsift, with its own mix or another."""

    name: str
    encoder: Encoder
    mix: float | None = None

    def prepare(self, posts: Sequence[str], stories: Sequence[Story]) -> Embedded:
        """Embed all the texts."""
        made = Embedded(self.encoder.posts(posts), self.encoder.articles(stories))
        return made if self.mix is None else made.at(self.mix)


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
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

    def prepare(self, posts: Sequence[str], stories: Sequence[Story]) -> Weighed:
        """Count and weigh the words of all the texts."""
        texts = [full(story) for story in stories]
        idf = counted_idf([*posts, *texts]) if self.idf is None else self.idf

        def weighed(text: str) -> Weights:
            return {place: (1 + log(tf)) * float(idf[place]) for place, tf in words(text).items()}

        return Weighed(*(sparse(map(weighed, part)).unit() for part in (posts, texts)))


@dataclass(frozen=True, slots=True)
class Bm25:
    """The post as query, the articles as documents, idf counted in the articles."""

    name: str = "BM25"

    def prepare(self, posts: Sequence[str], stories: Sequence[Story]) -> Weighed:
        """Count the words of all the texts."""
        counts = [words(full(story)) for story in stories]
        mean = sum(count.total() for count in counts) / max(len(counts), 1) or 1.0
        having = Counter(place for count in counts for place in count)
        idf = {p: log(1 + (len(counts) - n + 0.5) / (n + 0.5)) for p, n in having.items()}

        def weighed(count: Counter[int]) -> Weights:
            long = K1 * (1 - B + B * count.total() / mean)
            return {
                place: idf[place] * (tf * (K1 + 1) / (tf + long)) for place, tf in count.items()
            }

        queries = ({place: float(tf) for place, tf in words(post).items()} for post in posts)
        return Weighed(sparse(queries), sparse(map(weighed, counts)))


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """Dense unit vectors, and with a mix above 0 sparse rows beside them."""

    posts: F32
    articles: F32
    lexical: Weighed | None

    def block(self, articles: slice) -> F32:
        """The scores of all posts with some of the articles."""
        score: F32 = self.posts @ self.articles[articles].T
        if self.lexical is None:
            return score
        return (1 - PEER_MIX) * score + PEER_MIX * self.lexical.block(articles)


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
        if self.whole:
            articles = whole(stories, self.teacher.texts)
        else:
            articles = unit_rows(self.teacher.texts([full(story) for story in stories]))
        if self.words is None:
            return Mixed(dense, articles, None)
        own = Ours("", self.words).prepare(posts, stories)
        return Mixed(dense, articles, Weighed(own.posts.lexical, own.articles.lexical))


def full(story: Story) -> str:
    """An article as one text."""
    return f"{story.title}. {story.text}" if story.title else story.text


def words(text: str) -> Counter[int]:
    """How often each word of a text occurs, the words by their slots."""
    counts = Counter(slot(word) for word in WORD.findall(readable(text).casefold()))
    counts.pop(NO_SLOT, None)
    return counts


def counted_idf(texts: Iterable[str]) -> F32:
    """The idf of every slot, counted in these texts: [slots]."""
    count, having = 0, np.zeros(SLOTS)
    for text in texts:
        count += 1
        having[list(words(text))] += 1
    return np.asarray(np.log((count + 1) / (having + 1)).clip(min=0), dtype=np.float32)


def sparse(weights: Iterable[Weights]) -> SparseRows:
    """Sparse rows out of the weights of texts."""
    rows = [sorted(row.items()) for row in weights]
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    entries = [entry for row in rows for entry in row]
    places, values = zip(*entries, strict=True) if entries else ((), ())
    return SparseRows(indptr, np.array(places, np.int32), np.array(values, np.float32))
