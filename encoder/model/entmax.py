"""α-entmax for torch, 1 ≤ α ≤ 2: from softmax (α = 1) to sparsemax (α = 2), with its gradients.

entmax(z)_i = u_i^(1/a) with a = α - 1 and u_i = max(0, 1 + a(z_i - t)), t such that they sum to 1.
Instead of Σ p = 1 we solve (Σ p)^a = 1 for t: the left side is a norm of u, so it is convex in t,
and Newton from t = 0 (where z is shifted to a maximum of 0) climbs to the root without a bracket.
"""

from dataclasses import dataclass
from math import log
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from encoder.errors import InputError

MIN_STEP_FROM_SOFTMAX = 1e-20
SERIES_BELOW = 0.25
SERIES = (-1 / 362880, 1 / 40320, -1 / 5040, 1 / 720, -1 / 120, 1 / 24, -1 / 6, 1 / 2)
MAX_ITERATIONS = 60
LN_2 = log(2)


@dataclass(frozen=True, slots=True)
class Dense:
    """Rows of equal length: all entries along the first dimension are one row."""

    def sum(self, x: Tensor) -> Tensor:
        return x.sum(0)

    def max(self, x: Tensor) -> Tensor:
        return x.amax(0)

    def spread(self, r: Tensor) -> Tensor:
        """Each row's value for each of its entries."""
        return r


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of any length: entry i belongs to row member[i]; entries may be in any order."""

    member: Tensor  # int64 [entries]
    count: int

    def sum(self, x: Tensor) -> Tensor:
        return x.new_zeros(self.count, *x.shape[1:]).index_add(0, self.member, x)

    def max(self, x: Tensor) -> Tensor:
        lowest = x.new_full((self.count, *x.shape[1:]), -torch.inf)
        index = self.member.view(-1, *[1] * (x.dim() - 1)).expand_as(x)
        return lowest.scatter_reduce(0, index, x, "amax")

    def spread(self, r: Tensor) -> Tensor:
        """Each row's value for each of its entries."""
        return r.index_select(0, self.member)


def entmax(z: Tensor, alpha: Tensor | float, dim: int = -1) -> Tensor:
    """α-entmax along `dim`; alpha broadcasts to z without that dimension."""
    first = z.movedim(dim, 0)
    if first.shape[0] < 64:
        first = first.contiguous()
    return solve(first, alpha, Dense()).movedim(0, dim)


def entmax_ragged(z: Tensor, alpha: Tensor | float, member: Tensor, count: int) -> Tensor:
    """α-entmax of each of `count` rows of z [entries, …]; alpha broadcasts to z[0]."""
    return solve(z, alpha, Ragged(member, count))


def solve(z: Tensor, alpha: Tensor | float, rows: Dense | Ragged) -> Tensor:
    """α-entmax along the first dimension, in at least float32."""
    if isinstance(alpha, float | int) and not 1 <= alpha <= 2:
        raise InputError(f"alpha: {alpha} is outside [1, 2]")
    exact = z if z.dtype in (torch.float32, torch.float64) else z.float()
    near = torch.as_tensor(alpha, dtype=exact.dtype, device=z.device)
    out: Tensor = Entmax.apply(exact, near, rows)
    return out.to(z.dtype)


class Entmax(torch.autograd.Function):
    """The solution and its derivatives in z and in α."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, alpha: Tensor, rows: Dense | Ragged) -> Tensor:
        p = newton(z, alpha, rows) if z.numel() else torch.zeros_like(z)
        ctx.save_for_backward(p, alpha)
        ctx.rows = rows
        return p

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        p, alpha = ctx.saved_tensors
        if not p.numel():
            return torch.zeros_like(p), torch.zeros_like(alpha), None
        a, rows = alpha - 1, ctx.rows
        log_p = p.clamp(min=torch.finfo(p.dtype).tiny).log_()
        power = (log_p * ((1 - a) / LN_2)).exp2_()
        pull = torch.where(p > 0, power, 0)  # p^(2-α) on the support
        total = rows.sum(pull).clamp_(min=torch.finfo(p.dtype).tiny)
        deviation = grad - rows.spread(rows.sum(pull * grad) / total)
        by_alpha = None
        if ctx.needs_input_grad[1]:
            by_alpha = (deviation * slope(p, log_p, a)).sum_to_size(alpha.shape)
        return pull * deviation, by_alpha, None


def newton(z: Tensor, alpha: Tensor, rows: Dense | Ragged) -> Tensor:
    """The solution; a row of -inf alone becomes zeros, entries of +inf share their row."""
    limits = torch.finfo(z.dtype)
    top = rows.max(z).clamp_(min=limits.min)
    a = (alpha - 1).clamp(min=MIN_STEP_FROM_SOFTMAX).expand_as(top).contiguous()
    accurate, wide = a * limits.eps**0.75, rows.spread(a)
    below = (z - rows.spread(top)).nan_to_num_(0, neginf=-torch.inf)  # +inf less +inf is 0
    scaled, inverse = below.mul_(wide), 1 / (wide * LN_2)
    tau = torch.where(top.isnan(), top, 0)  # propagates a NaN
    for _ in range(iterations(z)):
        less = (scaled - rows.spread(tau)).clamp_(min=-1)  # u - 1
        # log1p stays exact as α nears 1; exp would stall on -inf, where exp2 does not.
        p = less.log1p().mul_(inverse).exp2_()
        pull = p / less.add_(1).clamp_(min=limits.tiny)  # -dp/dt
        total, decay = rows.sum(p).clamp_(min=1), rows.sum(pull).clamp_(min=1)
        step = total.log().mul_(-a).expm1_().mul_(total).div_(-decay)  # 0 in an empty row
        if z.device.type == "cpu" and not bool((step > accurate).any()):
            break
        tau.add_(step)
    # The last step is applied to p: rounding in tau would shift every entry of a long row.
    missing = (1 - rows.sum(p.double())).to(p.dtype)
    return p.addcmul_(pull, rows.spread(missing.div_(decay))).clamp_(min=0)


def iterations(z: Tensor) -> int:
    """The maximum of Newton steps; only a CPU can check cheaply for convergence."""
    return MAX_ITERATIONS if z.device.type == "cpu" else sufficient_steps(len(z))


def sufficient_steps(entries: int) -> int:
    """A number of Newton steps that always converges, plus two."""
    return 6 + entries.bit_length() // 2


def slope(p: Tensor, log_p: Tensor, a: Tensor) -> Tensor:
    """dp/dα at fixed t: -p (e^(-y) - 1 + y) / a² with y = a·ln p; by its series for a small y."""
    y = log_p * a
    series = torch.full_like(y, SERIES[0])
    for coefficient in SERIES[1:]:
        series.mul_(y).add_(coefficient)
    plain = (torch.expm1(-y) + y) / y.square()
    return torch.where(y.abs() < SERIES_BELOW, series, plain) * log_p.square() * -p
