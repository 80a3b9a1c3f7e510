"""What a model learns from: texts as tokens, with the teacher's vectors where there are any."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from encoder.embeddings import unit_rows
from encoder.model.weights import I32, I64
from encoder.score.lexical import SparseRows
from encoder.text.tokenizer import Tokenizer, Tokens
from train.data.corpus import Corpus
from train.data.readers import Story
from train.data.splits import story_key
from train.loop.token_rows import Flat
from train.teacher.chunks import whole
from train.teacher.store import VectorStore

SHORTEST = 3  # tokens of which none is left out


@dataclass(frozen=True, eq=False)
class Shelf:
    """Texts of one kind: their tokens, their words, and what the teacher makes of them."""

    tokens: Tokens
    taught: Tensor | None  # [n, teacher], unit
    story: I64  # [n], the same for copies of one article

    def __len__(self) -> int:
        return len(self.tokens.offsets) - 1

    @property
    def words(self) -> SparseRows:
        """The lexical rows of the texts."""
        return self.tokens.lexical

    def take(self, drop: float, rng: np.random.Generator, cap: int | None = None) -> Flat:
        """The texts from their head, some tokens left out at random."""
        parts = [part[:cap] for part in np.split(self.tokens.ids, self.tokens.offsets[1:-1])]
        if drop:
            parts = [p[rng.random(len(p)) >= drop] if len(p) > SHORTEST else p for p in parts]
        return flat(parts[: len(self)])


def pile(*parts: tuple[Shelf, I64]) -> Shelf:
    """Chosen texts of several shelves, one after the other."""
    ids = flat([
        shelf.tokens.ids[shelf.tokens.offsets[i] : shelf.tokens.offsets[i + 1]]
        for shelf, chosen in parts
        for i in chosen
    ])  # fmt: skip
    words = SparseRows.concat([shelf.words[chosen] for shelf, chosen in parts])
    taught = [shelf.taught[torch.from_numpy(c)] for shelf, c in parts if shelf.taught is not None]
    return Shelf(
        Tokens(ids.ids, ids.offsets, words),
        torch.cat(taught) if len(taught) == len(parts) else None,
        np.concatenate([shelf.story[chosen] for shelf, chosen in parts]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """Everything a recipe may draw from; an empty shelf if the data has none of that kind."""

    posts: Shelf
    sentences: Shelf
    articles: Shelf
    claims: Shelf
    pair_posts: Shelf
    pair_articles: Shelf
    bodies: Shelf
    own: I64  # [pairs, 2]: of the pairs' posts and of their articles
    headlines: I64  # [bodies]: of the posts, which is the title of a body


def shelve(texts: Corpus, reader: Tokenizer, store: VectorStore | None) -> Lessons:
    """The texts as tokens, with the teacher's vectors if a store is given."""
    numbers: dict[str, int] = {}  # of articles, one for all of one title or one beginning

    def posts(found: Sequence[str]) -> Shelf:
        taught = None if store is None else torch.from_numpy(unit_rows(store.get(found)))
        return Shelf(reader.posts(found), taught, np.arange(len(found)))

    def articles(found: Sequence[Story], read: Sequence[Story | str]) -> Shelf:
        taught = None if store is None else torch.from_numpy(whole(found, store.get))
        number = [numbers.setdefault(story_key(story), len(numbers)) for story in found]
        return Shelf(reader.articles(read), taught, np.array(number, np.int64))

    pair_articles = list(dict.fromkeys(texts.pair_stories))
    place = {article: i for i, article in enumerate(pair_articles)}
    own = [(i, place[story]) for i, story in enumerate(texts.pair_stories)]
    at = {post: i for i, post in enumerate(texts.posts)}
    headed = [article for article in texts.articles if article.title in at]
    return Lessons(
        posts(texts.posts),
        posts(texts.sentences),
        articles(texts.articles, texts.articles),
        articles(texts.claims, texts.claims),
        posts(texts.pair_posts),
        articles(pair_articles, pair_articles),
        articles(headed, [text for _, text in headed]),  # the titles stand beside them as posts
        np.array(own, np.int64).reshape(-1, 2),
        np.array([at[title] for title, _ in headed], np.int64),
    )


def flat(parts: Sequence[I32]) -> Flat:
    """Lists of ids as flat tokens."""
    ends = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    return Flat(np.concatenate([np.zeros(0, np.int32), *parts]), ends)
