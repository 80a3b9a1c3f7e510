"""From float32 rows to int16: one pass of matrix products, and a second over the int16 alone.

The scale of a column is known only when its largest value is, after the last row. So a block of rows
is first stored with all 16 bits on its own scale, and brought to the common scale afterwards: the first
rounding is too fine to matter, and float32 is never kept for more than a block.
"""

from typing import Any

import numpy as np
from numpy import float32, int64

from encoder.jit import jit
from encoder.kernel.memory import filled, load, load_halves, store, store_halves
from encoder.kernel.product import Rows, multiply
from encoder.kernel.shape import LANES
from encoder.kernel.vectors import maximum, to_float, to_int

BLOCK = 96  # rows folded at once; a multiple of every Tile's rows
FULL = float32(32767)
SMALL = float32(1e-30)
SHIFT = float32(32768.5)  # makes a number positive, so that cutting it rounds
BACK = 32768


@jit(fast=True, inline=True)
def rounded(x: Any) -> Any:
    """The nearest int32, for |x| < 32768."""
    return to_int(x + SHIFT) - BACK


@jit(fast=True)
def quantise_rows(
    tile: Any,
    embedding: Any,
    panels: Any,
    bias: Any,
    table: Any,
    peaks: Any,
    first: int,
    last: int,
    space: Any,
    out: Any,
) -> None:
    """Fold the rows of blocks first to last; peaks[block] is each column's largest magnitude."""
    depth, width = embedding.shape[1], len(bias)
    for block in range(first, last):
        start = block * BLOCK
        rows = min(BLOCK, len(embedding) - start)
        for i in range(rows):
            for k in range(depth):
                space[i * depth + k] = embedding[start + i, k]
        multiply(tile, rows, Rows(space, 0, depth), depth, panels, width, Rows(out, 0, width))
        for column in range(0, width, LANES):
            shift, peak = load(1, bias, column), filled(1, SMALL)
            for i in range(rows):
                x = load(1, out, i * width + column) + shift
                peak = maximum(peak, maximum(x, x * float32(-1)))
            store(peaks, block * width + column, peak)
            factor = FULL / peak
            for i in range(rows):
                x = (load(1, out, i * width + column) + shift) * factor
                store_halves(table, (start + i) * width + column, 0, rounded(x))


@jit(fast=True)
def rescale_rows(table: Any, peaks: Any, scale: Any, first: int, last: int, rows: int) -> None:
    """Bring blocks first to last from their own scale to the common one."""
    width = len(scale)
    for block in range(first, last):
        for i in range(block * BLOCK, min((block + 1) * BLOCK, rows)):
            for column in range(0, width, LANES):
                factor = load(1, peaks, block * width + column) * load(1, scale, column)
                x = to_float(load_halves(1, table, i * width + column)) * (factor / FULL)
                store_halves(table, i * width + column, 0, rounded(x))
