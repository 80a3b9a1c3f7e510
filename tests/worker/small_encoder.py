"""A small whole encoder, seeds over its words, and messages, for tests of the pure core."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import encoder
from encoder.model_directory import write_model
from tests.encoder.small_model import WORDS as WORDS
from tests.encoder.small_model import exact_scores as exact_scores
from tests.encoder.small_model import same_rows, small_model
from worker.seeds.automatic import ThresholdRules
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
    return SeedEmbedder(small_encoder(), ThresholdRules(rate, threshold)).make(book.snapshot())


def same(one: SeedSet, other: SeedSet) -> bool:
    parts = [(s.seeds, s.digest, s.refused, s.stale, s.paused) for s in (one, other)]
    return (
        parts[0] == parts[1]
        and np.array_equal(one.thresholds, other.thresholds)
        and np.array_equal(one.expiry, other.expiry)
        and same_rows(one.embeddings, other.embeddings)
    )
