"""The whole forward pass over a run of texts, in one call without the GIL."""

from typing import Any

from numpy import float32

from encoder.backends.kernel.arrays import TEXTS, Text
from encoder.backends.kernel.relay import (
    attend,
    meet,
    star_outputs,
    star_probes,
    sum_gated,
    sum_rows,
)
from encoder.backends.kernel.ring import (
    average_rows,
    fetch_embeddings,
    ring_logits,
    ring_nodes,
    ring_weights,
)
from encoder.simd.loads import load, store
from encoder.simd.pointers import bare
from encoder.simd.tile import LANES
from encoder.support.jit import jit


@jit(fast=True, inline=True)
def text_at(texts: Any, i: int) -> Any:
    """Text i; an empty one beyond the last."""
    first = texts.offsets[min(i, texts.number)]
    return Text(texts.ids + first, texts.offsets[min(i + 1, texts.number)] - first)


@jit(fast=True, inline=True)
def begin_block(shape: Any, tables: Any, space: Any, texts: Any, first: int, count: int) -> None:
    """What is done for a block of texts before they are read one by one."""
    for slot in range(count):
        text = text_at(texts, first + slot)
        if text.length > 0:
            sum_rows(shape, tables, space, text, slot)
            if texts.residual:
                sum_gated(shape, tables, space, text, slot, texts.gates, texts.places)
    star_probes(shape, tables, space, count)


@jit(fast=True, inline=True)
def read_text(shape: Any, tables: Any, space: Any, texts: Any, number: int, slot: int) -> Any:
    """Read a text of the block, and send for those that follow."""
    text, following = text_at(texts, number), text_at(texts, number + 1)
    if text.length > 0:
        later = text_at(texts, number + TEXTS)
        encode_text(shape, tables, space, slot, text, following, later)
    return text


@jit(fast=True)
def encode_text(
    shape: Any, tables: Any, space: Any, slot: int, text: Any, following: Any, later: Any
) -> None:
    """Ring and star of one text, up to what the heads of the star take."""
    rows = text.length * shape.slots
    step = (rows + 2 * LANES - 1) // LANES * LANES
    average_rows(shape, tables, space, text)
    ring_logits(shape, tables, space, text, step)
    ring_weights(shape, tables, space, rows, step, following)
    for block in range(shape.blocks):
        column = block * shape.block_width
        at = slot * (shape.width + shape.query_width) + column
        mean = load(shape.block_vectors, space.mean, at)
        probe = slot * shape.slots * shape.width + column
        meet(shape, tables, space, mean, probe, 0, block)
    ring_nodes(shape, tables, space, text, slot, step, following)
    fetch_embeddings(shape, tables.table, later)
    attend(shape, tables, space, slot, text.length)


@jit(fast=True)
def finish(shape: Any, tables: Any, space: Any, slot: int, residual: bool, out: Any) -> None:
    """y = r + gain ⊙ ½ (maximum + relay) of one text; `residual` false: without r."""
    for column in range(0, shape.width, LANES):
        at = slot * shape.width + column
        star = load(1, space.star, at) + load(1, tables.output_bias, column)
        y = (star + load(1, space.peak, at)) * load(1, tables.gain, column) * float32(0.5)
        if residual:
            y = y + load(1, space.residual, at)
        store(space.star, at, y)
    for k in range(shape.dim):
        out[k] = space.star[slot * shape.width + k]


@jit(fast=True)
def encode(shape: Any, held: Any, work: Any, given: Any, out: Any) -> None:
    """out[i] = y of text i; 0 without tokens."""
    tables, space, texts = bare(held), bare(work), bare(given)
    for first in range(0, texts.number, TEXTS):
        count = min(TEXTS, texts.number - first)
        begin_block(shape, tables, space, texts, first, count)
        for slot in range(count):
            read_text(shape, tables, space, texts, first + slot, slot)
        star_outputs(shape, tables, space, count)
        for slot in range(count):
            number = first + slot
            if text_at(texts, number).length > 0:
                y = bare(out) + number * shape.dim
                finish(shape, tables, space, slot, texts.residual, y)
            else:
                out[number] = float32(0)
