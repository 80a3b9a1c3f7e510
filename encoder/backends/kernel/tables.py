"""The tables of a model: its vocabulary folded and quantised, and what is left in float32."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from encoder.backends.kernel.arrays import I16, Tables, aligned
from encoder.backends.kernel.entmax import ABSENT
from encoder.backends.kernel.fold import Projection, output_bias, projection
from encoder.backends.kernel.quantise import BLOCK, quantise_block, rescale_block
from encoder.backends.kernel.ring import UNIT
from encoder.backends.kernel.row_layout import Shape
from encoder.model.weights import F32, Weights
from encoder.simd.matmul import panels
from encoder.simd.tile import LANES, WIDEST, Tile

SUM_LEVELS = 32000  # of embeddings and star queries: 2048 of them are added in int32
LIMIT = 2**31
NOTHING = 1e-20  # columns no larger than this are padding, or as good as
FINEST_ALPHA = 2.0**-12


def levels(shape: Shape) -> tuple[int, int]:
    """The largest integers of queries and keys, and of values, such that no sum can overflow.

    A logit sums head_dim products of a query and a key. A node sums, over all heads, values times
    weights that add up to UNIT, but for the rounding of each entry.
    """
    values = LIMIT // (shape.slots * (int(UNIT) + shape.entries)) - 1
    return int((LIMIT / shape.head_dim) ** 0.5) - 1, min(values, 32767)


def column_scales(shape: Shape, fold: Projection, peaks: F32) -> F32:
    """What the values of each column are multiplied by: its class's level over its peak."""
    highest = np.zeros(fold.classes.max() + 1, np.float32)
    np.maximum.at(highest, fold.classes, peaks.max(0))
    keys, values = levels(shape)
    level = np.full(len(highest), SUM_LEVELS, np.float32)
    level[:2] = min(keys, 32767)
    level[2 : 2 + shape.width] = values
    scales = np.where(highest > NOTHING, level / np.maximum(highest, NOTHING), 1)
    return np.asarray(scales[fold.classes], np.float32)


def quantised(shape: Shape, weights: Weights, threads: int) -> tuple[I16, F32]:
    """The table [vocabulary · row] and the scale of each of its columns."""
    fold, tile, rows = projection(shape, weights), Tile(WIDEST), len(weights.embedding)
    cut, firsts = panels(fold.matrix, tile).ravel(), range(0, rows, BLOCK)
    table = aligned(rows * shape.row, np.int16)
    peaks = aligned(len(firsts) * shape.row).reshape(-1, shape.row)  # [blocks, row]

    def block_of(first: int) -> I16:
        return table[first * shape.row : min(first + BLOCK, rows) * shape.row]

    def fold_every(start: int) -> None:
        embedding, folded = np.zeros((BLOCK, shape.dim), np.float32), aligned(BLOCK * shape.row)
        for first in firsts[start::threads]:
            given = weights.embedding[first : first + BLOCK]
            embedding[: len(given)] = given
            peak = peaks[first // BLOCK]
            quantise_block(tile, embedding, cut, fold.bias, folded, block_of(first), peak)

    def rescale_every(start: int) -> None:
        for first in firsts[start::threads]:
            rescale_block(block_of(first), peaks[first // BLOCK], scales)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fold_every, range(threads)))
        scales = column_scales(shape, fold, peaks)
        list(pool.map(rescale_every, range(threads)))
    return table, scales


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


def make_tables(shape: Shape, weights: Weights, threads: int) -> Tables:
    """Everything the kernel reads, from a model of one layer."""
    ring, star = weights.layers[0].ring, weights.layers[0].star
    table, scales = quantised(shape, weights, threads)
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
