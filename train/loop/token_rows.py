"""Row-wise training of token tables, and matrix products in bf16 where that is faster."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from llvmlite import binding
from torch import Tensor, nn
from torch.func import functional_call

from encoder.model.config import Side
from encoder.model.siamese import Siamese
from encoder.model.weights import I32, I64
from train.model.export import text_blocks

BF16_FEATURES = ("avx512bf16", "amx-bf16")
HAS_FAST_BF16 = any(binding.get_host_cpu_features().get(feature) for feature in BF16_FEATURES)


def bf16_autocast(device: str | torch.device, enabled: bool = True) -> torch.autocast:
    """Compute products in bf16 within the block, on devices where that is faster."""
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=enabled and HAS_FAST_BF16 and kind == "cpu")


AT_ONCE = {"cpu": 2**13, "cuda": 2**22}  # tokens; more are not faster
BETAS = (0.9, 0.999)
EPSILON = 1e-8
VECTORS, GATES = "embedding", "residual.log_gates"
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
        size = first / (1 - one**self.steps)
        spread = (second / (1 - two**self.steps)).sqrt_().add_(EPSILON)
        self.table[rows] -= rate * size / spread


@dataclass(frozen=True, slots=True, eq=False)
class Flat:
    ids: I32
    offsets: I64


class StepRows:
    """The table rows of some batches, as leaves of one step's graph."""

    def __init__(self, table: "TokenTable", batches: tuple[Flat, ...]) -> None:
        ids = np.concatenate([batch.ids for batch in batches])
        rows, place = np.unique(ids, return_inverse=True)
        device = table.device
        self.rows = torch.from_numpy(rows).long().to(device)
        self._place = torch.from_numpy(place).to(device)
        self._ends = np.cumsum([0, *(len(batch.ids) for batch in batches)])
        self._batches = batches
        self._table = table
        self.leaves = {
            name: adam.table[self.rows].requires_grad_() for name, adam in table.optimizers.items()
        }

    def embed(self, batch: int, side: Side) -> Tensor:
        """Compute the unit vectors of the texts of one batch: [n, d]."""
        ids = self._place[self._ends[batch] : self._ends[batch + 1]]
        offsets = self._batches[batch].offsets
        tensors = {name: rows.T if name == GATES else rows for name, rows in self.leaves.items()}
        parts = []
        for first, last in text_blocks(offsets, AT_ONCE[ids.device.type]):
            own = offsets[first : last + 1]
            ends = torch.from_numpy(own - own[0]).to(ids.device)
            block = (ids[own[0] : own[-1]], ends, side)
            parts.append(self._table.run(tensors, block))
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
        self.rest = {
            name: parameter
            for name, parameter in parameters.items()
            if name not in TABLES and parameter.requires_grad
        }
        self.device = parameters[VECTORS].device

    def rows(self, *batches: Flat) -> StepRows:
        return StepRows(self, batches)

    def run(self, tensors: dict[str, Tensor], block: tuple[Tensor, Tensor, Side]) -> Tensor:
        """Compute text vectors [n, d], with `tensors` as the tables."""
        with bf16_autocast(self.device, self._in_bf16):
            vectors: Tensor = functional_call(self.model, tensors, block)
            return vectors.float()
