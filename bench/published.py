"""The encoder as published: a padded batch with masks, eager PyTorch, `entmax_bisect`.

It is what the speed of ours is compared with. Two faults are left out, so that both compute the
same function: padding in the relay's mean, and padding as a neighbour.
"""

import math

import numpy as np
import torch
from entmax import entmax_bisect
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear, pad

from encoder.errors import InputError
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64, AttentionWeights, Linear, Weights


class Projections:
    """One attention's four affine maps and its α, as tensors."""

    def __init__(self, attention: AttentionWeights, dtype: torch.dtype) -> None:
        self.query = _pair(attention.query, dtype)
        self.key = _pair(attention.key, dtype)
        self.value = _pair(attention.value, dtype)
        self.output = _pair(attention.output, dtype)
        self.alpha = torch.from_numpy(attention.alpha).to(dtype)  # [h]
        self.heads = len(attention.alpha)
        self.width = len(attention.query.bias) // self.heads

    def split(self, part: tuple[Tensor, Tensor], x: Tensor) -> Tensor:
        """Project and split into heads: [..., d] → [..., h, k]."""
        return linear(x, *part).view(*x.shape[:-1], self.heads, self.width)

    def attention(self, logits: Tensor, visible: Tensor) -> Tensor:
        """α-entmax per head over what is visible: [..., h, m], [..., 1, m] → [..., h, m]."""
        masked = (logits / math.sqrt(self.width)).masked_fill(~visible, -math.inf)
        p: Tensor = entmax_bisect(masked, alpha=self.alpha.view(-1, 1), dim=-1)
        return p


class Published:
    """The published form behind the interface of a backend; it has no residual."""

    def __init__(self, weights: Weights, dtype: torch.dtype = torch.float32) -> None:
        if weights.residual is not None:
            raise InputError("residual: the published form has none; use a model without it")
        self.window = weights.config.window
        self.embedding = torch.from_numpy(weights.embedding).to(dtype)
        self.layers = [
            (Projections(layer.ring, dtype), Projections(layer.star, dtype))
            for layer in weights.layers
        ]

    @torch.no_grad()
    def forward(self, ids: I32, offsets: I64, side: Side = Side.POST) -> F32 | NDArray[np.float64]:
        """The vectors of the texts between consecutive offsets, as one padded batch: [n, d]."""
        padded, real = padded_batch(ids, offsets)
        tokens = self.embedding[padded]  # [b, n, d]
        seen = real.unsqueeze(-1)  # [b, n, 1]
        relay = (tokens * seen).sum(1) / seen.sum(1).clamp(min=1)  # [b, d]
        nodes = tokens
        for ring, star in self.layers:
            nodes = self._ring(ring, nodes, tokens, relay, real)
            relay = self._star(star, nodes, relay, real)
        highest = nodes.masked_fill(~seen, -math.inf).amax(1)  # [b, d]
        y = (highest + relay) / 2
        return y.masked_fill(~seen.any(1), 0).numpy()

    def _ring(
        self, part: Projections, h: Tensor, tokens: Tensor, relay: Tensor, real: Tensor
    ) -> Tensor:
        q = part.split(part.query, h)  # [b, n, h, k]
        keys, values = (
            [
                *self._windows(part.split(by, h)),
                part.split(by, tokens),
                part.split(by, relay).unsqueeze(1),
            ]
            for by in (part.key, part.value)
        )  # m = 2c+3 tensors of [b, n, h, k] each
        logits = torch.stack([(q * key).sum(-1) for key in keys], dim=-1)  # [b, n, h, m]
        inside = torch.stack(self._windows(real), dim=-1)  # [b, n, 2c+1]
        visible = pad(inside, (0, 2), value=True).unsqueeze(2)  # [b, n, 1, m]
        p = part.attention(logits, visible)
        mixed = torch.zeros_like(q)
        for j, value in enumerate(values):
            mixed = mixed + p[..., j, None] * value
        return linear(mixed.flatten(-2), *part.output)

    def _windows(self, x: Tensor) -> list[Tensor]:
        c, n = self.window, x.shape[1]
        wider = torch.zeros(len(x), n + 2 * c, *x.shape[2:], dtype=x.dtype)
        wider[:, c : c + n] = x
        return [wider[:, j : j + n] for j in range(2 * c + 1)]  # 2c+1 of [b, n, ...]

    def _star(self, part: Projections, nodes: Tensor, relay: Tensor, real: Tensor) -> Tensor:
        context = torch.cat([relay.unsqueeze(1), nodes], dim=1)  # [b, 1+n, d]
        q = part.split(part.query, relay)  # [b, h, k]
        keys = part.split(part.key, context).transpose(1, 2)  # [b, h, 1+n, k]
        values = part.split(part.value, context).transpose(1, 2)
        logits = (keys @ q.unsqueeze(-1)).squeeze(-1)  # [b, h, 1+n]
        p = part.attention(logits, pad(real, (1, 0), value=True).unsqueeze(1))
        mixed = (p.unsqueeze(-2) @ values).squeeze(-2)  # [b, h, k]
        return linear(mixed.flatten(-2), *part.output)


def padded_batch(ids: I32, offsets: I64) -> tuple[Tensor, Tensor]:
    """Ragged ids as a rectangle filled up with id 0, and where its tokens are real: [b, n] each."""
    counts = np.diff(offsets)
    real = np.arange(max(1, counts.max(initial=0))) < counts[:, None]
    padded = np.zeros(real.shape, np.int64)
    padded[real] = ids[offsets[0] : offsets[-1]]
    return torch.from_numpy(padded), torch.from_numpy(real)


def _pair(part: Linear, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(part.weight).to(dtype), torch.from_numpy(part.bias).to(dtype)
