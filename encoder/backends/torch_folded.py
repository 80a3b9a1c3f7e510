"""The models that serve with torch: folded where there is one layer, else as star.py has them.

Where a model has one layer, all that its ring projects are rows of the embedding table, so they are
folded into a table once. The star's keys and values are never projected per token: a logit is
u·node with u = WKᵀq, and the values are WV·(Σ p node). The letters of shapes are those of star.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from encoder.model.config import Side
from encoder.model.entmax import entmax
from encoder.model.siamese import LAST_PLACE, Siamese
from encoder.model.star import neighbours
from encoder.model.weights import F32, Linear, Weights, position_buckets

MOST_TABLE_FLOATS = 2**29


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts on the device, none of them empty; what shapes need is known to the host."""

    ids: Tensor  # int32 [N]
    offsets: Tensor  # int32 [n+1]
    longest: int

    def places(self) -> tuple[Tensor, Tensor, Tensor]:
        """For every token its text, its place in it and the number of tokens after it: 3 × [N]."""
        lengths = self.offsets.diff()
        numbers = torch.arange(len(lengths), device=self.ids.device)
        text = torch.repeat_interleave(numbers, lengths, output_size=len(self.ids))
        token = torch.arange(len(self.ids), device=self.ids.device)
        place = token - self.offsets[:-1].index_select(0, text)
        after = self.offsets[1:].index_select(0, text) - token - 1
        return text, place, after

    def grid(self) -> tuple[Tensor, Tensor]:
        """Texts as the rows of a grid: token numbers [n, L], and where a row has ended [n, L].

        There its last token is repeated, which no maximum notices.
        """
        lengths = self.offsets.diff().unsqueeze(1)
        column = torch.arange(self.longest, device=self.ids.device)
        token = self.offsets[:-1].unsqueeze(1) + torch.minimum(column, lengths - 1)
        return token, column >= lengths


Model = Callable[[Batch, Side], Tensor]  # a batch to y [n, d]


class Layered:
    """A model of any depth, as star.py has it."""

    def __init__(self, weights: Weights, device: torch.device) -> None:
        self.model = Siamese.from_weights(weights).to(device).eval()

    def __call__(self, batch: Batch, side: Side) -> Tensor:
        """The vectors of the batch's texts [n, d]."""
        y: Tensor = self.model(batch.ids.long(), batch.offsets.long(), side)
        return y


class Folded:
    """A model of one layer, with the ring's projections folded into a table."""

    def __init__(self, weights: Weights, device: torch.device) -> None:
        self.config = weights.config
        ring, star = weights.layers[0].ring, weights.layers[0].star
        heads, width, inner = self.config.heads, self.config.head_dim, self.config.inner

        def put(value: F32) -> Tensor:
            return torch.tensor(value, device=device)

        def affine(linear: Linear, scale: float = 1) -> tuple[Tensor, Tensor]:
            return put(linear.weight) * scale, put(linear.bias) * scale

        parts = (affine(ring.query, 1 / sqrt(width)), affine(ring.key), affine(ring.value))
        self.project = torch.cat([w for w, _ in parts]), torch.cat([b for _, b in parts])
        self.relay_project = self.project[0][inner:], self.project[1][inner:]
        self.ring_out, self.star_out = affine(ring.output), affine(star.output)
        self.star_query = affine(star.query, 1 / sqrt(width))
        self.star_key = put(star.key.weight).view(heads, width, -1)  # its bias moves no attention
        self.star_value = put(star.value.weight).view(heads, width, -1).transpose(1, 2)  # [h, d, k]
        self.star_value_bias = put(star.value.bias)
        self.ring_alpha, self.star_alpha = put(ring.alpha), put(star.alpha)
        self.embedding = put(weights.embedding)
        self.table: Tensor | None = None
        if len(self.embedding) * 3 * inner <= MOST_TABLE_FLOATS:
            self.table = F.linear(self.embedding, *self.project)  # [V, 3·h·k]
        self.residual = None
        if weights.residual is not None:
            by_place = weights.residual.positions[:, position_buckets(LAST_PLACE + 1)]
            self.residual = tuple(
                put(x) for x in (weights.residual.gain, weights.residual.gates, by_place)
            )

    def __call__(self, batch: Batch, side: Side) -> Tensor:
        """The vectors of the batch's texts [n, d]."""
        text, place, after = batch.places()
        token, ended = batch.grid()
        relay = self.sum(batch) / batch.offsets.diff().unsqueeze(1)  # [n, d]
        nodes = self.ring(batch, relay, text, place, after)  # [N, d]
        nodes = nodes.index_select(0, token.flatten()).view(*token.shape, -1)  # [n, L, d]
        y = (nodes.amax(1) + self.star(nodes, relay, ended)) / 2
        if self.residual is None:
            return y
        gain, gates, by_place = self.residual
        gate = gates[side].index_select(0, batch.ids)
        weight = gate * by_place[side].index_select(0, place.clamp(max=LAST_PLACE))  # [N]
        return torch.addcmul(self.mean(batch, weight, token, ended), gain, y)

    def sum(self, batch: Batch, weight: Tensor | None = None) -> Tensor:
        """The sum of the token vectors of every text, weighted if asked [n, d]."""
        return F.embedding_bag(
            batch.ids,
            self.embedding,
            batch.offsets,
            mode="sum",
            per_sample_weights=weight,
            include_last_offset=True,
        )

    def mean(self, batch: Batch, weight: Tensor, token: Tensor, ended: Tensor) -> Tensor:
        """The token vectors' mean under these weights [n, d]."""
        total = self.sum(batch, weight)
        weights = weight.index_select(0, token.flatten()).view_as(token)
        return total / weights.masked_fill(ended, 0).sum(1, keepdim=True)

    def ring(
        self, batch: Batch, relay: Tensor, text: Tensor, place: Tensor, after: Tensor
    ) -> Tensor:
        """The tokens' new states [N, d]."""
        heads, width, c = self.config.heads, self.config.head_dim, self.config.window
        inner, tokens = heads * width, len(batch.ids)
        rows = self.rows(F.pad(batch.ids, (c, c)))  # [c+N+c, 3·h·k]
        q = rows[c : c + tokens, :inner].view(-1, heads, width)
        keys, values = (
            [x.view(-1, heads, width) for x in neighbours(rows[:, part], c)]
            for part in (slice(inner, 2 * inner), slice(2 * inner, 3 * inner))
        )  # lists of 2c+1, each [N, h, k]
        hub = F.linear(relay, *self.relay_project).index_select(0, text)  # [N, 2·h·k]
        hub_key, hub_value = hub.view(-1, 2, heads, width).unbind(1)  # 2 × [N, h, k]
        logits = rows.new_empty(2 * c + 3, tokens, heads)
        for j, key in enumerate((*keys, hub_key)):
            torch.sum(q * key, 2, out=logits[j])
        logits[2 * c + 2] = logits[c]  # the token's first state, which is the token itself
        for step in range(1, c + 1):
            logits[c - step].masked_fill_((place < step).unsqueeze(1), -torch.inf)
            logits[c + step].masked_fill_((after < step).unsqueeze(1), -torch.inf)
        p = entmax(logits, self.ring_alpha, dim=0).unsqueeze(3)
        mixed = (p[c] + p[2 * c + 2]) * values[c]
        for j, value in enumerate((*values, hub_value)):
            if j != c:
                mixed.addcmul_(p[j], value)
        return F.linear(mixed.view(tokens, inner), *self.ring_out)

    def rows(self, ids: Tensor) -> Tensor:
        """Scaled query, key and value of every token [N, 3·h·k]."""
        if self.table is not None:
            return self.table.index_select(0, ids)
        return F.linear(self.embedding.index_select(0, ids), *self.project)

    def star(self, nodes: Tensor, relay: Tensor, ended: Tensor) -> Tensor:
        """The relays' new states [n, d], from the nodes [n, L, d] in a grid."""
        heads, width = self.config.heads, self.config.head_dim
        q = F.linear(relay, *self.star_query).view(-1, heads, width)  # [n, h, k]
        u = torch.bmm(q.transpose(0, 1), self.star_key).transpose(0, 1)  # [n, h, d]
        own = (u @ relay.unsqueeze(2)).transpose(1, 2)  # [n, 1, h]
        logits = (nodes @ u.transpose(1, 2)).masked_fill_(ended.unsqueeze(2), -torch.inf)
        p = entmax(torch.cat([own, logits], 1), self.star_alpha, dim=1).transpose(1, 2)
        mixed = torch.addcmul(p[:, :, 1:] @ nodes, p[:, :, :1], relay.unsqueeze(1))  # [n, h, d]
        value = torch.bmm(mixed.transpose(0, 1), self.star_value)  # [h, n, k]
        value = value.transpose(0, 1).reshape(len(relay), -1) + self.star_value_bias
        return F.linear(value, *self.star_out)
