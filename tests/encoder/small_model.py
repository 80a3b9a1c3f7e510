"""A small model with everything a real one has, for tests that need a whole model."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from encoder import Embeddings
from encoder.model.config import AstConfig
from encoder.model.weights import random_weights
from encoder.model_directory import Model
from encoder.readers.choose import Readers
from encoder.readers.torch_backend import TorchBackend
from encoder.score.lexical import SLOTS, Idf
from encoder.text.vocabulary import WordPiece
from train.model.export import export

WORDS = (
    *("storm", "flood", "river", "city", "police", "fire", "match", "game", "cat", "music"),
    *(".", ",", "!", "'", "the", "a", "in", "on", "of", "and"),
)
LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
LINES = ["[PAD]", "[UNK]", *WORDS, *LETTERS[1:], *(f"##{x}" for x in LETTERS)]
TOPICS = (
    "storm flood river city",
    "match game music",
    "cat music the a",
    "police fire in the city",
)


def background(count: int = 400) -> list[str]:
    rng = np.random.default_rng(5)
    return [" ".join(rng.choice(WORDS, rng.integers(2, 9))) for _ in range(count)]


def small_model(
    *,
    mix: float = 0.6,
    star: str = "none",
    residual: bool = True,
    layers: int = 1,
    seed: int = 3,
    background_posts: int = 400,
) -> Model:
    config = AstConfig(
        dim=12,
        heads=2,
        head_dim=6,
        star=star,
        residual=residual,
        layers=layers,
        post_tokens=32,
        article_tokens=64,
    )
    idf = (
        Idf(np.random.default_rng(seed).uniform(0.5, 9, SLOTS).astype(np.float32)) if mix else None
    )
    weights = random_weights(config, len(LINES), seed)
    posts = background(background_posts)
    model = export(weights, WordPiece.from_lines(LINES), idf, mix, posts)
    return replace(model, metrics={"note": 1})


def torch_readers(model: Model) -> Readers:
    """The model read by PyTorch, also where the compiled kernel would do."""
    return Readers(TorchBackend(model.weights, "cpu"), None, "torch", 0.0)


def exact_scores(posts: Embeddings, seeds: Embeddings) -> NDArray[np.float64]:
    """The scores by their definition, in double precision."""

    def words(some: Embeddings) -> csr_matrix:
        rows = some.lexical
        weights = rows.weights.astype(np.float64)
        return csr_matrix((weights, rows.slots, rows.indptr), shape=(len(some), SLOTS))

    dense = posts.dense.astype(np.float64) @ seeds.dense.T.astype(np.float64)
    result: NDArray[np.float64] = (words(posts) @ words(seeds).T).toarray()
    return (1 - posts.mix) * dense + posts.mix * result


def same_rows(one: Embeddings, other: Embeddings) -> bool:
    words, others = one.lexical, other.lexical
    return (
        np.array_equal(one.dense, other.dense)
        and np.array_equal(words.indptr, others.indptr)
        and np.array_equal(words.slots, others.slots)
        and np.array_equal(words.weights, others.weights)
    )
