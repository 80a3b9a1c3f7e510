"""The parameters of a model as numpy arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from encoder.errors import InputError
from encoder.model.config import AstConfig, Side

I8 = NDArray[np.int8]
F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

CODES, SCALES = "embedding.int8", "embedding.scale"
PROJECTIONS = ("query", "key", "value", "output")
POSITION_BUCKETS = 9


def position_buckets(count: int) -> I64:
    """The bucket of each of the first `count` positions: 0-7, 8-23, 24-55, … by powers of two."""
    octave = np.log2(1 + np.arange(count) / 8).astype(np.int64)
    return np.minimum(octave, POSITION_BUCKETS - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """All parameters of one model by name, checked for shape, finiteness and range.

    Token vectors are in int8 with a scale for each, as in the model file.
    """

    config: AstConfig
    tensors: Mapping[str, NDArray[Any]]

    def __post_init__(self) -> None:
        rows = len(self.tensors.get(CODES, ()))
        expected = shapes(self.config, rows)
        if odd := set(self.tensors) ^ set(expected):
            raise InputError(
                f"weights: unknown or missing tensor {', '.join(map(repr, sorted(odd)))}"
            )
        for name, shape in expected.items():
            refuse_unfit(name, self.tensors[name], shape)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.tensors[name]

    @property
    def vocabulary(self) -> int:
        return len(self.tensors[CODES])

    @property
    def embedding(self) -> F32:
        """The token vectors [vocabulary, dim] in float32, computed at each call."""
        return dequantise_rows(self.tensors[CODES], self.tensors[SCALES])


LARGEST_CODE = 31  # of a row: codes of six bits, which take less in a compressed file


def quantise_rows(rows: F32) -> tuple[I8, F32]:
    """Quantise rows to int8 with one scale each."""
    scales = (np.abs(rows).max(axis=1, initial=0) / LARGEST_CODE).astype(np.float32)  # [n]
    safe = np.where(scales > 0, scales, 1)[:, None]
    return np.rint(rows / safe).astype(np.int8), scales


def dequantise_rows(rows: I8, scales: F32) -> F32:
    if rows.dtype != np.int8 or rows.ndim != 2 or scales.shape != rows.shape[:1]:
        raise InputError(f"{rows.dtype} {rows.shape} by {scales.shape}: no int8 rows with a scale")
    return np.asarray(rows * scales[:, None], dtype=np.float32)


def shapes(config: AstConfig, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """The name and shape of every parameter of a model with these settings.

    `residual` is the gated mean, to which the star is added with a gain.
    """
    d, inner = config.dim, config.inner
    shape_of: dict[str, tuple[int, ...]] = {CODES: (vocabulary, d), SCALES: (vocabulary,)}
    for i in range(config.layers if config.star == "paper" else 0):
        for part in ("ring", "star"):
            shape_of[f"layers.{i}.{part}.alpha"] = (config.heads,)
            for p in PROJECTIONS:
                out, into = (d, inner) if p == "output" else (inner, d)
                shape_of[f"layers.{i}.{part}.{p}.weight"] = (out, into)
                shape_of[f"layers.{i}.{part}.{p}.bias"] = (out,)
    if config.residual:
        if config.star == "paper":
            shape_of["residual.gain"] = (d,)
        shape_of["residual.gates"] = (len(Side), vocabulary)
        shape_of["residual.positions"] = (len(Side), POSITION_BUCKETS)
    return shape_of


def refuse_unfit(name: str, value: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Raise InputError for a wrong shape or type, a NaN, or a value outside the range."""
    kind = "int8" if name == CODES else "float32"
    if value.shape != shape or value.dtype != kind:
        raise InputError(
            f"{name}: {value.dtype} of shape {list(value.shape)}, expected {kind} {list(shape)}"
        )
    if not np.isfinite(value).all():
        raise InputError(f"{name}: holds NaN or infinity; use a model that trained to an end")
    if name.endswith(".alpha") and not ((value > 1) & (value <= 2)).all():
        raise InputError(f"{name}: every α must lie in (1, 2]")
    if name in ("residual.gates", "residual.positions") and not (value > 0).all():
        raise InputError(f"{name}: every weight must be positive")


def random_weights(config: AstConfig, vocabulary: int, seed: int = 0) -> Weights:
    """Random weights, for tests and benchmarks."""
    rng = np.random.default_rng(seed)

    def draw(name: str, shape: tuple[int, ...]) -> F32:
        if name.endswith(".alpha"):
            return rng.uniform(1.1, 2.0, shape).astype(np.float32)
        if name in ("residual.gates", "residual.positions"):
            return rng.uniform(0.2, 3.0, shape).astype(np.float32)
        scale = 1.0 if name == "embedding" else 1.5 * shape[-1] ** -0.5
        return (rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)).astype(np.float32)

    shape_of = shapes(config, vocabulary)
    rows = draw("embedding", shape_of.pop(CODES))
    shape_of.pop(SCALES)
    tensors: dict[str, NDArray[Any]] = {name: draw(name, shape) for name, shape in shape_of.items()}
    tensors[CODES], tensors[SCALES] = quantise_rows(rows)
    return Weights(config, tensors)
