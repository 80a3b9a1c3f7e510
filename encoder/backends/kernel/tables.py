"""The tables of a model: its vocabulary folded and quantised, and what is left in float32."""

import numpy as np
from llvmlite import binding

from encoder.backends.kernel.arrays import I16, Tables, aligned
from encoder.backends.kernel.entmax import ABSENT
from encoder.backends.kernel.fold import output_bias
from encoder.backends.kernel.quantise import parted, quantised
from encoder.backends.kernel.ring import UNIT
from encoder.backends.kernel.row_layout import Shape
from encoder.model.config import MAX_TOKENS, Side
from encoder.model.weights import F32, Weights, position_buckets
from encoder.simd.matmul import panels
from encoder.simd.tile import LANES, Tile
from encoder.support.readonly import fixed, frozen
from encoder.support.shared import shared

FINEST_ALPHA = 2.0**-12
NONE = fixed(np.zeros(0, np.float32))


def padded(values: object, size: int, filler: float = 0.0) -> F32:
    """A vector as aligned float32, filled up to `size`."""
    given = np.asarray(values, np.float32)
    out = aligned(size)
    out[: len(given)] = given
    out[len(given) :] = filler
    return out


def head_panels(matrices: F32, width: int, tile: Tile) -> F32:
    """A matrix of each head, padded to `width` columns and cut into panels, head after head."""
    grown = np.pad(matrices, ((0, 0), (0, 0), (0, width - matrices.shape[2])))
    return np.concatenate([panels(matrix, tile).ravel() for matrix in grown])


def lanes_of_heads(shape: Shape, values: F32, filler: float) -> F32:
    """A value per head as [banks, 16]; lanes without a head get the filler."""
    slots = padded(values, shape.slots, filler).reshape(shape.banks, shape.bank_heads)
    grown = np.pad(slots, ((0, 0), (0, LANES - shape.bank_heads)), constant_values=filler)
    return padded(grown.ravel(), grown.size)


def residual_weights(weights: Weights) -> list[tuple[bool, F32, F32]]:
    """For each side whether there is a residual, and what weighs it by token and by position."""
    if weights.residual is None:
        return [(False, NONE, NONE)] * len(Side)
    by_side = zip(weights.residual.gates, weights.residual.positions, strict=True)
    buckets = position_buckets(MAX_TOKENS)
    return [(True, fixed(gates), fixed(places[buckets])) for gates, places in by_side]


def folded_table(shape: Shape, weights: Weights, threads: int, name: str) -> I16:
    """The table with its scales; a named one is kept for other processes, by the kind of CPU.

    Sums are rounded as the CPU likes, and all workers on a host are to have the same bits.
    """
    if not name:
        return frozen(quantised(shape, weights, threads))
    size = (len(weights.embedding) + 2) * shape.row
    kept_as = f"{name}-{binding.get_host_cpu_name()}"
    return shared(kept_as, np.int16, (size,), lambda: quantised(shape, weights, threads))


def make_tables(shape: Shape, weights: Weights, threads: int, name: str = "") -> Tables:
    """Everything the kernel reads, from a model of one layer; under a name the table is shared."""
    ring, star = weights.layers[0].ring, weights.layers[0].star
    table, scales = parted(shape, folded_table(shape, weights, threads, name))
    query, key = scales[0], scales[shape.key_at]
    values = scales[shape.value_at :][: 2 * shape.width : 2]
    # Closer to 1 than this, rounding 1 + (α−1)z in float32 costs more than standing still does.
    ring_alpha = np.maximum(ring.alpha - 1, FINEST_ALPHA)
    star_alpha = np.maximum(star.alpha - 1, FINEST_ALPHA)
    ring_slots = padded(ring_alpha, shape.slots, 1.0)
    heads, dims, inner = shape.heads, shape.dim, shape.head_dim
    star_values = star.value.weight.reshape(heads, inner, dims).transpose(0, 2, 1)
    outputs = np.pad(star.output.weight.T, ((0, 0), (0, shape.width - dims)))
    gain = np.ones(dims) if weights.residual is None else weights.residual.gain
    return Tables(
        table=table,
        halves=np.array([1, 1 << 16], np.int32),
        logit_scale=np.float32(1 / (float(query) * float(key) * np.sqrt(shape.head_dim))),
        node_scale=padded(1 / (values * UNIT), shape.width),
        node_bias=padded(output_bias(ring), shape.width),
        sum_scale=padded(1 / scales[shape.embedding_at :], shape.row - shape.embedding_at),
        ring_scale=padded(np.tile(ring_slots, LANES), shape.slots * LANES),
        star_scale=lanes_of_heads(shape, star_alpha, 1.0),
        idle=lanes_of_heads(shape, np.zeros(heads, np.float32), float(ABSENT)),
        keys=head_panels(star.key.weight.reshape(heads, inner, dims), shape.width, shape.wide),
        values=head_panels(star_values, shape.value_width, shape.narrow),
        output=panels(outputs, shape.wide).ravel(),
        output_bias=padded(output_bias(star), shape.width),
        gain=padded(gain, shape.width),
    )
