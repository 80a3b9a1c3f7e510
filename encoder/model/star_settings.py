"""The size of a star transformer, and what its readers share without PyTorch."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Self

import msgspec
import numpy as np

from encoder.errors import InputError
from encoder.model.weights import I64

POSITIONS = 514
FIRST_POSITION = 2  # rows 0 and 1 of the table belong to padding
MAX_SIZE, MAX_LAYERS = 2**20, 48
BUCKETS = 32  # of distances between two tokens, half for each direction
EXACT_DISTANCES = 8  # nearer ones have a bucket each; farther ones share them by their logarithm
FARTHEST = 128
EPSILON = 1e-5  # of the layer norms
FINE = 256  # steps of an activation's fine code in one of its coarse code
BEFORE, AFTER = 4, 1  # entries of MPNet's vocabulary around the word pieces, which are BERT's


@dataclass(frozen=True, slots=True, kw_only=True)
class StarSettings:
    """The size of the transformer; `window` is c, None lets every token see every other.

    After layer number `bridge` a linear map stands for layers of the pretrained model left out.
    """

    vocabulary: int = 30527
    layers: int = 6
    width: int = 768
    heads: int = 12
    inner: int = 3072
    window: int | None = 16
    bridge: int | None = None
    dim: int = 384  # of the vectors it gives
    adaptive: bool = False  # α-entmax in the place of softmax

    def __post_init__(self) -> None:
        sizes = (self.vocabulary, self.layers, self.width, self.heads, self.inner, self.dim)
        if min(sizes) < 1 or max(sizes) > MAX_SIZE or self.layers > MAX_LAYERS:
            raise InputError(f"star: {self} has a size below 1, or too large a one")
        if self.width % self.heads:
            raise InputError(f"star: {self.heads} heads do not share a width of {self.width}")
        if self.window is not None and self.window < 1:
            raise InputError(f"star: window {self.window} is below 1")
        if self.bridge is not None and not 0 <= self.bridge < self.layers:
            raise InputError(f"star: bridge {self.bridge} is not the number of a layer")

    @property
    def pieces(self) -> int:
        """The number of word pieces."""
        return self.vocabulary - BEFORE - AFTER

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Create settings from a manifest; an unknown or missing key raises InputError."""
        if odd := set(values) ^ set(cls.__dataclass_fields__):
            raise InputError(f"star: unknown or missing setting {', '.join(sorted(odd))}")
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise InputError(f"star: {error}") from error


def distance_buckets(distance: I64) -> I64:
    """The bucket of signed distances, as MPNet was pretrained with."""
    half = BUCKETS // 2
    far = np.abs(distance)
    octaves = np.log(np.maximum(far, 1) / EXACT_DISTANCES) / math.log(FARTHEST / EXACT_DISTANCES)
    shared = EXACT_DISTANCES + (octaves * (half - EXACT_DISTANCES)).astype(np.int64)
    bucket = np.where(far < EXACT_DISTANCES, far, np.minimum(shared, half - 1))
    result: I64 = bucket + half * (distance > 0)
    return result
