"""The start of a star's bridge: the linear map nearest to the layers that are left out."""

from collections.abc import Iterable
from itertools import islice, pairwise

import torch
from torch import Tensor

from encoder.errors import InputError
from encoder.model.star_transformer import StarTransformer
from train.loop.bf16 import bf16_autocast

RIDGE = 0.01  # times the mean square of a channel


def bridge_after(layers: tuple[int, ...]) -> int | None:
    """After which of these layers of MPNet others are left out."""
    gaps = [place for place, (one, two) in enumerate(pairwise(layers)) if two > one + 1]
    if len(gaps) > 1:
        raise InputError(f"--layers {','.join(map(str, layers))}: has {len(gaps)} gaps, at most 1")
    return gaps[0] if gaps else None


@torch.inference_mode()
def fit_bridge(
    star: StarTransformer,
    teacher: StarTransformer,
    batches: Iterable[tuple[Tensor, Tensor]],
    to: int,
) -> None:
    """Set the bridge to map states before it to the teacher's before its layer `to`.

    Least squares over all tokens of the batches of ids and masks, each [n, L].
    """
    assert star.bridge is not None
    assert star.settings.bridge is not None
    width = star.settings.width
    star.bridge.weight.zero_()
    star.bridge.bias.zero_()
    inner = torch.zeros(width + 1, width + 1, dtype=torch.float64)
    outer = torch.zeros(width + 1, width, dtype=torch.float64)
    for ids, real in batches:
        with bf16_autocast(ids.device):
            before = nth(star.states(ids, real), star.settings.bridge + 1)[real].double()  # [t, w]
        after = nth(teacher.states(ids, real), to)[real].double()  # [t, w]
        with_one = torch.cat([before, torch.ones_like(before[:, :1])], 1).cpu()  # [t, w + 1]
        inner += with_one.T @ with_one
        outer += with_one.T @ (after - before).cpu()
    ridge = RIDGE * inner.diagonal()[:-1].mean() * torch.eye(width + 1, dtype=torch.float64)
    ridge[-1, -1] = 0  # the constant is not held small
    solved = torch.linalg.solve(inner + ridge, outer).float()  # [w + 1, w]
    star.bridge.weight.copy_(solved[:-1].T)
    star.bridge.bias.copy_(solved[-1])


def nth(states: Iterable[Tensor], place: int) -> Tensor:
    return next(islice(states, place, None))
