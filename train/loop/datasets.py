"""Training texts as tokens, with the teacher's vectors if the recipe needs them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from encoder.embeddings import unit_rows
from encoder.model.weights import I64
from encoder.score.lexical import SparseRows
from encoder.text.tokenizer import Tokenizer, Tokens
from train.data.corpus import Corpus
from train.data.readers import TrainingArticle, story_key
from train.loop.token_rows import TokenBatch
from train.teacher.star import StarTeacher

MIN_TOKENS = 3  # shorter texts lose no tokens


@dataclass(frozen=True, eq=False)
class Dataset:
    """Texts of one kind, with the teacher's vectors."""

    tokens: Tokens
    teacher: Tensor | None  # [n, teacher], unit
    story: I64  # [n], the same for copies of one article

    def __len__(self) -> int:
        return len(self.tokens.offsets) - 1

    @property
    def words(self) -> SparseRows:
        return self.tokens.lexical

    def take(self, drop: float, rng: np.random.Generator, cap: int | None = None) -> TokenBatch:
        """Return the first `cap` tokens of each text, with random tokens dropped."""
        texts = np.split(self.tokens.ids, self.tokens.offsets[1:-1])[: len(self)]
        texts = [ids[:cap] for ids in texts]
        if drop:
            texts = [x[rng.random(len(x)) >= drop] if len(x) > MIN_TOKENS else x for x in texts]
        return TokenBatch.join(texts)


def concat_rows(*parts: tuple[Dataset, I64]) -> Dataset:
    """Concatenate rows of several datasets."""
    ids = TokenBatch.join([
        dataset.tokens.ids[dataset.tokens.offsets[i] : dataset.tokens.offsets[i + 1]]
        for dataset, indices in parts
        for i in indices
    ])  # fmt: skip
    words = SparseRows.concat([dataset.words[indices] for dataset, indices in parts])
    teacher = [
        dataset.teacher[torch.from_numpy(c)] for dataset, c in parts if dataset.teacher is not None
    ]
    return Dataset(
        Tokens(ids.ids, ids.offsets, words),
        torch.cat(teacher) if len(teacher) == len(parts) else None,
        np.concatenate([dataset.story[indices] for dataset, indices in parts]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Datasets:
    """The datasets of a recipe; one is empty if the data has no texts of that kind."""

    posts: Dataset
    sentences: Dataset
    articles: Dataset
    pair_posts: Dataset
    pair_articles: Dataset
    bodies: Dataset
    own: I64  # [pairs, 2]: indices into pair_posts and pair_articles
    headlines: I64  # [bodies]: the index of each body's title in posts


def make_datasets(texts: Corpus, reader: Tokenizer, teacher: StarTeacher | None) -> Datasets:
    """Tokenize the texts, with the teacher's vectors."""
    numbers: dict[str, int] = {}  # by story key

    def posts(own: Sequence[str]) -> Dataset:
        vectors = torch.from_numpy(unit_rows(teacher.texts(own))) if teacher else None
        return Dataset(reader.posts(own), vectors, np.arange(len(own)))

    def articles(own: Sequence[TrainingArticle], read: Sequence[TrainingArticle | str]) -> Dataset:
        vectors = torch.from_numpy(teacher.articles(own)) if teacher else None
        number = [numbers.setdefault(story_key(story), len(numbers)) for story in own]
        return Dataset(reader.articles(read), vectors, np.array(number, np.int64))

    pair_articles = list(dict.fromkeys(texts.pair_stories))
    place = {article: i for i, article in enumerate(pair_articles)}
    own = [(i, place[story]) for i, story in enumerate(texts.pair_stories)]
    at = {post: i for i, post in enumerate(texts.posts)}
    with_title = [article for article in texts.articles if article.title in at]
    return Datasets(
        posts(texts.posts),
        posts(texts.sentences),
        articles(texts.articles, texts.articles),
        posts(texts.pair_posts),
        articles(pair_articles, pair_articles),
        articles(with_title, [text for _, text in with_title]),  # their titles are among the posts
        np.array(own, np.int64).reshape(-1, 2),
        np.array([at[title] for title, _ in with_title], np.int64),
    )
