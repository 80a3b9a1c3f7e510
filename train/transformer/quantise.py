"""A star transformer to its stored form and back: int8 matrices, and scales of activations."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from encoder.model.star_settings import StarSettings
from encoder.model.star_transformer import StarTransformer
from encoder.model.star_weights import StarWeights
from encoder.model.weights import F32, I8, dequantise_rows, quantise_rows

# Two products with uint8 are added in 16 bits where a processor has no VNNI: 2 · 255 · 64 fits.
LARGEST_CODE = 64
LARGEST_ACTIVATION_CODE = 127
SMOOTHING = 0.85  # how much of a channel's size its row of the matrix takes over
SMALLEST = 1e-5


@torch.inference_mode()
def channel_sizes(
    star: StarTransformer, batches: Iterable[tuple[Tensor, Tensor]]
) -> dict[str, Tensor]:
    """The largest size in each channel of what enters each matrix [in], from ids and masks."""
    sizes: dict[str, Tensor] = {}

    def note(name: str, x: Tensor) -> None:
        largest = x.float().abs().flatten(0, -2).amax(0)  # [in]
        sizes[name] = torch.maximum(sizes.get(name, largest), largest)

    hooks = [
        part.register_forward_pre_hook(lambda _, inputs, name=name: note(name, inputs[0]))
        for name, part in star.named_modules()
        if isinstance(part, nn.Linear) and part is not star.axes
    ]
    try:
        for ids, real in batches:
            star(ids, real)
    finally:
        for hook in hooks:
            hook.remove()
    return sizes


def stored_star(star: StarTransformer, sizes: dict[str, Tensor]) -> StarWeights:
    """All tensors as the CPU's reader takes them; queries are scaled for their product.

    A few channels are a hundred times as large as the others. Each is divided by a factor of its
    own before it is rounded, and its row of the matrix is multiplied by it (SmoothQuant).
    """
    state = {name: value.float().numpy() for name, value in star.state_dict().items()}
    codes, steps = quantise_rows(state["tokens.weight"])
    stored: dict[str, NDArray[Any]] = {"tokens.codes": codes, "tokens.scales": steps}
    for name in ("positions.weight", "distances.weight", "norm.weight", "norm.bias"):
        stored[name] = state[name]
    stored["axes.weight"] = state["axes.weight"]
    for number in range(star.settings.layers):
        for norm in ("attention_norm", "norm"):
            for kind in ("weight", "bias"):
                name = f"layers.{number}.{norm}.{kind}"
                stored[name] = state[name]
    for name, size in sizes.items():
        matrix, bias = state[f"{name}.weight"], state[f"{name}.bias"]  # [out, in], [out]
        if name.endswith("query_key_value"):
            queries = query_factors(star.settings)
            matrix, bias = matrix * queries[:, None], bias * queries
        factors = channel_factors(size.numpy(), matrix)  # [in]
        codes, steps = quantise_columns((matrix * factors).T)
        stored |= {
            f"{name}.codes": codes,
            f"{name}.scales": steps,
            f"{name}.bias": bias.astype(np.float32),
            f"{name}.input_factors": 1 / factors,
            f"{name}.input_scale": np.array(
                (size.numpy() / factors).max() / LARGEST_ACTIVATION_CODE, np.float32
            ),
        }
    return StarWeights(star.settings, stored)


def restored_star(stored: StarWeights) -> StarTransformer:
    """The star of a model that ships, to go on training; its matrices stay as they were rounded."""
    tensors = {name: np.array(value) for name, value in stored.tensors.items()}
    state = {name: x for name, x in tensors.items() if name.endswith((".weight", ".bias"))}
    state["tokens.weight"] = dequantise_rows(tensors["tokens.codes"], tensors["tokens.scales"])
    for scale in [name for name in tensors if name.endswith(".input_scale")]:
        name = scale.removesuffix(".input_scale")
        rows = tensors[f"{name}.codes"] * tensors[f"{name}.scales"]  # [in, out]
        matrix, bias = (rows * tensors[f"{name}.input_factors"][:, None]).T, tensors[f"{name}.bias"]
        if name.endswith("query_key_value"):
            factors = query_factors(stored.settings)
            matrix, bias = matrix / factors[:, None], bias / factors
        state |= {f"{name}.weight": np.ascontiguousarray(matrix), f"{name}.bias": bias}
    star = StarTransformer(stored.settings)
    star.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
    return star


def channel_factors(sizes: F32, matrix: F32) -> F32:  # [in], [out, in] -> [in]
    """By what each channel is divided, so that channels and rows are of more even sizes."""
    rows = np.maximum(np.abs(matrix).max(0), SMALLEST)
    factors = np.maximum(sizes, SMALLEST) ** SMOOTHING / rows ** (1 - SMOOTHING)
    return np.asarray(factors, np.float32)


def query_factors(settings: StarSettings) -> F32:  # [3w]
    """1 / √k for the rows of the queries, and 1 for those of keys and values."""
    factors = np.ones(3 * settings.width, np.float32)
    factors[: settings.width] = 1 / math.sqrt(settings.width // settings.heads)
    return factors


def quantise_columns(matrix: F32) -> tuple[I8, F32]:
    """Codes [in, out] and the scale of each column [out]."""
    scales = np.abs(matrix).max(0) / LARGEST_CODE
    scales = np.where(scales > 0, scales, 1).astype(np.float32)
    return np.rint(matrix / scales).astype(np.int8), scales
