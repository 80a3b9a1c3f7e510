"""The stored form of a star transformer: matrices in int8, and the scales of what enters them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from encoder.errors import InputError
from encoder.model.star_settings import BUCKETS, POSITIONS, StarSettings


@dataclass(frozen=True, slots=True, eq=False)
class StarWeights:
    """The tensors of one star by name, checked for type, shape and range."""

    settings: StarSettings
    tensors: Mapping[str, NDArray[Any]]

    def __post_init__(self) -> None:
        if self.settings.adaptive:
            raise InputError(
                "star, adaptive: true: no reader of stored stars has α-entmax; train with softmax"
            )
        shapes = tensor_shapes(self.settings)
        if different := set(self.tensors) ^ set(shapes):
            raise InputError(f"star: unknown or missing tensor {', '.join(sorted(different))}")
        for name, shape in shapes.items():
            value = self.tensors[name]
            kind = "int8" if name.endswith("codes") else "float32"
            if value.shape != shape or value.dtype != kind:
                raise InputError(
                    f"star, {name}: {value.dtype} of shape {list(value.shape)}, expected {kind} "
                    f"{list(shape)}"
                )
            if not np.isfinite(value).all() or (name.endswith("scale") and value <= 0):
                raise InputError(f"star, {name}: holds a number that is out of range")

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.tensors[name]


def tensor_shapes(settings: StarSettings) -> dict[str, tuple[int, ...]]:
    width, inner = settings.width, settings.inner
    shape_of: dict[str, tuple[int, ...]] = {
        "tokens.codes": (settings.vocabulary, width),
        "tokens.scales": (settings.vocabulary,),
        "positions.weight": (POSITIONS, width),
        "distances.weight": (BUCKETS, settings.heads),
        "axes.weight": (settings.dim, width),
    }
    norms = ["norm"]
    products = {} if settings.bridge is None else {"bridge": (width, width)}
    for number in range(settings.layers):
        layer = f"layers.{number}"
        norms += [f"{layer}.attention_norm", f"{layer}.norm"]
        products |= {
            f"{layer}.attention.query_key_value": (width, 3 * width),
            f"{layer}.attention.output": (width, width),
            f"{layer}.widen": (width, inner),
            f"{layer}.narrow": (inner, width),
        }
    for name in norms:
        shape_of |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
    for name, (into, out) in products.items():
        shape_of |= {
            f"{name}.codes": (into, out),
            f"{name}.scales": (out,),
            f"{name}.bias": (out,),
            f"{name}.input_factors": (into,),
            f"{name}.input_scale": (),
        }
    return shape_of
