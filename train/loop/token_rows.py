"""Training of token tables by rows: a step reads and changes only those of its tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from encoder.model.config import Side
from encoder.model.siamese import Siamese
from encoder.model.weights import I32, I64
from train.loop.bf16 import bf16_autocast
from train.model.export import text_blocks

TOKENS_AT_ONCE = {"cpu": 2**13, "cuda": 2**22}  # more are not faster
BETAS = (0.9, 0.999)
EPSILON = 1e-8
VECTORS, GATES = "embedding", "residual.log_gates"  # names of parameters
TABLES = (VECTORS, GATES)


class RowAdam:
    """Adam over rows of a table; rows that no batch reads are unchanged."""

    def __init__(self, table: Tensor) -> None:
        self.table = table  # [rows, …], changed in place
        self.first, self.second = torch.zeros_like(table), torch.zeros_like(table)
        self.steps = 0

    def step(self, rows: Tensor, gradient: Tensor, rate: float) -> None:
        """Update distinct rows."""
        self.steps += 1
        one, two = BETAS
        first = self.first[rows].mul_(one).add_(gradient, alpha=1 - one)
        second = self.second[rows].mul_(two).addcmul_(gradient, gradient, value=1 - two)
        self.first[rows], self.second[rows] = first, second
        mean = first / (1 - one**self.steps)
        deviation = (second / (1 - two**self.steps)).sqrt_().add_(EPSILON)
        self.table[rows] -= rate * mean / deviation


@dataclass(frozen=True, slots=True, eq=False)
class TokenBatch:
    """Text i has the tokens ids[offsets[i] : offsets[i + 1]]."""

    ids: I32  # [tokens]
    offsets: I64  # [texts + 1]

    @classmethod
    def join(cls, texts: Sequence[I32]) -> "TokenBatch":
        offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
        return cls(np.concatenate([np.zeros(0, np.int32), *texts]), offsets)


class TokenTable:
    """A model whose token vectors and gates are trained row by row.

    With `in_bf16` the star's matrix products are in bf16; parameters stay in float32.
    """

    def __init__(self, model: nn.Module, in_bf16: bool = False) -> None:
        self.model = model
        self._in_bf16 = in_bf16 and isinstance(model, Siamese) and model.config.has_star
        parameters = dict(model.named_parameters())
        self.optimizers = {VECTORS: RowAdam(parameters[VECTORS].detach())}
        if GATES in parameters:  # turned, they have a row for each token too: [vocabulary, sides]
            self.optimizers[GATES] = RowAdam(parameters[GATES].detach().T)
        self.other_parameters = {
            name: parameter
            for name, parameter in parameters.items()
            if name not in TABLES and parameter.requires_grad
        }
        self.device = parameters[VECTORS].device

    def embed(self, tables: dict[str, Tensor], ids: Tensor, offsets: Tensor, side: Side) -> Tensor:
        """Compute text vectors [n, d]; the ids are rows of `tables`, not of the model's own."""
        with bf16_autocast(self.device, self._in_bf16):
            vectors: Tensor = functional_call(self.model, tables, (ids, offsets, side))
            return vectors.float()


class StepRows:
    """The rows of a table that some batches need, as leaves of one step's graph."""

    def __init__(self, table: TokenTable, batches: Sequence[TokenBatch]) -> None:
        ids = np.concatenate([batch.ids for batch in batches])
        rows, leaf_ids = np.unique(ids, return_inverse=True)
        self.rows = torch.from_numpy(rows).long().to(table.device)
        self._leaf_ids = torch.from_numpy(leaf_ids).to(table.device)
        self._bounds = np.cumsum([0, *(len(batch.ids) for batch in batches)])
        self._batches = batches
        self._table = table
        self.leaves = {
            name: adam.table[self.rows].requires_grad_() for name, adam in table.optimizers.items()
        }

    def embed(self, batch: int, side: Side) -> Tensor:
        """Compute the unit vectors of the texts of one batch: [n, d]."""
        ids = self._leaf_ids[self._bounds[batch] : self._bounds[batch + 1]]
        offsets = self._batches[batch].offsets
        tables = {name: leaf.T if name == GATES else leaf for name, leaf in self.leaves.items()}
        parts = []
        for first, last in text_blocks(offsets, TOKENS_AT_ONCE[ids.device.type]):
            start, stop = offsets[first], offsets[last]
            own_offsets = torch.from_numpy(offsets[first : last + 1] - start).to(ids.device)
            parts.append(self._table.embed(tables, ids[start:stop], own_offsets, side))
        return F.normalize(torch.cat(parts), dim=1)

    def gradient_sum(self) -> Tensor:
        """Sum the gradients; the result is finite only if all of them are."""
        grads = [leaf.grad for leaf in self.leaves.values() if leaf.grad is not None]
        return torch.stack([grad.sum() for grad in grads]).sum() if grads else torch.zeros(())

    def step(self, rate: float) -> None:
        """Update the rows by their gradients."""
        for name, leaf in self.leaves.items():
            if leaf.grad is not None:
                self._table.optimizers[name].step(self.rows, leaf.grad, rate)
