"""The tables of a model: its vocabulary folded and quantised, and what is left in float32."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from encoder.kernel.fold import Projection, output_bias, projection
from encoder.kernel.product import panels
from encoder.kernel.quantise import BLOCK, quantise_rows, rescale_rows
from encoder.kernel.ring import ABSENT, UNIT
from encoder.kernel.shape import LANES, Shape, Tile
from encoder.kernel.state import I16, Tables, aligned
from encoder.weights import F32, Weights

LEVELS = 8191  # of keys and values: four of them are added in int16
SUM_LEVELS = 32000  # of embeddings and star queries: 2048 of them are added in int32
LIMIT = 2**31
FINEST_ALPHA = 2.0**-12


def levels(shape: Shape) -> tuple[int, int, int]:
    """The largest integers of queries, keys and values, such that no sum can overflow.

    A node sums, over all heads, weights that add up to UNIT, save for half a unit of rounding of each
    entry, times values. A logit sums head_dim products of a query and a key.
    """
    values = min(LEVELS, LIMIT // (shape.slots * (int(UNIT) + shape.entries)) - 1)
    queries = min(32767, LIMIT // (shape.head_dim * LEVELS) - 1)
    return queries, LEVELS, values


def column_scales(shape: Shape, fold: Projection, peaks: F32) -> F32:
    """For each column what its values are multiplied by: its class's level over its class's peak."""
    highest = np.zeros(fold.classes.max() + 1, np.float32)
    np.maximum.at(highest, fold.classes, peaks.max(0))
    queries, keys, values = levels(shape)
    level = np.full(len(highest), SUM_LEVELS, np.float32)
    level[:2] = queries, keys
    level[2 : 2 + shape.width] = values
    return np.asarray((level / np.maximum(highest, 1e-30))[fold.classes], np.float32)


def quantised(shape: Shape, weights: Weights, threads: int) -> tuple[I16, F32]:
    """The table [vocabulary · row] and the scale of each of its columns."""
    fold, tile, rows = projection(shape, weights), Tile(4), len(weights.embedding)
    cut, blocks = panels(fold.matrix, tile).ravel(), -(-rows // BLOCK)
    table = aligned(rows * shape.row, np.int16)
    peaks = aligned(blocks * shape.row)
    bounds = [blocks * i // threads for i in range(threads + 1)]

    def fold_blocks(first: int, last: int) -> None:
        space, out = aligned(BLOCK * shape.dim), aligned(BLOCK * shape.row)
        args = (weights.embedding, cut, fold.bias, table, peaks, first, last, space, out)
        quantise_rows(tile, *args)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fold_blocks, bounds[:-1], bounds[1:]))
        scales = column_scales(shape, fold, peaks.reshape(blocks, -1))

        def rescale_blocks(first: int, last: int) -> None:
            rescale_rows(table, peaks, scales, first, last, rows)

        list(pool.map(rescale_blocks, bounds[:-1], bounds[1:]))
    return table, scales


def padded(values: object, size: int, filler: float = 0.0) -> F32:
    """A vector as aligned float32, filled up to `size`."""
    given = np.asarray(values, np.float32)
    out = aligned(size)
    out[: len(given)] = given
    out[len(given) :] = filler
    return out


def head_panels(matrices: F32, width: int, tile: Tile) -> F32:
    """A matrix of each head, padded to `width` columns and cut into panels: [heads, panels]."""
    grown = np.pad(matrices, ((0, 0), (0, 0), (0, width - matrices.shape[2])))
    return np.stack([panels(matrix, tile).ravel() for matrix in grown])


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
    heads, dims, inner = shape.heads, shape.dim, shape.head_dim
    star_values = star.value.weight.reshape(heads, inner, dims).transpose(0, 2, 1)
    outputs = np.pad(star.output.weight.T, ((0, 0), (0, shape.width - dims)))
    gain = np.ones(dims) if weights.residual is None else weights.residual.gain
    return Tables(
        table=table,
        logit_scale=np.float32(1 / (float(query) * float(key) * np.sqrt(shape.head_dim))),
        node_scale=padded(1 / (values * UNIT), shape.width),
        node_bias=padded(output_bias(ring), shape.width),
        sum_scale=padded(1 / scales[shape.embedding_at :], shape.row - shape.embedding_at),
        ring_scale=padded(np.tile(padded(ring_alpha, shape.slots, 1.0), LANES), shape.slots * LANES),
        star_scale=lanes_of_heads(shape, star_alpha, 1.0),
        idle=lanes_of_heads(shape, np.zeros(heads, np.float32), float(ABSENT)),
        keys=head_panels(star.key.weight.reshape(heads, inner, dims), shape.width, shape.wide),
        values=head_panels(star_values, shape.value_width, shape.narrow),
        output=panels(outputs, shape.wide).ravel(),
        output_bias=padded(output_bias(star), shape.width),
        gain=padded(gain, shape.width),
    )
