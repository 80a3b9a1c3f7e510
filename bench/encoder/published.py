"""The encoder as published: a padded batch with masks, eager PyTorch, `entmax_bisect`.

It is what the speed of ours is compared with. Two faults are left out, so that both compute the
same function: padding in the relay's mean, and padding as a neighbour. In the shapes b is the
number of texts, n that of the longest's tokens, h of heads, k the width of a head.
"""

import math
from typing import cast

import numpy as np
import torch
from entmax import entmax_bisect
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

from encoder.errors import InputError
from encoder.model.config import Side
from encoder.model.siamese import Siamese
from encoder.model.star import Attention
from encoder.model.weights import F32, I32, I64, Weights


class Published:
    """The published form behind the interface of a backend; it has no residual."""

    def __init__(self, weights: Weights, dtype: torch.dtype = torch.float32) -> None:
        if weights.residual is not None:
            raise InputError("residual: the published form has none; use a model without it")
        self.model = Siamese.from_weights(weights).to(dtype)
        if self.model.star is None:
            raise InputError("star: the published form has one; use a model with it")
        self._layers = self.model.star.layers

    @torch.no_grad()
    def forward(self, ids: I32, offsets: I64, side: Side = Side.POST) -> F32 | NDArray[np.float64]:
        """The vectors of the texts between consecutive offsets, as one padded batch: [b, d]."""
        padded, real = padded_batch(ids, offsets)
        tokens = embedding(padded, self.model.embedding)  # [b, n, d]
        seen = real.unsqueeze(-1)  # [b, n, 1]
        relay = (tokens * seen).sum(1) / seen.sum(1).clamp(min=1)  # [b, d]
        nodes = tokens
        for layer in self._layers:
            nodes = ring(cast(Attention, layer.ring), nodes, tokens, relay, real)
            relay = star(cast(Attention, layer.star), nodes, relay, real)
        highest = nodes.masked_fill(~seen, -math.inf).amax(1)  # [b, d]
        return ((highest + relay) / 2).masked_fill(~seen.any(1), 0).numpy()


def ring(part: Attention, h: Tensor, tokens: Tensor, relay: Tensor, real: Tensor) -> Tensor:
    """Every token attends to its neighbours, its first state and the relay: [b, n, d]."""
    q = heads(part, part.query, h)  # [b, n, h, k]
    keys, values = (
        [
            *windows(heads(part, by, h), part.window),
            heads(part, by, tokens),
            heads(part, by, relay).unsqueeze(1),
        ]
        for by in (part.key, part.value)
    )  # m = 2c+3 tensors of [b, n, h, k] each
    logits = torch.stack([(q * key).sum(-1) for key in keys], dim=-1)  # [b, n, h, m]
    inside = torch.stack(windows(real, part.window), dim=-1)  # [b, n, 2c+1]
    p = shares(part, logits, pad(inside, (0, 2), value=True).unsqueeze(2))
    mixed = torch.zeros_like(q)
    for j, value in enumerate(values):
        mixed = mixed + p[..., j, None] * value
    return cast(Tensor, part.output(mixed.flatten(-2)))


def star(part: Attention, nodes: Tensor, relay: Tensor, real: Tensor) -> Tensor:
    """The relay attends to itself and to every token: [b, d]."""
    context = torch.cat([relay.unsqueeze(1), nodes], dim=1)  # [b, 1+n, d]
    q = heads(part, part.query, relay)  # [b, h, k]
    keys, values = (heads(part, by, context).transpose(1, 2) for by in (part.key, part.value))
    logits = (keys @ q.unsqueeze(-1)).squeeze(-1)  # [b, h, 1+n]
    p = shares(part, logits, pad(real, (1, 0), value=True).unsqueeze(1))
    mixed = (p.unsqueeze(-2) @ values).squeeze(-2)  # [b, h, k]
    return cast(Tensor, part.output(mixed.flatten(-2)))


def heads(part: Attention, by: nn.Linear, x: Tensor) -> Tensor:
    """Project and split into heads: [..., d] → [..., h, k]."""
    return cast(Tensor, by(x)).view(*x.shape[:-1], part.heads, part.head_dim)


def shares(part: Attention, logits: Tensor, visible: Tensor) -> Tensor:
    """α-entmax per head over what is visible: [..., h, m], [..., 1, m] → [..., h, m]."""
    masked = (logits / math.sqrt(part.head_dim)).masked_fill(~visible, -math.inf)
    return cast(Tensor, entmax_bisect(masked, alpha=part.alpha.view(-1, 1), dim=-1))


def windows(x: Tensor, c: int) -> list[Tensor]:
    """The neighbours of every token at -c … c: 2c+1 of [b, n, ...]."""
    wider = torch.zeros(len(x), x.shape[1] + 2 * c, *x.shape[2:], dtype=x.dtype)
    wider[:, c : c + x.shape[1]] = x
    return [wider[:, j : j + x.shape[1]] for j in range(2 * c + 1)]


def padded_batch(ids: I32, offsets: I64) -> tuple[Tensor, Tensor]:
    """Ragged ids as a rectangle filled up with id 0, and where its tokens are real: [b, n] each."""
    counts = np.diff(offsets)
    real = np.arange(max(1, counts.max(initial=0))) < counts[:, None]
    padded = np.zeros(real.shape, np.int64)
    padded[real] = ids[offsets[0] : offsets[-1]]
    return torch.from_numpy(padded), torch.from_numpy(real)
