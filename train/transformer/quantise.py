"""The stored form of a star transformer: matrices in int8, and the scales of activations."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from encoder.model.star_settings import StarSettings
from encoder.model.star_transformer import StarTransformer
from encoder.model.weights import F32, I8, quantise_rows

Stored = dict[str, NDArray[np.generic]]
# Two products with uint8 are added in 16 bits where a processor has no VNNI: 2 · 255 · 64 fits.
LARGEST_CODE = 64
LARGEST_ACTIVATION_CODE = 127
KEPT_ACTIVATIONS = 0.9999  # of their sizes; larger ones are cut


@contextmanager
def observed(star: StarTransformer) -> Iterator[dict[str, list[Tensor]]]:
    """Within the block, the sizes of what enters each matrix are noted by its name."""
    sizes: dict[str, list[Tensor]] = {}
    linear = {
        name: part
        for name, part in star.layers.named_modules(prefix="layers")
        if isinstance(part, nn.Linear)
    }
    hooks = [
        part.register_forward_pre_hook(
            lambda _, inputs, name=name: sizes.setdefault(name, []).append(
                inputs[0].detach().float().abs().amax(-1).flatten()
            )
        )
        for name, part in linear.items()
    ]
    try:
        yield sizes
    finally:
        for hook in hooks:
            hook.remove()


@torch.inference_mode()
def activation_scales(
    star: StarTransformer, batches: Iterable[tuple[Tensor, Tensor]]
) -> dict[str, float]:
    """The size of one step of each matrix's input, from batches of ids and masks."""
    with observed(star) as sizes:
        for ids, real in batches:
            star(ids, real)
    return {
        name: float(torch.cat(parts).quantile(KEPT_ACTIVATIONS)) / LARGEST_ACTIVATION_CODE
        for name, parts in sizes.items()
    }


def stored_star(star: StarTransformer, scales: dict[str, float]) -> Stored:
    """All tensors as the CPU's reader takes them; queries are scaled for their product."""
    state = {name: value.float().numpy() for name, value in star.state_dict().items()}
    codes, steps = quantise_rows(state["tokens.weight"])
    stored: Stored = {"tokens.codes": codes, "tokens.scales": steps}
    for name in ("positions.weight", "distances.weight", "norm.weight", "norm.bias"):
        stored[name] = state[name]
    stored["axes.weight"] = state["axes.weight"]
    for number in range(star.settings.layers):
        for norm in ("attention_norm", "norm"):
            for kind in ("weight", "bias"):
                name = f"layers.{number}.{norm}.{kind}"
                stored[name] = state[name]
    for name, step in scales.items():
        matrix, bias = state[f"{name}.weight"], state[f"{name}.bias"]  # [out, in], [out]
        if name.endswith("query_key_value"):
            matrix, bias = scale_queries(star.settings, matrix, bias)
        codes, steps = quantise_columns(matrix.T)
        stored |= {
            f"{name}.codes": codes,
            f"{name}.scales": steps,
            f"{name}.bias": bias.astype(np.float32),
            f"{name}.input_scale": np.array(step, np.float32),
        }
    return stored


def scale_queries(settings: StarSettings, matrix: F32, bias: F32) -> tuple[F32, F32]:
    """Divide the rows of the queries by √k."""
    factor = np.ones(3 * settings.width, np.float32)
    factor[: settings.width] = 1 / math.sqrt(settings.width // settings.heads)
    return matrix * factor[:, None], bias * factor


def quantise_columns(matrix: F32) -> tuple[I8, F32]:
    """Codes [in, out] and the scale of each column [out]."""
    scales = np.abs(matrix).max(0) / LARGEST_CODE
    scales = np.where(scales > 0, scales, 1).astype(np.float32)
    return np.rint(matrix / scales).astype(np.int8), scales
