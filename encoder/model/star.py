"""The adaptive Star Transformer as published: ragged, trainable, of any size.

The texts of a batch follow one another in flat arrays, with the offsets where each begins. There is
no padding, so a text's vector cannot depend on its neighbours. In the shapes N is the number of the
batch's tokens, n of its texts, h of heads, k the width of a head and d that of the model.
"""

import math
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from encoder.model.config import AstConfig
from encoder.model.entmax import entmax, entmax_ragged


@dataclass(frozen=True, slots=True)
class Texts:
    """The text of each token."""

    count: int  # n
    tokens: int  # N
    lengths: Tensor  # int64 [n]
    text: Tensor  # int64 [N]

    @classmethod
    def at(cls, offsets: Tensor, tokens: int) -> "Texts":
        """Create from the offsets [n+1] of the texts."""
        lengths = offsets.diff()
        numbers = torch.arange(len(lengths), device=offsets.device)
        text = torch.repeat_interleave(numbers, lengths, output_size=tokens)
        return cls(len(lengths), tokens, lengths, text)

    def sum(self, x: Tensor) -> Tensor:  # [N, …] -> [n, …]
        if x.is_cuda and len(x):  # index_add would round in a different order at each call
            rows = torch.segment_reduce(
                x.reshape(len(x), -1), "sum", lengths=self.lengths, unsafe=True, initial=0
            )
            return rows.view(self.count, *x.shape[1:])
        return x.new_zeros(self.count, *x.shape[1:]).index_add(0, self.text, x)

    def mean(self, x: Tensor) -> Tensor:  # [N, d] -> [n, d]
        """The mean over each text's tokens; zero for a text without any."""
        return self.sum(x) / self.lengths.clamp(min=1).unsqueeze(1)

    def max(self, x: Tensor) -> Tensor:  # [N, d] -> [n, d]
        """The maximum over each text's tokens; zero for a text without any."""
        index = self.text.unsqueeze(1).expand_as(x)
        zeros = x.new_zeros(self.count, x.shape[1])
        return zeros.scatter_reduce(0, index, x, "amax", include_self=False)

    def spread(self, x: Tensor) -> Tensor:  # [n, …] -> [N, …]
        """Each text's value for each of its tokens."""
        return x.index_select(0, self.text)

    def outside(self, window: int) -> Tensor:  # [2c+1, N, 1]
        """Whether a token's neighbour at distance -c … c is in another text."""
        padded = F.pad(self.text, (window, window), value=-1)
        return torch.stack([near != self.text for near in neighbours(padded, window)]).unsqueeze(2)


def neighbours(padded: Tensor, window: int) -> list[Tensor]:
    """Views of an array [c + N + c, …] in which row i is the neighbour of token i at -c … c."""
    tokens = len(padded) - 2 * window
    return [padded[j : j + tokens] for j in range(2 * window + 1)]


class Attention(nn.Module):
    """The projections shared by ring and star, and an α in (1, 2) for every head."""

    def __init__(self, config: AstConfig) -> None:
        super().__init__()
        self.heads, self.head_dim, self.window = config.heads, config.head_dim, config.window
        self.query = nn.Linear(config.dim, config.inner)
        self.key = nn.Linear(config.dim, config.inner)
        self.value = nn.Linear(config.dim, config.inner)
        self.output = nn.Linear(config.inner, config.dim)
        self.raw_alpha = nn.Parameter(torch.zeros(config.heads))
        self.shares = nn.Identity()  # explanations hook the attention here

    @property
    def alpha(self) -> Tensor:  # [h]
        """α = 1 + sigmoid(raw): it approaches softmax and sparsemax but stays between."""
        return torch.sigmoid(self.raw_alpha) + 1

    def queries(self, x: Tensor) -> Tensor:  # [N, d] -> [N, h, k]
        """Queries, scaled so that logits keep their spread."""
        return self.split(self.query(x)) / math.sqrt(self.head_dim)

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:  # [N, d] -> 2 × [N, h, k]
        return self.split(self.key(x)), self.split(self.value(x))

    def split(self, x: Tensor) -> Tensor:  # [N, h·k] -> [N, h, k]
        return x.view(len(x), self.heads, self.head_dim)

    def join(self, x: Tensor) -> Tensor:  # [N, h, k] -> [N, d]
        """Concatenate the heads and project."""
        return cast(Tensor, self.output(x.flatten(1)))


class Ring(Attention):
    """Every token attends to its neighbours, itself, its first state and the relay."""

    def forward(self, nodes: Tensor, relay: Tensor, first: Tensor, texts: Texts) -> Tensor:
        """The tokens' new states [N, d]."""
        q = self.queries(nodes)  # [N, h, k]
        near = self.keys_values(nodes)
        own = near if first is nodes else self.keys_values(first)
        hub = (texts.spread(x) for x in self.keys_values(relay))
        # Lists of 2c+3, each [N, h, k].
        keys, values = ([*self.around(x), e, s] for x, e, s in zip(near, own, hub, strict=True))
        logits = single(torch.stack([(q * k).sum(2) for k in keys]))  # [2c+3, N, h]
        around = texts.outside(self.window)
        outside = torch.cat([around, around.new_zeros(2, *around.shape[1:])])  # [2c+3, N, 1]
        p = self.shares(entmax(logits.masked_fill(outside, -torch.inf), self.alpha, dim=0))
        return self.join(mix(p, values))

    def around(self, x: Tensor) -> list[Tensor]:
        """The neighbours' rows at -c … c."""
        return neighbours(F.pad(x, (0, 0, 0, 0, self.window, self.window)), self.window)


def single(x: Tensor) -> Tensor:
    """Convert to at least single precision, for attention weights and their sums."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def mix(p: Tensor, values: list[Tensor]) -> Tensor:  # [m, N, h], m × [N, h, k] -> [N, h, k]
    """The weighted sum of the values."""
    result = p[0].unsqueeze(2) * values[0]
    for share, value in zip(p[1:], values[1:], strict=True):
        result = torch.addcmul(result, share.unsqueeze(2), value)
    return result


class Star(Attention):
    """The relay attends to itself and to every token of its text."""

    def forward(self, nodes: Tensor, relay: Tensor, texts: Texts) -> Tensor:
        """The relays' new states [n, d]."""
        q = self.queries(relay)  # [n, h, k]
        own_k, own_v = self.keys_values(relay)  # [n, h, k]
        k, v = self.keys_values(nodes)  # [N, h, k]
        logits = single(torch.cat([(q * own_k).sum(2), (texts.spread(q) * k).sum(2)]))  # [n+N, h]
        member = torch.cat([torch.arange(texts.count, device=logits.device), texts.text])
        p = self.shares(entmax_ragged(logits, self.alpha, member, texts.count)).unsqueeze(2)
        own_p, p = p[: texts.count], p[texts.count :]
        return self.join(own_p * own_v + texts.sum(p * v))


class Round(nn.Module):
    """One layer: update all tokens from the old states, then the relay from the new ones."""

    def __init__(self, config: AstConfig) -> None:
        super().__init__()
        self.ring, self.star = Ring(config), Star(config)

    def forward(
        self, nodes: Tensor, relay: Tensor, first: Tensor, texts: Texts
    ) -> tuple[Tensor, Tensor]:
        """The new states of tokens [N, d] and relays [n, d]."""
        nodes = self.ring(nodes, relay, first, texts)
        return nodes, self.star(nodes, relay, texts)


class AdaptiveStar(nn.Module):
    """Token vectors [N, d] → text vectors [n, d]: half of (the tokens' maximum + the relay)."""

    def __init__(self, config: AstConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Round(config) for _ in range(config.layers))

    def forward(self, vectors: Tensor, offsets: Tensor) -> Tensor:
        """The star of every text; zero for a text without tokens."""
        texts = Texts.at(offsets, len(vectors))
        nodes, relay = vectors, texts.mean(vectors)
        for layer in self.layers:
            nodes, relay = layer(nodes, relay, vectors, texts)
        return (texts.max(nodes) + relay) / 2 * (texts.lengths > 0).unsqueeze(1)
