"""The relay: it attends to itself and all nodes, and is what the ring hears of the whole text.

No node is ever projected. Its logit is (Wk_hᵀ q_h) · node, one probe per head, and what a head
takes from the nodes is Wv_h (Σ p · node). Biases of keys shift all logits of a row alike and change
nothing.
"""

from typing import Any

from numpy import float32, int32, int64

from encoder.backends.kernel.arrays import TEXTS
from encoder.backends.kernel.entmax import star_entmax
from encoder.model.config import MAX_TOKENS
from encoder.simd.across import row_dots
from encoder.simd.lanewise import to_float
from encoder.simd.loads import filled, load, load_halves, store
from encoder.simd.matmul import Strided, multiply
from encoder.simd.tile import LANES
from encoder.support.jit import jit

STAR_ROWS = 1 + MAX_TOKENS


@jit(fast=True)
def sum_rows(shape: Any, tables: Any, space: Any, text: Any, slot: int) -> None:
    """The means of a text's embeddings and star queries: the relay, and what it asks."""
    share = float32(1) / float32(text.length)
    size = shape.width + shape.query_width
    sweep = shape.sum_vectors * LANES
    for block in range((size + sweep - 1) // sweep):
        column = min(block * sweep, size - sweep)
        total = filled(shape.sum_vectors, int32(0))
        for i in range(text.length):
            row = int64(text.ids[i]) * shape.row + shape.embedding_at
            total = total + load_halves(shape.sum_vectors, tables.table, row + column)
        mean = to_float(total) * load(shape.sum_vectors, tables.sum_scale, column) * share
        store(space.mean, slot * size + column, mean)


@jit(fast=True)
def sum_gated(
    shape: Any, tables: Any, space: Any, text: Any, slot: int, gates: Any, places: Any
) -> None:
    """The residual: the mean of the embeddings, weighted by token and by position."""
    norm = float32(0)
    for i in range(text.length):
        norm += gates[text.ids[i]] * places[i]
    for block in range(shape.blocks):
        column = block * shape.block_width
        total = filled(shape.block_vectors, float32(0))
        for i in range(text.length):
            row = int64(text.ids[i]) * shape.row + shape.embedding_at
            weight = gates[text.ids[i]] * places[i] / norm
            part = load_halves(shape.block_vectors, tables.table, row + column)
            total = total + to_float(part) * weight
        total = total * load(shape.block_vectors, tables.sum_scale, column)
        store(space.residual, slot * shape.width + column, total)


@jit(fast=True)
def star_probes(shape: Any, tables: Any, space: Any, texts: int) -> None:
    """probe[text, head] = Wk_hᵀ q_h, whose product with a node is that node's logit."""
    size = shape.width + shape.query_width
    for head in range(shape.heads):
        queries = Strided(space.mean, shape.width + head * shape.head_dim, size)
        probes = Strided(space.probe, head * shape.width, shape.slots * shape.width)
        multiply(
            shape.wide,
            texts,
            queries,
            shape.head_dim,
            tables.keys + head * shape.key_panels,
            shape.width,
            probes,
        )


@jit(fast=True)
def attend(shape: Any, tables: Any, space: Any, slot: int, tokens: int) -> None:
    """What each head of the star takes from the relay and the nodes."""
    mean_at = slot * (shape.width + shape.query_width)
    for bank in range(shape.banks):
        at, scale = bank * STAR_ROWS * LANES, load(1, tables.star_scale, bank * LANES)
        star_entmax(space.star_logits, space.powers, space.slopes, at, 1 + tokens, scale)
    for head in range(shape.heads):
        bank, lane = head // shape.bank_heads, head % shape.bank_heads
        weights = space.star_logits + (bank * STAR_ROWS * LANES + lane)
        for block in range(shape.blocks):
            column = block * shape.block_width
            total = load(shape.block_vectors, space.mean, mean_at + column) * weights[0]
            for i in range(tokens):
                weight = weights[(1 + i) * LANES]
                if weight != 0:
                    node = load(shape.block_vectors, space.nodes, i * shape.width + column)
                    total = total + node * weight
            store(space.mixed, (head * TEXTS + slot) * shape.width + column, total)


@jit(fast=True)
def star_outputs(shape: Any, tables: Any, space: Any, texts: int) -> None:
    """The relay's new vector, for all texts of a block."""
    step = shape.inner + shape.value_width
    for head in range(shape.heads):
        mixed = Strided(space.mixed, head * TEXTS * shape.width, shape.width)
        values = Strided(space.value, head * shape.head_dim, step)
        matrix = tables.values + head * shape.value_panels
        multiply(shape.narrow, texts, mixed, shape.dim, matrix, shape.value_width, values)
    values, stars = Strided(space.value, 0, step), Strided(space.star, 0, shape.width)
    multiply(shape.wide, texts, values, shape.inner, tables.output, shape.width, stars)


@jit(fast=True, inline=True)
def meet(shape: Any, tables: Any, space: Any, node: Any, probe_at: int, i: int, block: int) -> None:
    """Add one block of a node, or of the relay, to entry i of the star's logits.

    A lane without a head attends to the relay alone: that is solved at once.
    """
    for bank in range(shape.banks):
        at = (bank * STAR_ROWS + i) * LANES
        probe = probe_at + bank * shape.bank_heads * shape.width
        dots = row_dots(shape.bank_heads, node, space.probe, probe, shape.width)
        if block > 0:
            dots = dots + load(1, space.star_logits, at)
        elif i > 0:
            dots = dots + load(1, tables.idle, bank * LANES)
        store(space.star_logits, at, dots)
