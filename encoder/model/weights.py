"""The parameters of a model as numpy arrays: what artifact, kernel, device and star exchange."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from encoder.errors import InputError
from encoder.model.config import AstConfig, Side

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

PROJECTIONS = ("query", "key", "value", "output")
POSITION_BUCKETS = 9


def position_buckets(count: int) -> I64:
    """The bucket of each of the first `count` positions: 0-7, 8-23, 24-55, … by powers of two."""
    octave = np.log2(1 + np.arange(count) / 8).astype(np.int64)
    return np.minimum(octave, POSITION_BUCKETS - 1)


@dataclass(frozen=True, slots=True)
class Linear:
    """One affine map, x → weight·x + bias."""

    weight: F32  # [out, in]
    bias: F32  # [out]


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """The four projections of one multi-head attention, and the α of each head."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    alpha: F32  # [heads], in (1, 2]


@dataclass(frozen=True, slots=True)
class Layer:
    """One round of the Star Transformer: the ring, then the star."""

    ring: AttentionWeights
    star: AttentionWeights


@dataclass(frozen=True, slots=True)
class Residual:
    """The gated mean of the token vectors, to which the star is added with a gain."""

    gain: F32  # [dim], of the star; empty without one
    gates: F32  # [sides, vocabulary], > 0
    positions: F32  # [sides, POSITION_BUCKETS], > 0


@dataclass(frozen=True, slots=True)
class Weights:
    """All parameters of one model, checked for shape, finiteness and range."""

    config: AstConfig
    embedding: F32  # [vocabulary, dim]
    layers: tuple[Layer, ...]
    residual: Residual | None = None

    def __post_init__(self) -> None:
        if self.config.residual != (self.residual is not None):
            raise InputError("residual: the settings and the weights disagree; use one model's")
        tensors = self.tensors()
        for name, shape in shapes(self.config, len(self.embedding)).items():
            refuse_unfit(name, tensors[name], shape)

    def tensors(self) -> dict[str, F32]:
        """Every parameter by name, as a model file holds it."""
        return {name: self._parameter(name) for name in shapes(self.config, len(self.embedding))}

    def _parameter(self, name: str) -> F32:
        found: Any = self
        for part in name.split("."):
            found = found[int(part)] if part.isdecimal() else getattr(found, part)
        return np.asarray(found)

    @classmethod
    def from_tensors(cls, config: AstConfig, named: Mapping[str, F32]) -> Self:
        """The parameters out of a model file's arrays; a missing or extra name is refused."""
        odd = set(named) ^ set(shapes(config, 1))
        if odd:
            raise InputError(
                f"weights: unknown or missing tensor {', '.join(map(repr, sorted(odd)))}"
            )

        def attention(prefix: str) -> AttentionWeights:
            linears = {
                p: Linear(named[f"{prefix}.{p}.weight"], named[f"{prefix}.{p}.bias"])
                for p in PROJECTIONS
            }
            return AttentionWeights(**linears, alpha=named[f"{prefix}.alpha"])

        layers = tuple(
            Layer(attention(f"layers.{i}.ring"), attention(f"layers.{i}.star"))
            for i in range(config.layers if config.has_star else 0)
        )
        residual = None
        if config.residual:
            gain = named["residual.gain"] if config.has_star else np.zeros(0, np.float32)
            residual = Residual(gain, named["residual.gates"], named["residual.positions"])
        return cls(config, named["embedding"], layers, residual)


def quantised_rows(rows: F32) -> tuple[NDArray[np.int8], F32]:
    """The rows in int8 and a scale for each: what a model file holds of the token vectors."""
    scales = (np.abs(rows).max(axis=1, initial=0) / 127).astype(np.float32)  # [n]
    safe = np.where(scales > 0, scales, 1)[:, None]
    return np.rint(rows / safe).astype(np.int8), scales


def shapes(config: AstConfig, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """The name and shape of every parameter of a model with these settings."""
    d, inner = config.dim, config.inner
    named: dict[str, tuple[int, ...]] = {"embedding": (vocabulary, d)}
    for i in range(config.layers if config.has_star else 0):
        for part in ("ring", "star"):
            named[f"layers.{i}.{part}.alpha"] = (config.heads,)
            for p in PROJECTIONS:
                out, into = (d, inner) if p == "output" else (inner, d)
                named[f"layers.{i}.{part}.{p}.weight"] = (out, into)
                named[f"layers.{i}.{part}.{p}.bias"] = (out,)
    if config.residual:
        if config.has_star:
            named["residual.gain"] = (d,)
        named["residual.gates"] = (len(Side), vocabulary)
        named["residual.positions"] = (len(Side), POSITION_BUCKETS)
    return named


def refuse_unfit(name: str, value: F32, shape: tuple[int, ...]) -> None:
    """Refuse an array of another shape or type, with a NaN, or outside its range."""
    if value.shape != shape or value.dtype != np.float32:
        raise InputError(
            f"{name}: {value.dtype} of shape {list(value.shape)}, expected float32 {list(shape)}"
        )
    if not np.isfinite(value).all():
        raise InputError(f"{name}: holds NaN or infinity; use a model that trained to an end")
    if name.endswith(".alpha") and not ((value > 1) & (value <= 2)).all():
        raise InputError(f"{name}: every α must lie in (1, 2]")
    if name in ("residual.gates", "residual.positions") and not (value > 0).all():
        raise InputError(f"{name}: every weight must be positive")


def random_weights(config: AstConfig, vocabulary: int, seed: int = 0) -> Weights:
    """Weights drawn at random, for tests and for measuring speed."""
    rng = np.random.default_rng(seed)

    def draw(name: str, shape: tuple[int, ...]) -> F32:
        if name.endswith(".alpha"):
            return rng.uniform(1.1, 2.0, shape).astype(np.float32)
        if name in ("residual.gates", "residual.positions"):
            return rng.uniform(0.2, 3.0, shape).astype(np.float32)
        scale = 1.0 if name == "embedding" else 1.5 * shape[-1] ** -0.5
        return (rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)).astype(np.float32)

    named = {name: draw(name, shape) for name, shape in shapes(config, vocabulary).items()}
    return Weights.from_tensors(config, named)
