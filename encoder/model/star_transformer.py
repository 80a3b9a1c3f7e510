"""The Adaptive Star Transformer: layers of a pretrained MPNet, cut to a ring and a relay.

The first token of a text is its relay: it sees every token, and every token sees it. The others see
their neighbours at distance -c … c. Attention is α-entmax with an α for each head, or softmax.
With no window and every layer this is MPNet itself, the teacher.

Texts are rows of one length L with a mask of the real tokens. In the shapes n is the number of
texts, h of heads, k the width of a head and w that of the model.
"""

import math
from collections.abc import Iterator
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from encoder.model.entmax import entmax
from encoder.model.star import single
from encoder.model.star_settings import (
    BUCKETS,
    EPSILON,
    FIRST_POSITION,
    POSITIONS,
    StarSettings,
    distance_buckets,
)


class Attention(nn.Module):
    """Attention over the tokens that each token may see."""

    def __init__(self, settings: StarSettings) -> None:
        super().__init__()
        width, self.heads = settings.width, settings.heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        # For each head the α of the relay and of the ring, as 1 + sigmoid.
        self.raw_alpha = nn.Parameter(torch.zeros(2, self.heads)) if settings.adaptive else None

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:  # [n, L, w], [n, h, L, L] -> [n, L, w]
        n, length, width = x.shape
        projected = self.query_key_value(x).view(n, length, 3, self.heads, -1)  # [n, L, 3, h, k]
        q, k, v = projected.permute(2, 0, 3, 1, 4)  # 3 × [n, h, L, k]
        logits = single(q @ k.mT) / math.sqrt(q.shape[3]) + bias  # [n, h, L, L]
        if self.raw_alpha is None:
            shares = logits.softmax(3)
        else:
            shares = self.shares(logits, self.raw_alpha)
        mixed = shares.to(v.dtype) @ v  # [n, h, L, k]
        return cast(Tensor, self.output(mixed.transpose(1, 2).reshape(n, length, width)))

    @staticmethod
    def shares(logits: Tensor, raw_alpha: Tensor) -> Tensor:  # [n, h, L, L] -> [n, h, L, L]
        """The share of each token in each token's sum; the relay is the first row."""
        relay, ring = 1 + torch.sigmoid(raw_alpha)  # 2 × [h]
        return torch.cat(
            [entmax(logits[:, :, :1], relay[:, None]), entmax(logits[:, :, 1:], ring[:, None])], 2
        )


class Layer(nn.Module):
    """Attention and a feed-forward part, each with a residual path and a norm."""

    def __init__(self, settings: StarSettings) -> None:
        super().__init__()
        width = settings.width
        self.attention = Attention(settings)
        self.attention_norm = nn.LayerNorm(width, EPSILON)
        self.widen, self.narrow = nn.Linear(width, settings.inner), nn.Linear(settings.inner, width)
        self.norm = nn.LayerNorm(width, EPSILON)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:  # [n, L, w], [n, h, L, L] -> [n, L, w]
        x = self.attention_norm(x + self.attention(x, bias))
        return cast(Tensor, self.norm(x + self.narrow(F.gelu(self.widen(x)))))


class StarTransformer(nn.Module):
    """Token ids [n, L] → text vectors [n, d], not normalised."""

    def __init__(self, settings: StarSettings) -> None:
        super().__init__()
        self.settings = settings
        width = settings.width
        self.tokens = nn.Embedding(settings.vocabulary, width)
        self.positions = nn.Embedding(POSITIONS, width)
        self.norm = nn.LayerNorm(width, EPSILON)
        self.distances = nn.Embedding(BUCKETS, settings.heads)
        self.layers = nn.ModuleList(Layer(settings) for _ in range(settings.layers))
        self.bridge = None if settings.bridge is None else nn.Linear(width, width)
        self.axes = nn.Linear(width, settings.dim, bias=False)

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:  # [n, L], bool [n, L] -> [n, d]
        mean = self.mean_state(ids, real).to(self.axes.weight.dtype)  # [n, w]
        return cast(Tensor, self.axes(mean))

    def mean_state(self, ids: Tensor, real: Tensor) -> Tensor:  # [n, L], bool [n, L] -> [n, w]
        """The unit mean of the last states of each text's tokens."""
        *_, x = self.states(ids, real)
        own = single(x) * real.unsqueeze(2)  # [n, L, w], zero for padding
        return F.normalize(own.sum(1), dim=1)

    def states(self, ids: Tensor, real: Tensor) -> Iterator[Tensor]:
        """The states of the tokens [n, L, w] before the first layer and after each."""
        places = torch.arange(ids.shape[1], device=ids.device) + FIRST_POSITION  # [L]
        x = self.norm(self.tokens(ids) + self.positions(places))  # [n, L, w]
        bias = self.bias(real).to(x.dtype)  # [n, h, L, L]
        yield x
        for number, layer in enumerate(self.layers):
            x = layer(x, bias)
            if self.bridge is not None and number == self.settings.bridge:
                x = x + self.bridge(x)
            yield x

    def bias(self, real: Tensor) -> Tensor:  # bool [n, L] -> [n, h, L, L]
        """What is added to the logits: by distance, and -inf where a token may not be seen."""
        length = real.shape[1]
        place = torch.arange(length, device=real.device)
        distance = place - place.unsqueeze(1)  # [L, L], of the token that is seen
        buckets = torch.from_numpy(distance_buckets(distance.cpu().numpy())).to(real.device)
        by_distance = self.distances(buckets).permute(2, 0, 1)  # [h, L, L]
        visible = real.unsqueeze(1)  # [n, 1, L]
        if self.settings.window is not None:
            near = distance.abs() <= self.settings.window
            relay = (place == 0) | (place == 0).unsqueeze(1)
            visible = visible & (near | relay)  # [n, L, L]
        bias: Tensor = by_distance.masked_fill(~visible.unsqueeze(1), -torch.inf)
        return bias
