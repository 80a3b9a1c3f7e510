"""From a product with y back to every token, by the tables and the memory of the kernel, compiled.

The kernel reads a text as it does for an embedding, and leaves behind what every attention looked
at. From there back no matrix is needed: what a token gave through a head of the ring is the product
of its folded values with what comes back from its readers. So the parts add up to the kernel's y.
"""

from typing import Any, NamedTuple

from numpy import float32, int32, int64, sqrt

from encoder.backends.kernel.arrays import TEXTS
from encoder.backends.kernel.encode import begin_block, finish, read_text
from encoder.backends.kernel.relay import STAR_ROWS, star_outputs
from encoder.model.weights import F32, I32, I64
from encoder.simd.across import sum_registers
from encoder.simd.lanewise import to_float
from encoder.simd.loads import filled, load, load_halves, store
from encoder.simd.pointers import bare
from encoder.simd.tile import LANES
from encoder.support.jit import jit

HALF_BITS = int32(16)


class Asked(NamedTuple):
    """The pairs of a text and an article, the articles' rows, and what is to be told."""

    pairs: I64  # [pair_count, 2]
    pair_count: int
    rows: F32  # [articles, width], 0 beyond the model's own
    ends: I64  # [pair_count + 1], the parts of pair k are parts[ends[k]:ends[k + 1]]
    parts: F32  # each token's part of the cosine of its text's y with the row; to be written


class Projections(NamedTuple):
    """What the way back reads beside the kernel's tables, padded to whole blocks."""

    pairs: I32  # the table, in each number the values of two heads
    output: F32  # [dim · result_width], of the star
    values: F32  # [inner · width], of the star


class Way(NamedTuple):
    """The working memory of the way back."""

    top: I64  # [width], which node is the maximum, the first among equals
    results: F32  # [result_width], what comes back to the results of the star's heads
    heads: F32  # [articles · slots · width], what comes back to what they attended to
    nodes: F32  # [tokens · width], what comes back to a node
    relay: F32  # [slots · width], what comes back to the relay by a head of the ring
    mean: F32  # [width], what comes back to the relay by the star
    shares: F32  # [tokens], each token's part of the residual's mean
    lanes: F32  # [16]
    y: F32  # [TEXTS · dim], and before that what is asked of the star


class Pair(NamedTuple):
    """A text that was read, and what is asked back for one article."""

    ids: Any
    length: int
    step: int  # from one entry of the ring's weights to the next
    row: Any  # [width]
    heads: Any  # [slots · width]


@jit()
def step_of(shape: Any, length: int) -> int:
    """From one entry of the ring's weights to the next, as the kernel leaves them."""
    return int((length * shape.slots + 2 * LANES - 1) // LANES * LANES)


@jit(fast=True, inline=True)
def half(tables: Any, row: Any, d: int) -> Any:
    """What comes back to the maximum, and to the star's new vector, in one dimension."""
    return row[d] * tables.gain[d] * float32(0.5)


@jit(fast=True)
def add_rows(shape: Any, rows: Any, width: int, count: int, factors: Any, out: Any) -> None:
    """Write the sum of so many rows, each times its factor."""
    for column in range(0, width, shape.block_width):
        total = filled(shape.block_vectors, float32(0))
        for k in range(count):
            total = total + load(shape.block_vectors, rows, k * width + column) * factors[k]
        store(out, column, total)


@jit(fast=True)
def to_heads(shape: Any, tables: Any, held: Any, row: Any, way: Any, heads: Any) -> None:
    """What comes back to what each head of the star attended to, for one article."""
    for d in range(shape.dim):
        way.y[d] = half(tables, row, d)
    add_rows(shape, held.output, shape.result_width, shape.dim, way.y, way.results)
    for head in range(shape.heads):
        first, target = head * shape.head_dim, heads + head * shape.width
        values = held.values + first * shape.width
        add_rows(shape, values, shape.width, shape.head_dim, way.results + first, target)


@jit(fast=True, inline=True)
def share_out(texts: Any, text: Any, shares: Any) -> None:
    """Each token's part of the residual's mean; 0 where there is none."""
    norm = float32(0)
    for i in range(text.length):
        if texts.residual:
            norm += texts.gates[text.ids[i]] * texts.places[i]
    for i in range(text.length):
        shares[i] = float32(0)
        if texts.residual:
            shares[i] = texts.gates[text.ids[i]] * texts.places[i] / norm


@jit(fast=True, inline=True)
def highest(shape: Any, space: Any, slot: int, length: int, top: Any) -> None:
    """Which node is the maximum in each dimension, the first among equals."""
    peak = space.peak + slot * shape.width
    for i in range(length - 1, -1, -1):
        for d in range(shape.width):
            if space.nodes[i * shape.width + d] == peak[d]:
                top[d] = i


@jit(fast=True, inline=True)
def by_star(shape: Any, space: Any, pair: Any, entry: int, column: int) -> Any:
    """What comes back by the star to the relay, its entry 0, or to node i, entry 1 + i."""
    total = filled(shape.block_vectors, float32(0))
    for head in range(shape.heads):
        bank, lane = head // shape.bank_heads, head % shape.bank_heads
        weight = space.star_logits[(bank * STAR_ROWS + entry) * LANES + lane]
        if weight != 0:
            asked = load(shape.block_vectors, pair.heads, head * shape.width + column)
            total = total + asked * weight
    return total


@jit(fast=True, inline=True)
def by_node(shape: Any, space: Any, way: Any, i: int, entry_at: int, column: int) -> Any:
    """What comes back from node i to what it looked at with the weight of the ring there."""
    node = load(shape.block_vectors, way.nodes, i * shape.width + column)
    return node * float32(space.weights[entry_at])


@jit(fast=True, inline=True)
def to_nodes(shape: Any, tables: Any, space: Any, pair: Any, way: Any) -> None:
    """What comes back to every node, by the star and by the maximum, on its integers' scale."""
    for column in range(0, shape.width, shape.block_width):
        scale = load(shape.block_vectors, tables.node_scale, column)
        for i in range(pair.length):
            back = by_star(shape, space, pair, 1 + i, column) * scale
            store(way.nodes, i * shape.width + column, back)
    for d in range(shape.dim):
        back = half(tables, pair.row, d) * tables.node_scale[d]
        way.nodes[way.top[d] * shape.width + d] += back


@jit(fast=True, inline=True)
def to_relay(shape: Any, tables: Any, space: Any, pair: Any, way: Any) -> None:
    """What comes back to each token of the mean: by every head of the ring, and by the star."""
    last, part = (shape.entries - 1) * pair.step, float32(1) / float32(pair.length)
    for column in range(0, shape.width, shape.block_width):
        for head in range(shape.heads):
            total = filled(shape.block_vectors, float32(0))
            for i in range(pair.length):
                at = last + i * shape.slots + head
                if space.weights[at] != 0:
                    total = total + by_node(shape, space, way, i, at, column)
            store(way.relay, head * shape.width + column, total * part)
        store(way.mean, column, by_star(shape, space, pair, 0, column) * part)


@jit(fast=True, inline=True)
def to_value(shape: Any, space: Any, pair: Any, way: Any, j: int, head: int, column: int) -> Any:
    """What comes back to the value of token j in a head of the ring: one block."""
    total = load(shape.block_vectors, way.relay, head * shape.width + column)
    for i in range(max(0, j - shape.window), min(pair.length, j + shape.window + 1)):
        at = (j - i + shape.window) * pair.step + i * shape.slots + head
        if space.weights[at] != 0:
            total = total + by_node(shape, space, way, i, at, column)
    return total


@jit(fast=True, inline=True)
def value_of(shape: Any, held: Any, row: int, head: int, column: int) -> Any:
    """The folded value of a row in one head: one block, out of the halves where two heads stand."""
    place = (row + shape.value_at) // 2 + head // 2 * shape.width + column
    both = load(shape.block_vectors, held.pairs, place)
    return to_float((both << (HALF_BITS * int32(1 - head % 2))) >> HALF_BITS)


@jit(fast=True, inline=True)
def part_of(shape: Any, tables: Any, held: Any, space: Any, pair: Any, way: Any, j: int) -> Any:
    """The part of token j: its folded values and its embedding times what comes back to them."""
    row, sums = int64(pair.ids[j]) * shape.row, filled(1, float32(0))
    for column in range(0, shape.width, shape.block_width):
        for head in range(shape.heads):
            back = to_value(shape, space, pair, way, j, head, column)
            sums = sums + sum_registers(value_of(shape, held, row, head, column) * back)
        back = load(shape.block_vectors, pair.row, column) * way.shares[j]
        back = back + load(shape.block_vectors, way.mean, column)
        back = back * load(shape.block_vectors, tables.sum_scale, column)
        at = row + shape.embedding_at + column
        embedding = to_float(load_halves(shape.block_vectors, tables.table, at))
        sums = sums + sum_registers(embedding * back)
    return sums


@jit(fast=True, inline=True)
def write_parts(
    shape: Any, tables: Any, held: Any, space: Any, pair: Any, way: Any, out: Any
) -> None:
    """Write the parts of a pair's tokens in its product with y."""
    to_nodes(shape, tables, space, pair, way)
    to_relay(shape, tables, space, pair, way)
    for j in range(pair.length):
        store(way.lanes, 0, part_of(shape, tables, held, space, pair, way, j))
        out[j] = float32(0)
        for lane in range(LANES):
            out[j] += way.lanes[lane]


@jit(fast=True, inline=True)
def pair_of(shape: Any, text: Any, asked: Any, way: Any, k: int) -> Any:
    """Pair k, whose text was just read."""
    at, step = asked.pairs[2 * k + 1] * shape.width, step_of(shape, text.length)
    return Pair(text.ids, text.length, step, asked.rows + at, way.heads + at * shape.slots)


@jit(fast=True, inline=True)
def end_block(
    shape: Any, tables: Any, space: Any, texts: Any, asked: Any, way: Any, first: int, block: int
) -> None:
    """Divide the parts of a block's texts by the lengths of their y."""
    star_outputs(shape, tables, space, block)
    for slot in range(block):
        finish(shape, tables, space, slot, texts.residual, way.y + slot * shape.dim)
    for k in range(asked.pair_count):
        slot = asked.pairs[2 * k] - first
        if 0 <= slot < block:
            square = float32(0)
            for d in range(shape.dim):
                square += way.y[slot * shape.dim + d] * way.y[slot * shape.dim + d]
            scale = float32(1) / sqrt(square) if square > 0 else float32(0)
            for i in range(asked.ends[k], asked.ends[k + 1]):
                asked.parts[i] = asked.parts[i] * scale


@jit(fast=True)
def explain_texts(
    shape: Any, held: Any, work: Any, given: Any, asks: Any, more: Any, memory: Any
) -> None:
    """Every text is read once, then gone back through for each article that is asked."""
    tables, space, texts, asked = bare(held), bare(work), bare(given), bare(asks)
    back, way = bare(more), bare(memory)
    for article in range(len(asks.rows)):
        row, heads = article * shape.width, article * shape.slots * shape.width
        to_heads(shape, tables, back, asked.rows + row, way, way.heads + heads)
    for first in range(0, texts.number, TEXTS):
        block = min(TEXTS, texts.number - first)
        begin_block(shape, tables, space, texts, first, block)
        for slot in range(block):
            text = read_text(shape, tables, space, texts, first + slot, slot)
            highest(shape, space, slot, text.length, way.top)
            share_out(texts, text, way.shares)
            for k in range(asked.pair_count):
                if asked.pairs[2 * k] == first + slot and text.length > 0:
                    pair = pair_of(shape, text, asked, way, k)
                    write_parts(shape, tables, back, space, pair, way, asked.parts + asked.ends[k])
        end_block(shape, tables, space, texts, asked, way, first, block)
