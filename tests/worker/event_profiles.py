"""Vectors and profiles of events over the words of the small encoder."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from encoder import Encoder
from encoder.text.clean import Article
from tests.worker.small_encoder import ARTICLES, small_encoder, value
from worker.seeds.profile import EventVector, Profile
from worker.seeds.record import Seed

MADE = {
    "at": "2026-11-22T10:00:00Z", "by": "anna", "method": "seeds, posts, background",
    "beta": 0.6, "gamma": 0.5, "posts": [["x", "17"], ["mastodon", "é"]], "labels": 3,
}  # fmt: skip


def vector_of(
    texts: Sequence[Article], against: Sequence[Article] = (), enc: Encoder | None = None
) -> EventVector:
    """The sum of some articles, less half of those that speak against it."""
    enc = enc or small_encoder()
    rows = enc.articles([*texts, *against]).as_vectors()
    sides = np.array([*[1.0] * len(texts), *[-0.5] * len(against)])
    both = sides @ rows.toarray()
    slots = np.flatnonzero(both[enc.dim :]).astype(np.int32)
    dense, words = both[: enc.dim].astype(np.float32), both[enc.dim :][slots].astype(np.float32)
    return EventVector.normalised(dense, slots, words)


def profile(event: str, seeds: dict[str, str], **changes: Any) -> dict[str, Any]:
    """The record of a profile of an event, learned from these articles by their ids."""
    record = {
        "event": event,
        "vectors": vector_of(list(seeds.values()), [ARTICLES["game"]]).encode(),
        "seeds": {name: Seed(name, "", text, event).version for name, text in seeds.items()},
        "model": small_encoder().digest,
        "made": MADE,
        "before": [],
    } | changes
    return {name: part for name, part in record.items() if part is not None}


def profile_value(event: str, seeds: dict[str, str], **changes: Any) -> bytes:
    """The same as the value of a record."""
    return value(**profile(event, seeds, **changes))


def profile_of(
    enc: Encoder, event: str, seeds: Mapping[str, tuple[str, str]], **changes: Any
) -> Profile:
    """A profile of an event that has learned nothing yet: the sum of its articles' vectors."""
    vector = vector_of(list(seeds.values()), enc=enc)
    versions = {name: Seed(name, *article, event).version for name, article in seeds.items()}
    return Profile(event, vector.encode(), versions, enc.digest, **changes)
