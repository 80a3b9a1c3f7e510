"""A small whole encoder, seeds over its words, and messages, for tests of the pure core."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

import encoder
from encoder import Embeddings
from encoder.model_directory import write_model
from encoder.score.lexical import SLOTS
from tests.encoder.small import WORDS as WORDS
from tests.encoder.small import small_model
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlReducer

ARTICLES = {
    "flood": "storm flood river city the river flood in the city",
    "game": "match game music the match of the game",
    "pets": "cat music a cat and the cat",
    "raid": "police fire in the city police",
}


@dataclass(frozen=True)
class Mail:
    value: bytes | None
    topic: str = "tweets"
    partition: int = 0
    offset: int = 0
    timestamp: int | None = 1_700_000_000_000
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = field(default=())


@cache
def small_encoder(mix: float = 0.6) -> encoder.Encoder:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        write_model(path, small_model(mix=mix))
        return encoder.load(path, device="cpu", threads=1)


def value(**keys: object) -> bytes:
    return json.dumps(keys).encode()


def mail(post_id: str, text: str, offset: int = 0, **more: object) -> Mail:
    return Mail(value(id=post_id, text=text, **more), offset=offset)


class ControlTopic(ControlReducer):
    """A control topic in memory, and what it says."""

    end = 0

    def put(self, key: bytes | None, value: bytes | None) -> None:
        record: Any = Mail(value, "seed-articles", offset=self.end, key=key)
        self.apply([record])
        self.end += 1


def book_of(**seeds: Mapping[str, object]) -> ControlTopic:
    book = ControlTopic()
    for name, keys in seeds.items():
        book.put(name.encode(), value(**keys))
    return book


def seed_set(threshold: float | None = 0.4, rate: float = 0.01, **more: object) -> SeedSet:
    """The set of the four articles above, each with `more` in its record."""
    book = book_of(**{name: {"text": text, **more} for name, text in ARTICLES.items()})
    return SeedEmbedder(small_encoder(), rate, threshold).make(book.snapshot())


def exact_scores(posts: Embeddings, seeds: Embeddings) -> NDArray[np.float64]:
    """The scores by their definition, in double precision."""

    def words(some: Embeddings) -> csr_matrix:
        rows = some.lexical
        weights = rows.weights.astype(np.float64)
        return csr_matrix((weights, rows.slots, rows.indptr), shape=(len(some), SLOTS))

    dense = posts.dense.astype(np.float64) @ seeds.dense.T.astype(np.float64)
    result: NDArray[np.float64] = (words(posts) @ words(seeds).T).toarray()
    return (1 - posts.mix) * dense + posts.mix * result


def same(one: SeedSet, other: SeedSet) -> bool:
    words, others = one.embeddings.lexical, other.embeddings.lexical
    parts = [(s.seeds, s.digest, s.refused, s.stale, s.paused) for s in (one, other)]
    return (
        parts[0] == parts[1]
        and np.array_equal(one.thresholds, other.thresholds)
        and np.array_equal(one.expiry, other.expiry)
        and np.array_equal(one.embeddings.dense, other.embeddings.dense)
        and np.array_equal(words.indptr, others.indptr)
        and np.array_equal(words.slots, others.slots)
        and np.array_equal(words.weights, others.weights)
    )
