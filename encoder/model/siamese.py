"""The Adaptive Siamese Transformer, trainable: token vectors, gated mean and star."""

from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from encoder.errors import InputError
from encoder.model.config import AstConfig, Side
from encoder.model.star import AdaptiveStar, Attention, Texts
from encoder.model.weights import (
    CODES,
    F32,
    POSITION_BUCKETS,
    SCALES,
    Weights,
    position_buckets,
    quantise_rows,
    shapes,
)

LAST_POSITION = 2047  # later positions have the same weight
# α - 1 keeps this distance from 0, where α leaves (1, 2].
MIN_ALPHA_DISTANCE = float(np.finfo(np.float32).eps)


class GatedMean(nn.Module):
    """The token vectors' mean, weighted by a gate per token and a weight by position, per side."""

    def __init__(self, config: AstConfig, vocabulary: int) -> None:
        super().__init__()
        sides = len(Side)
        if config.star == "paper":
            self.gain = nn.Parameter(torch.zeros(config.dim))
        self.log_gates = nn.Parameter(torch.zeros(sides, vocabulary))
        self.log_positions = nn.Parameter(torch.zeros(sides, POSITION_BUCKETS))
        self.buckets: Tensor
        buckets = torch.from_numpy(position_buckets(LAST_POSITION + 1))
        self.register_buffer("buckets", buckets, persistent=False)

    def forward(self, vectors: Tensor, ids: Tensor, offsets: Tensor, side: Side) -> Tensor:
        """The weighted mean of every text [n, d]; zero for a text without tokens."""
        texts = Texts.at(offsets, len(ids))
        log_weight = self.log_weight(ids, offsets, texts, side)
        highest = texts.max(log_weight.detach().unsqueeze(1))  # [n, 1]
        weight = (log_weight.unsqueeze(1) - texts.spread(highest)).exp()  # [N, 1], at most 1
        return texts.sum(weight * vectors) / texts.sum(weight).clamp(min=1)

    def log_weight(self, ids: Tensor, offsets: Tensor, texts: Texts, side: Side) -> Tensor:
        """The logarithm of each token's weight by its gate and position: [N]."""
        place = torch.arange(len(ids), device=ids.device) - texts.spread(offsets[:-1])
        bucket = self.buckets[place.clamp(max=LAST_POSITION)]
        return self.log_gates[side][ids] + self.log_positions[side][bucket]


class Siamese(nn.Module):
    """Both sides of the pair: shared parameters except gates and positions."""

    def __init__(self, config: AstConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.zeros(vocabulary, config.dim))
        self.star = AdaptiveStar(config) if config.star == "paper" else None
        self.residual = GatedMean(config, vocabulary) if config.residual else None

    def forward(self, ids: Tensor, offsets: Tensor, side: Side) -> Tensor:
        """y [n, d], not normalised, of the texts ids[offsets[i] : offsets[i + 1]]."""
        return self.read(nn.functional.embedding(ids, self.embedding), ids, offsets, side)

    def read(self, vectors: Tensor, ids: Tensor, offsets: Tensor, side: Side) -> Tensor:
        """Compute y [n, d] from the token vectors [N, d]."""
        if self.residual is None:
            assert self.star is not None
            return cast(Tensor, self.star(vectors, offsets))
        mean = cast(Tensor, self.residual(vectors, ids, offsets, side))
        if self.star is None:
            return mean
        return mean + self.residual.gain * cast(Tensor, self.star(vectors, offsets))

    @classmethod
    def initial(cls, config: AstConfig, vectors: F32, seed: int = 0) -> Self:
        """Create a model to train: these token vectors, α from U(1, 2), gain 0."""
        if vectors.ndim != 2 or vectors.shape[1] != config.dim:
            shape, expected = list(vectors.shape), f"[words, {config.dim}]"
            raise InputError(f"vectors: shape {shape}, expected {expected}")
        model = cls(config, len(vectors))
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            model.embedding.copy_(torch.tensor(vectors))
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    nn.init.xavier_uniform_(module.weight, generator=draw)
                    nn.init.zeros_(module.bias)
                if isinstance(module, Attention):
                    share = torch.rand(module.raw_alpha.shape, generator=draw)
                    module.raw_alpha.copy_(share.logit(0.01))
        return model

    @classmethod
    def from_weights(cls, weights: Weights) -> Self:
        model = cls(weights.config, weights.vocabulary)
        parameters = dict(model.named_parameters())
        with torch.no_grad():
            model.embedding.copy_(torch.from_numpy(weights.embedding))
            for name, value in weights.tensors.items():
                if name in (CODES, SCALES):
                    continue
                parameter, raw = to_parameter(name, torch.tensor(value))
                parameters[parameter].copy_(raw)
        return model

    def weights(self) -> Weights:
        """Convert the parameters to the stored form."""
        parameters = dict(self.named_parameters())
        rows = self.embedding.detach().float().cpu().numpy()
        codes, scales = quantise_rows(rows)
        tensors: dict[str, NDArray[Any]] = {CODES: codes, SCALES: scales}
        for name in shapes(self.config, len(rows)):
            if name in tensors:
                continue
            parameter, _ = to_parameter(name, torch.empty(0))
            raw = parameters[parameter].detach().float().cpu().clone()
            tensors[name] = from_parameter(name, raw).numpy()
        return Weights(self.config, tensors)


def to_parameter(name: str, value: Tensor) -> tuple[str, Tensor]:
    """Convert a stored weight to a parameter: α and gates before their nonlinearity."""
    if name.endswith(".alpha"):
        raw = (value.double() - 1).logit(MIN_ALPHA_DISTANCE).to(value.dtype)
        name, value = f"{name.removesuffix('alpha')}raw_alpha", raw
    if name in ("residual.gates", "residual.positions"):
        return name.replace("residual.", "residual.log_"), value.log()
    return (f"star.{name}" if name.startswith("layers.") else name), value


def from_parameter(name: str, raw: Tensor) -> Tensor:
    """Convert a parameter to the stored weight, clamped to its range."""
    if name.endswith(".alpha"):
        return (raw.double().sigmoid() + 1).float().clamp(1 + MIN_ALPHA_DISTANCE, 2)
    if name in ("residual.gates", "residual.positions"):
        limits = torch.finfo(raw.dtype)
        return raw.exp().clamp(limits.tiny, limits.max)
    return raw
