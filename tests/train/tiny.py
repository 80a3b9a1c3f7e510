"""Teachers and a recipe so small that a whole training takes a second."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from encoder.model.config import AstConfig
from encoder.model.weights import F32
from encoder.score.lexical import SLOTS, Idf
from encoder.text.tokenizer import Tokenizer
from encoder.text.vocabulary import WordPiece
from tests.encoder.small_model import LINES
from tests.encoder.small_transformer import write_run
from train.data.corpus import Corpus
from train.teacher import minilm
from train.teacher.minilm import WIDTH
from train.teacher.star import StarTeacher, texts_to_embed

RECIPE = """
encoder: {encoder}
model: {{dim: 8, heads: 2, head_dim: 4, residual: true, post_tokens: 32, article_tokens: 128}}
losses: {{vectors: 1, scores: 0.5, contrastive: 0.5, sigmoid: 0.1, triplet: 1}}
batches: {{pairs: 2, posts: 2, sentences: 1, articles: 1, pair_size: 12,
  headline_size: 6, post_size: 16, article_size: 6, drop: 0.1}}
tokens: {{whole_words: 4}}
steps: {{count: 24, judge_every: 8, keep_every: 6, average_from: 0.5, average_every: 3,
  rate: 0.01, table_rate: 0.02, warm_up: 3}}
mix: [0, 0.5, 0.8]
"""


def vectors(lines: Sequence[str], width: int = WIDTH) -> F32:
    """A vector for each text, drawn from it alone."""
    seeds = [int.from_bytes(line.encode()[-8:], "big") for line in lines]
    drawn = [np.random.default_rng(seed).standard_normal(width) for seed in seeds]
    return np.array(drawn, np.float32).reshape(-1, width)


class Teacher(minilm.Teacher):
    def __init__(self) -> None: ...

    def texts(self, texts: Sequence[str]) -> F32:
        return vectors(texts)


def reader() -> Tokenizer:
    config = AstConfig(post_tokens=32, article_tokens=128)
    return Tokenizer(WordPiece.from_lines(LINES), Idf(np.ones(SLOTS, np.float32)), config)


def taught(corpus: Corpus, folder: Path) -> StarTeacher:
    """A small star with a vector of every text that trains: drawn, as its own are too alike."""
    write_run(folder)
    teacher = StarTeacher(folder)
    missing = teacher.store.missing(texts_to_embed(corpus))
    teacher.store.add(missing, vectors(missing, teacher.width))
    return teacher


def recipe(folder: Path, encoder: str = "ast") -> Path:
    file = folder / f"{encoder}.yaml"
    file.write_text(RECIPE.format(encoder=encoder))
    return file
