"""The Adaptive Siamese Transformer, trainable: token vectors, star and, if configured, residual."""

from typing import Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from encoder.errors import InputError
from encoder.model.config import AstConfig, Side
from encoder.model.star import AdaptiveStar, Attention, Texts
from encoder.model.weights import F32, POSITION_BUCKETS, Weights, position_buckets, shapes

LAST_PLACE = 2047  # from here on every position has the same weight
NEAREST = float(np.finfo(np.float32).eps)  # α - 1 keeps this distance from 0, where α leaves (1, 2]


class GatedMean(nn.Module):
    """The token vectors' mean, weighted by a gate per token and a weight by position, per side."""

    def __init__(self, config: AstConfig, vocabulary: int) -> None:
        super().__init__()
        sides = len(Side)
        if config.has_star:
            self.gain = nn.Parameter(torch.zeros(config.dim))
        self.log_gates = nn.Parameter(torch.zeros(sides, vocabulary))
        self.log_positions = nn.Parameter(torch.zeros(sides, POSITION_BUCKETS))
        self.buckets: Tensor
        buckets = torch.from_numpy(position_buckets(LAST_PLACE + 1))
        self.register_buffer("buckets", buckets, persistent=False)

    def forward(self, embedded: Tensor, ids: Tensor, offsets: Tensor, side: Side) -> Tensor:
        """The weighted mean of every text [n, d]; zero for a text without tokens."""
        texts = Texts.at(offsets, len(ids))
        place = torch.arange(len(ids), device=ids.device) - texts.spread(offsets[:-1])
        bucket = self.buckets[place.clamp(max=LAST_PLACE)]
        log_weight = self.log_gates[side][ids] + self.log_positions[side][bucket]  # [N]
        highest = texts.max(log_weight.detach().unsqueeze(1))  # [n, 1]
        weight = (log_weight.unsqueeze(1) - texts.spread(highest)).exp()  # [N, 1], at most 1
        return texts.sum(weight * embedded) / texts.sum(weight).clamp(min=1)


class Siamese(nn.Module):
    """Both sides of the pair: the same parameters, but for the gates and positions of each side."""

    def __init__(self, config: AstConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.zeros(vocabulary, config.dim))
        self.star = AdaptiveStar(config) if config.has_star else None
        self.residual = GatedMean(config, vocabulary) if config.residual else None

    def forward(self, ids: Tensor, offsets: Tensor, side: Side) -> Tensor:
        """y [n, d], not normalised, of the texts ids[offsets[i] : offsets[i + 1]]."""
        return self.read(nn.functional.embedding(ids, self.embedding), ids, offsets, side)

    def read(self, embedded: Tensor, ids: Tensor, offsets: Tensor, side: Side) -> Tensor:
        """y [n, d] of texts whose token vectors [N, d] have been looked up."""
        if self.residual is None:
            assert self.star is not None
            return cast(Tensor, self.star(embedded, offsets))
        mean = cast(Tensor, self.residual(embedded, ids, offsets, side))
        if self.star is None:
            return mean
        return mean + self.residual.gain * cast(Tensor, self.star(embedded, offsets))

    @classmethod
    def initial(cls, config: AstConfig, vectors: F32, seed: int = 0) -> Self:
        """A model to start training from: these token vectors, α from U(1, 2), a gain of 0."""
        if vectors.ndim != 2 or vectors.shape[1] != config.dim:
            found, expected = list(vectors.shape), f"[words, {config.dim}]"
            raise InputError(f"vectors: shape {found}, expected {expected}")
        model = cls(config, len(vectors))
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            model.embedding.copy_(torch.tensor(vectors))
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    nn.init.xavier_uniform_(module.weight, generator=draw)
                    nn.init.zeros_(module.bias)
                if isinstance(module, Attention):
                    share = torch.rand(config.heads, generator=draw)
                    module.raw_alpha.copy_(share.logit(0.01))
        return model

    @classmethod
    def from_weights(cls, weights: Weights) -> Self:
        """The same model, trainable."""
        model = cls(weights.config, len(weights.embedding))
        parameters = dict(model.named_parameters())
        with torch.no_grad():
            for name, value in weights.tensors().items():
                kept, raw = stored(name, torch.tensor(value))
                parameters[kept].copy_(raw)
        return model

    def weights(self) -> Weights:
        """The parameters as they are now, in the form that is saved and served."""
        parameters = dict(self.named_parameters())
        named = {}
        for name in shapes(self.config, len(self.embedding)):
            kept, _ = stored(name, torch.empty(0))
            named[name] = served(name, parameters[kept].detach().float().cpu().clone()).numpy()
        return Weights.from_tensors(self.config, named)


def stored(name: str, value: Tensor) -> tuple[str, Tensor]:
    """A weight's name and value as the parameter that is trained: α and gates before their bend."""
    if name.endswith(".alpha"):
        raw = (value.double() - 1).logit(NEAREST).to(value.dtype)
        return f"star.{name.removesuffix('alpha')}raw_alpha", raw
    if name in ("residual.gates", "residual.positions"):
        return name.replace("residual.", "residual.log_"), value.log()
    return (f"star.{name}" if name.startswith("layers.") else name), value


def served(name: str, raw: Tensor) -> Tensor:
    """The value of a weight from its trained parameter, inside its range also after rounding."""
    if name.endswith(".alpha"):
        return (raw.double().sigmoid() + 1).float().clamp(1 + NEAREST, 2)
    if name in ("residual.gates", "residual.positions"):
        limits = torch.finfo(raw.dtype)
        return raw.exp().clamp(limits.tiny, limits.max)
    return raw
