"""From float32 rows to int16: one pass of matrix products, and a second over the int16 alone.

The scale of a column is known only when its largest value is, after the last row. So a block of
rows is first stored with all 16 bits on its own scale, and brought to the common scale afterwards:
the first rounding is too fine to matter, and float32 is never kept for more than a block.
"""

from typing import Any

from numpy import float32

from encoder.simd.lanewise import maximum, nearest, to_float
from encoder.simd.loads import filled, load, load_halves, store, store_halves
from encoder.simd.matmul import Rows, multiply
from encoder.simd.pointers import bare
from encoder.simd.tile import LANES
from encoder.support.jit import jit

BLOCK = 96  # rows folded at once; a multiple of every Tile's rows
FULL = float32(32767)
SMALL = float32(1e-30)


@jit(fast=True)
def quantise_block(
    tile: Any, embedding: Any, panels: Any, bias: Any, folded: Any, table: Any, peaks: Any
) -> None:
    """Fold a block of embeddings to rows of `table`; peaks are each column's largest magnitude."""
    (depth, width), rows = (embedding.shape[1], len(bias)), len(table) // len(bias)
    source, target = Rows(bare(embedding), 0, depth), Rows(folded, 0, width)
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
