"""What an event has learned, as one vector: dense axes and words, which may speak against a post.

It is scaled as `Embeddings.as_vectors` is, so that its product with a post there is the score.
"""

import base64
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from encoder.embeddings import UNIT_SLACK, Embeddings
from encoder.errors import InputError, MismatchError, one_line
from encoder.model.weights import F32, I32
from encoder.score.exact import pair_scores
from encoder.score.lexical import SLOTS, SparseRows
from encoder.support.readonly import frozen, kept

MOST_WORDS = 10_000  # so that a record with three versions before it has room in article_bytes
MOST_AXES = 2**13
MOST_CHARS = 2**18  # of a vector as text, more than so many words and axes take
KINDS = {"dense": np.float32, "slots": np.int32, "weights": np.float32}
REMEDY = "learn the event anew"


@dataclass(frozen=True, slots=True, eq=False)
class EventVector:
    """A vector of length one over the dense axes and the slots of words."""

    dense: F32  # [d]
    slots: I32  # [words], rising
    weights: F32  # [words], which may be negative

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype != kind or array.ndim != 1:
                raise InputError(f"vectors: {name} is no flat array of {kind.__name__}; {REMEDY}")
            object.__setattr__(self, name, kept(array))
        axes, words = len(self.dense), len(self.slots)
        if not 0 < axes <= MOST_AXES or words > MOST_WORDS or words != len(self.weights):
            raise InputError(
                f"vectors: {axes} axes, {words} slots and {len(self.weights)} weights; as many "
                f"weights as slots, {MOST_AXES} axes and {MOST_WORDS} slots are allowed; {REMEDY}"
            )
        self._sort()
        around = np.concatenate([[-1], self.slots, [SLOTS]])
        if not (around[1:] > around[:-1]).all():
            raise InputError(
                f"vectors: a slot stands twice, or is not from 0 to {SLOTS - 1}; {REMEDY}"
            )
        size = length_of(self.dense, self.weights)
        if not abs(size - 1) <= UNIT_SLACK:
            raise InputError(f"vectors: {size:.4g} long, together they have length 1; {REMEDY}")

    def __repr__(self) -> str:
        return f"EventVector(dim {len(self.dense)}, {len(self.slots)} words)"

    def _sort(self) -> None:
        """Bring the slots, which a record may have in any order, into that of posts' words."""
        if (np.diff(self.slots) < 0).any():
            order = np.argsort(self.slots, kind="stable")
            for name in ("slots", "weights"):
                object.__setattr__(self, name, frozen(getattr(self, name)[order]))

    @classmethod
    def of(cls, dense: F32, slots: I32, weights: F32) -> Self:
        """The vector of this direction, at length one, with the heaviest of its words."""
        heavy = np.sort(np.argsort(-np.abs(weights), kind="stable")[:MOST_WORDS])
        size = length_of(dense, weights[heavy])
        if not 0 < size < np.inf:
            raise InputError(f"vectors: {size:.4g} long, which is no direction")
        parts = (dense / size, weights[heavy] / size)
        one, other = (np.asarray(part, np.float32) for part in parts)
        return cls(one, slots[heavy], other)

    @classmethod
    def read(cls, text: object) -> Self:
        """The vector in a text that `encoded` made; a hostile one costs no more than its bytes."""
        if not isinstance(text, str):
            raise InputError("vectors: expected a string, base64 of safetensors")
        if len(text) > MOST_CHARS:
            raise InputError(f"vectors: {len(text)} characters, {MOST_CHARS} are allowed; {REMEDY}")
        named = arrays_in(text)
        if missing := [name for name in KINDS if name not in named]:
            raise InputError(f"vectors: {missing[0]} is missing; {REMEDY}")
        return cls(*(frozen(named[name].copy()) for name in KINDS))

    def encoded(self) -> str:
        """The vector as base64 of safetensors, the same on every machine."""
        return base64.b64encode(save({name: getattr(self, name) for name in KINDS})).decode()

    def as_row(self, mix: float, digest: str) -> Embeddings:
        """One row that posts of this model are compared with as with an article."""
        if not mix and len(self.slots):
            raise MismatchError(f"vectors: has words, which the model does not read; {REMEDY}")
        dense = self.dense[None] / np.float32(np.sqrt(1 - mix))  # [1, d]
        weights = self.weights / np.float32(np.sqrt(mix or 1))
        ends = np.array([0, len(self.slots)], np.int64)
        words = SparseRows(frozen(ends), self.slots, frozen(weights))
        return Embeddings(frozen(dense), words, mix, digest)

    def scores(self, posts: Embeddings) -> F32:
        """The scores of posts, to the bit as they are matched: [n]."""
        if len(self.dense) != posts.dense.shape[1]:
            raise MismatchError(
                f"vectors: {len(self.dense)} axes, the model has {posts.dense.shape[1]}; {REMEDY}"
            )
        row = self.as_row(posts.mix, posts.digest)
        pairs = np.stack([np.arange(len(posts)), np.zeros(len(posts), np.int64)], axis=1)
        halves = (posts.dense, posts.lexical), (row.dense, row.lexical)
        return pair_scores(*halves, posts.mix, pairs)


def arrays_in(text: str) -> dict[str, NDArray[Any]]:
    """The arrays in a text that is base64 of safetensors."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InputError(f"vectors: no base64 ({error}); {REMEDY}") from None
    try:
        return load(raw)
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError) as error:
        told = one_line(str(error), 99)
        raise InputError(f"vectors: no safetensors ({told}); {REMEDY}") from None


def length_of(dense: NDArray[np.floating], weights: NDArray[np.floating]) -> float:
    """The length of both halves together; NaN or infinite where a number is."""
    both = np.concatenate([dense, weights]).astype(np.float64)
    return float(np.sqrt(both @ both))
