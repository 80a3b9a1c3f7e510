"""A star whose attention pools the tokens: a ring with a residual path, then a star over it.

    x_i    = norm(e_i)                                       e_i: the token's vector
    node_i = e_i + O · Σ_j p_ij v_j                          j: neighbours at -c … c, and the relay
    a_i    = entmax_α((Q hub)·(K x_i) / √k + log weight_i)   hub: the mean of x; weight: by gate
    y      = the heads' Σ_i a_i · node_i, side by side

The relay's key and value are the means of the tokens'. With one layer, all that a token brings
depends on the token alone: queries, keys and values are rows of a table.

Hub and star are those of a chunk of 128 tokens, so that a long text is read as a short one is; the
ring crosses the chunks' borders. A chunk counts as much as its tokens weigh together.

In the shapes N is the number of the batch's tokens, n of its texts, m of its chunks, h of heads,
k the width of a head and d that of the model. What the ring computes has its tokens last, so that
neighbours are views of contiguous memory.
"""

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from encoder.model.config import AstConfig
from encoder.model.entmax import entmax, entmax_ragged
from encoder.model.star import Texts, single

CHUNK = 128


class Norm(nn.Module):
    """Layer norm whose statistics pass through a module, so that explanations can hook it."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.statistics = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:  # [N, d] -> [N, d]
        mean = x.mean(1)
        variance = (x - mean.unsqueeze(1)).square().mean(1)
        statistics: Tensor = self.statistics(torch.stack([mean, (variance + 1e-5).rsqrt()]))
        shift, scale = statistics.unbind()
        return (x - shift.unsqueeze(1)) * scale.unsqueeze(1) * self.weight + self.bias


class PoolingStar(nn.Module):
    """Token vectors [N, d] and their log weights → the tokens' states and the text vectors."""

    def __init__(self, config: AstConfig) -> None:
        super().__init__()
        self.heads, self.window = config.heads, config.window
        d, inner = config.dim, config.inner
        self.norm = Norm(d)
        self.query, self.key, self.value = (nn.Linear(d, inner) for _ in range(3))
        self.output = nn.Linear(inner, d)
        self.star_query, self.star_key = nn.Linear(d, inner), nn.Linear(d, inner)
        self.near = nn.Parameter(torch.zeros(2 * config.window + 2, config.heads))
        self.raw_alpha = nn.Parameter(torch.zeros(2, config.heads))  # of the ring, of the star
        self.shares = nn.Identity()  # explanations hook the attention here

    @property
    def alpha(self) -> Tensor:  # [2, h]
        """α = 1 + sigmoid(raw), as the published star has it."""
        return torch.sigmoid(self.raw_alpha) + 1

    def forward(self, e: Tensor, log_weight: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens' states [N, d] and the texts' vectors [n, d]; zero for one without tokens."""
        starts, chunks_of = split_chunks(offsets)
        texts, chunks = Texts.at(offsets, len(e)), Texts.at(starts, len(e))
        x = self.norm(e)
        node = e + self._ring(x, texts, chunks)
        share = self.shares(self._star(x, log_weight, texts, chunks, chunks_of))  # [N, h]
        wide = share.repeat_interleave(e.shape[1] // self.heads, 1)  # [N, d]
        return node, texts.sum(node * wide)

    def _ring(self, x: Tensor, texts: Texts, chunks: Texts) -> Tensor:
        """The attention output of each token over its neighbours and the relay [N, d]."""
        q, k, v = (self._last(f(x)) for f in (self.query, self.key, self.value))  # [h, k, N]
        keys, values = (
            [*self._around(y), chunks.spread(chunks.mean(y.flatten(0, 1).t())).t().view_as(y)]
            for y in (k, v)
        )  # lists of 2c+2, each [h, k, N]
        logits = torch.stack([(q * key).sum(1) for key in keys]) / math.sqrt(q.shape[1])
        logits = logits + self.near.unsqueeze(2)  # [2c+2, h, N]
        outside = F.pad(texts.outside(self.window), (0, 0, 0, 0, 0, 1)).transpose(1, 2)
        logits = logits.masked_fill(outside, -torch.inf)
        p = self.shares(entmax(logits, self.alpha[0].unsqueeze(1), dim=0))
        result = p[0].unsqueeze(1) * values[0]  # [h, k, N]
        for share, value in zip(p[1:], values[1:], strict=True):
            result = torch.addcmul(result, share.unsqueeze(1), value)
        return cast(Tensor, self.output(result.flatten(0, 1).t()))

    def _last(self, x: Tensor) -> Tensor:  # [N, h·k] -> [h, k, N]
        """Heads first, tokens last, in at least single precision."""
        return single(x).t().contiguous().view(self.heads, x.shape[1] // self.heads, len(x))

    def _around(self, x: Tensor) -> list[Tensor]:
        """The neighbours at -c … c of every token."""
        padded, tokens = F.pad(x, (self.window, self.window)), x.shape[2]
        return [padded[..., j : j + tokens] for j in range(2 * self.window + 1)]

    def _star(
        self, x: Tensor, log_weight: Tensor, texts: Texts, chunks: Texts, chunks_of: Texts
    ) -> Tensor:
        """The weight of each token per head; they sum to 1 in each text [N, h]."""
        width = self.star_key.out_features // self.heads
        q = self.star_query(chunks.mean(x)).view(chunks.count, self.heads, width)  # [m, h, k]
        k = self.star_key(x).view(len(x), self.heads, width)  # [N, h, k]
        logits = (chunks.spread(single(q)) * single(k)).sum(2) / math.sqrt(k.shape[2])
        logits = logits + log_weight.unsqueeze(1)  # [N, h]
        a = entmax_ragged(logits, self.alpha[1], chunks.text, chunks.count)
        if chunks.count == texts.count:
            return a
        highest = texts.spread(texts.max(log_weight.detach().unsqueeze(1)))
        weight = chunks.sum((log_weight.unsqueeze(1) - highest).exp())  # [m, 1]
        whole = chunks_of.sum(weight).clamp(min=torch.finfo(weight.dtype).tiny)  # [n, 1]
        return a * chunks.spread(weight / chunks_of.spread(whole))


def split_chunks(offsets: Tensor) -> tuple[Tensor, Texts]:
    """The offsets of the chunks of all texts [m+1], and the text of each chunk."""
    counts = ((offsets.diff() + CHUNK - 1) // CHUNK).clamp(min=1)  # one for a text without tokens
    ends = counts.cumsum(0)
    chunks_of = Texts.at(F.pad(ends, (1, 0)), int(counts.sum()))
    inside = torch.arange(chunks_of.tokens, device=offsets.device) - chunks_of.spread(ends - counts)
    return torch.cat([chunks_of.spread(offsets[:-1]) + inside * CHUNK, offsets[-1:]]), chunks_of
