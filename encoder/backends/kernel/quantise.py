"""From float32 rows to int16: one pass of matrix products, and a second over the int16 alone.

The scale of a column is known only when its largest value is, after the last row. So a block of
rows is first stored with all 16 bits on its own scale, and brought to the common scale afterwards:
the first rounding is too fine to matter, and float32 is never kept for more than a block.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy import float32

from encoder.backends.kernel.arrays import I16, aligned
from encoder.backends.kernel.fold import Projection, projection
from encoder.backends.kernel.ring import UNIT
from encoder.backends.kernel.row_layout import Shape
from encoder.model.weights import F32, Weights
from encoder.simd.lanewise import maximum, nearest, to_float
from encoder.simd.loads import filled, load, load_halves, store, store_halves
from encoder.simd.matmul import Strided, multiply, panels
from encoder.simd.pointers import bare
from encoder.simd.tile import LANES, WIDEST, Tile
from encoder.support.jit import jit

BLOCK = 96  # rows folded at once; a multiple of every Tile's rows
FULL = float32(32767)
SMALL = float32(1e-30)
SUM_LEVELS = 32000  # of embeddings and star queries: 2048 of them are added in int32
LIMIT = 2**31
NOTHING = 1e-20  # columns no larger than this are padding, or as good as


@jit(fast=True)
def quantise_block(
    tile: Any, embedding: Any, panels: Any, bias: Any, folded: Any, table: Any, peaks: Any
) -> None:
    """Fold a block of embeddings to rows of `table`; peaks are each column's largest magnitude."""
    (depth, width), rows = (embedding.shape[1], len(bias)), len(table) // len(bias)
    source, target = Strided(bare(embedding), 0, depth), Strided(folded, 0, width)
    multiply(tile, rows, source, depth, panels, width, target)
    for column in range(0, width, LANES):
        shift, peak = load(1, bias, column), filled(1, SMALL)
        for i in range(rows):
            x = load(1, folded, i * width + column) + shift
            peak = maximum(peak, maximum(x, x * float32(-1)))
        store(peaks, column, peak)
        factor = FULL / peak
        for i in range(rows):
            x = (load(1, folded, i * width + column) + shift) * factor
            store_halves(table, i * width + column, 0, nearest(x))


@jit(fast=True)
def rescale_block(table: Any, peaks: Any, scale: Any) -> None:
    """Bring the rows of a block from its own scale to the common one."""
    width = len(scale)
    for column in range(0, width, LANES):
        factor = load(1, peaks, column) * load(1, scale, column) / FULL
        for at in range(column, len(table), width):
            x = to_float(load_halves(1, table, at))
            store_halves(table, at, 0, nearest(x * factor))


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


def quantised(shape: Shape, weights: Weights, threads: int) -> I16:
    """The table [vocabulary · row], and behind it the scale of each of its columns as float32."""
    fold, tile, rows = projection(shape, weights), Tile(WIDEST), len(weights.embedding)
    cut, firsts = panels(fold.matrix, tile).ravel(), range(0, rows, BLOCK)
    made = aligned((rows + 2) * shape.row, np.int16)
    table, held = parted(shape, made)
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
        held[:] = scales = column_scales(shape, fold, peaks)
        list(pool.map(rescale_every, range(threads)))
    return made


def parted(shape: Shape, made: I16) -> tuple[I16, F32]:
    """The table apart from the scales behind it."""
    end = len(made) - 2 * shape.row
    return made[:end], made[end:].view(np.float32)
