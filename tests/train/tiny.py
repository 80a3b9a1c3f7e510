"""A teacher and a recipe so small that a whole training takes a second."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from encoder.embeddings import unit_rows
from encoder.model.config import AstConfig
from encoder.model.weights import F32
from encoder.score.lexical import SLOTS, Idf
from encoder.text.tokenizer import Tokenizer
from encoder.text.vocabulary import WordPiece
from tests.encoder.small_model import LINES
from train.data.corpus import read_corpus
from train.data.readers import SkippedRows
from train.teach import texts
from train.teacher import minilm
from train.teacher.minilm import WIDTH
from train.teacher.store import VectorStore
from train.teacher.wordllama import WORDLLAMA_WIDTH

RECIPE = """
encoder: {encoder}
model: {{dim: 8, heads: 2, head_dim: 4, residual: true, post_tokens: 32, article_tokens: 128}}
losses: {{vectors: 1, scores: 0.5, contrastive: 0.5, sigmoid: 0.1, cloze: 0.3, triplet: 1}}
batches: {{pairs: 2, posts: 2, sentences: 1, articles: 1, claims: 1, cloze: 1, pair_size: 12,
  headline_size: 6, post_size: 16, article_size: 6, cloze_size: 5, drop: 0.1}}
tokens: {{whole_words: 4}}
steps: {{count: 24, judge_every: 8, keep_every: 6, average_from: 0.5, average_every: 3,
  rate: 0.01, table_rate: 0.02, warm_up: 3}}
mix: [0, 0.5, 0.8]
"""


def vectors(lines: Sequence[str]) -> F32:
    """A vector for each text, drawn from it alone."""
    seeds = [int.from_bytes(line.encode()[-8:], "big") for line in lines]
    drawn = [np.random.default_rng(seed).standard_normal(WIDTH) for seed in seeds]
    return np.array(drawn, np.float32).reshape(-1, WIDTH)


class Teacher(minilm.Teacher):
    def __init__(self) -> None: ...

    def vocabulary(self) -> list[str]:
        return list(LINES)

    def pieces(self) -> F32:
        return vectors(LINES)

    def texts(self, texts: Sequence[str]) -> F32:
        return vectors(texts)


class WordLlama:
    def texts(self, texts: Sequence[str]) -> F32:
        return unit_rows(np.array([[1, len(text)] + [0] * (WORDLLAMA_WIDTH - 2) for text in texts]))


def reader() -> Tokenizer:
    config = AstConfig(post_tokens=32, article_tokens=128)
    return Tokenizer(WordPiece.from_lines(LINES), Idf(np.ones(SLOTS, np.float32)), config)


def taught(data: Path, cache: Path) -> Path:
    """A cache in which every text that trains has a vector."""
    store = VectorStore(cache, WIDTH)
    missing = store.missing(texts(read_corpus(data, SkippedRows())))
    store.add(missing, vectors(missing))
    return cache


def recipe(folder: Path, encoder: str = "ast", extra: str = "") -> Path:
    file = folder / f"{encoder}.yaml"
    file.write_text(RECIPE.format(encoder=encoder) + extra)
    return file
