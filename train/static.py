"""The default model until training lands: MiniLM's word-piece vectors, weighted by idf, untrained.

python -m train.static --data ../shared/data --out encoder/models/default
"""

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import TypeVar

import click
import numpy as np
from numpy.typing import NDArray

from encoder.artifact import write_model
from encoder.config import AstConfig, Side
from encoder.embeddings import unit_rows
from encoder.lexical import SLOTS, Idf
from encoder.tokenizer import Tokenizer, Tokens
from encoder.vocabulary import WordPiece
from encoder.weights import (
    F32,
    POSITION_BUCKETS,
    Attention,
    Layer,
    Linear,
    Residual,
    Weights,
)
from train.corpus import EVERYDAY, articles, posts, rows, share
from train.export import export
from train.teacher import Teacher

CONFIG = AstConfig(residual=True)
MIX = 0.7
COMMON_DIRECTIONS = 3
STAR_GAIN = 0.1
SHARPNESS = 4.0
ALPHA = 1.5
BACKGROUND_POSTS = 20_000
T = TypeVar("T")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(data: Path, out: Path) -> None:
    """Build the untrained default model out of MiniLM's token vectors and public text."""
    teacher = Teacher()
    vocabulary = WordPiece.from_lines(teacher.vocabulary())
    pieces, words = document_frequencies(vocabulary, data)
    some = list(sample(data))
    vectors = project(teacher.pieces(), teacher.texts(some))
    vectors *= (inverse(pieces) * known(vocabulary))[:, None]
    read = Tokenizer(vocabulary, None, CONFIG.post_tokens, CONFIG.article_tokens).posts(some)
    weights = untrained(without_common(vectors, read))
    everyday = (row["text"] for row in rows(data / EVERYDAY))
    background = sorted(set(everyday), key=share)[:BACKGROUND_POSTS]
    provenance = {
        "trained": False,
        "how": "python -m train.static: token vectors, centred, projected, weighted by idf",
        "token_vectors": Teacher.name,
        "idf_and_background": "public posts and articles, see shared/data/SOURCES.json",
    }
    model = export(weights, vocabulary, Idf(inverse(words)), MIX, background, {}, provenance)
    click.echo(f"{out}: digest {write_model(out, model)}")


def document_frequencies(
    vocabulary: WordPiece, data: Path
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """In what share of all posts and articles each word piece, and each hashed word, occurs."""
    reader = Tokenizer(vocabulary, Idf(np.ones(SLOTS, np.float32)), 128, 1024)
    pieces, words, texts = np.zeros(vocabulary.size), np.zeros(SLOTS), 0
    for tokens in chain(
        map(reader.posts, blocks(posts(data))), map(reader.articles, blocks(articles(data)))
    ):
        pieces += distinct_pieces(tokens, vocabulary.size)
        words += np.bincount(tokens.lexical.slots, minlength=SLOTS)
        texts += len(tokens.lexical)
    return pieces / texts, words / texts


def distinct_pieces(tokens: Tokens, size: int) -> NDArray[np.int64]:
    """In how many of the texts each word piece occurs: [vocabulary]."""
    text = np.repeat(np.arange(len(tokens.offsets) - 1), np.diff(tokens.offsets))
    found = np.unique(text * size + tokens.ids) % size
    return np.bincount(found, minlength=size)


def blocks(items: Iterable[T], size: int = 2048) -> Iterator[list[T]]:
    """The items in lists of this many."""
    block: list[T] = []
    for item in items:
        block.append(item)
        if len(block) == size:
            yield block
            block = []
    yield block


def inverse(frequency: NDArray[np.float64]) -> F32:
    """The idf of each share of texts, never negative, and bounded for what was hardly seen."""
    return np.clip(-np.log(frequency + 1e-5), 0, None).astype(np.float32)


def sample(data: Path) -> Iterator[str]:
    """Some thousand posts and article leads, the directions in which real texts differ."""
    yield from (post for post in posts(data) if share(post) < 0.02)
    yield from (f"{title}. {text[:1500]}" for title, text in articles(data) if share(text) < 0.06)


def project(pieces: F32, texts: F32) -> F32:
    """Unit token vectors in the leading directions of the texts: [vocabulary, dim]."""
    _, _, directions = np.linalg.svd(texts.T @ texts)  # [384, 384]
    return unit_rows((pieces - pieces.mean(0)) @ directions[: CONFIG.dim].T)


def without_common(vectors: F32, texts: Tokens) -> F32:
    """The vectors without the directions that most texts share and that tell no two apart."""
    means = np.zeros((len(texts.offsets) - 1, vectors.shape[1]))  # [texts, dim]
    for i, (start, end) in enumerate(pairwise(texts.offsets)):
        means[i] = vectors[texts.ids[start:end]].mean(0) if end > start else 0
    means -= means.mean(0)
    common = np.linalg.svd(means.T @ means)[2][:COMMON_DIRECTIONS]  # [common, dim]
    return np.asarray(vectors - (vectors @ common.T) @ common, dtype=np.float32)


def known(vocabulary: WordPiece) -> F32:
    """Zero for the pieces that stand for no word, one for all others: [vocabulary]."""
    return np.array([line not in SPECIAL for line in vocabulary.lines()], dtype=np.float32)


def untrained(vectors: F32) -> Weights:
    """A star that attends by likeness in each head's own directions, added with a small gain."""
    eye, none = np.eye(CONFIG.dim, dtype=np.float32), np.zeros(CONFIG.dim, np.float32)
    plain, sharp = Linear(eye, none), Linear(eye * np.float32(SHARPNESS), none)
    alpha = np.full(CONFIG.heads, ALPHA, np.float32)
    attention = Attention(sharp, plain, plain, plain, alpha)
    residual = Residual(
        gain=np.full(CONFIG.dim, STAR_GAIN, np.float32),
        gates=np.ones((len(Side), len(vectors)), np.float32),
        positions=np.ones((len(Side), POSITION_BUCKETS), np.float32),
    )
    return Weights(CONFIG, vectors, (Layer(attention, attention),), residual)


if __name__ == "__main__":
    main()
