"""What a star reads of texts at a time, the same for each of its readers.

A text is padded to a length that follows from its own, so what it is read with does not depend on
its batch. In the shapes n is the number of texts, L their padded length and h of heads.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from encoder.model.star_settings import FIRST_POSITION, StarSettings, distance_buckets
from encoder.model.star_weights import StarWeights
from encoder.model.weights import F32, I32, I64

# A text is padded to the next of them. Finer steps would pad less, but fewer texts share a length.
LENGTHS = (8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
HIDDEN = -1e9  # the logit of a token that is not seen


class Batch(NamedTuple):
    """Texts of one padded length, as tokens."""

    ids: I64  # [n, L]
    real: NDArray[np.bool_]  # [n, L]

    @property
    def unseen(self) -> F32:
        """What is added to the logits of padding: [n, 1, 1, L]."""
        return np.where(self.real, 0, HIDDEN).astype(np.float32)[:, None, None, :]

    @property
    def shares(self) -> F32:
        """The share of each token in its text's mean: [n, 1, L]."""
        shares = self.real / self.real.sum(1, keepdims=True)
        return np.asarray(shares[:, None, :], np.float32)


class Places:
    """What a star knows of the places of tokens, for each padded length."""

    def __init__(self, weights: StarWeights) -> None:
        settings, by_distance = weights.settings, weights["distances.weight"]
        self._biases = {length: attention_bias(settings, by_distance, length) for length in LENGTHS}
        self._positions: F32 = weights["positions.weight"][FIRST_POSITION:]

    def bias(self, length: int) -> F32:
        """What is added to the logits of every text of this length: [1, h, L, L]."""
        return self._biases[length]

    def positions(self, length: int) -> F32:
        return self._positions[:length]


def attention_bias(settings: StarSettings, by_distance: F32, length: int) -> F32:
    place = np.arange(length)
    distance = place - place[:, None]  # of the token that is seen
    bias = by_distance[distance_buckets(distance)].transpose(2, 0, 1)
    if settings.window is not None:
        near = np.abs(distance) <= settings.window
        relay = (place == 0) | (place == 0)[:, None]
        bias = np.where(near | relay, bias, HIDDEN)
    return np.ascontiguousarray(bias[None], np.float32)


def batches(texts: Sequence[I32], tokens: int) -> Iterator[list[int]]:
    """Rows of texts of one padded length, at most so many tokens at a time, padding included."""
    by_length: dict[int, list[int]] = {}
    for row, text in enumerate(texts):
        by_length.setdefault(padded_length(len(text)), []).append(row)
    for length, rows in sorted(by_length.items()):
        size = max(1, tokens // length)
        yield from (rows[i : i + size] for i in range(0, len(rows), size))


def padded_length(tokens: int) -> int:
    return next(length for length in LENGTHS if tokens <= length)


def padded_batch(texts: Sequence[I32]) -> Batch:
    """Texts of one padded length as a batch."""
    ids = np.zeros((len(texts), padded_length(max(map(len, texts)))), np.int64)
    sizes = np.array(list(map(len, texts)))
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = text
    return Batch(ids, np.arange(ids.shape[1]) < sizes[:, None])
