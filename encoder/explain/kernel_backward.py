"""From a product with y back to every token, by the tables and the memory of the kernel, compiled.

The kernel reads a text as it does for an embedding, and leaves behind what every attention looked
at. From there back no matrix is needed: what a token gave through a head of the ring is the product
of its folded values with what comes back from its readers. So the parts add up to the kernel's y.
"""

from typing import Any, NamedTuple

from numpy import float32, int32, int64

from encoder.backends.kernel.arrays import TEXTS
from encoder.backends.kernel.encode import encode_text, finish, text_at
from encoder.backends.kernel.relay import STAR_ROWS, star_outputs, star_probes, sum_gated, sum_rows
from encoder.model.weights import F32, I32, I64
from encoder.simd.across import sum_registers
from encoder.simd.lanewise import to_float
from encoder.simd.loads import filled, load, load_halves, store
from encoder.simd.pointers import bare
from encoder.simd.tile import LANES
from encoder.support.jit import jit

HALF_BITS = int32(16)


class FlatTexts(NamedTuple):
    """Texts side by side, none of them empty: text i is ids[offsets[i]:offsets[i + 1]]."""

    ids: I32
    offsets: I64
    residual: bool
    gates: F32  # [vocabulary], and
    places: F32  # by position, weigh the residual; both are empty where there is none
    shares: F32  # [tokens], each token's part of the residual's mean


class Asked(NamedTuple):
    """The pairs of a text and an article, text by text, and what is asked back for each article."""

    firsts: I64  # [texts + 1], the pairs of text i are firsts[i] to firsts[i + 1]
    rows: I64  # [pairs], the article
    begins: I64  # [pairs], where the pair's parts begin
    direct: F32  # [articles · width], by the residual, on the scale of an embedding's integers
    nodes: F32  # [articles · width], by the maximum
    heads: F32  # [articles · slots · width], by a head of the star


class Way(NamedTuple):
    """What the way back reads of the kernel's table, and its working memory."""

    values: I32  # the table, in each number the values of two heads
    top: I64  # [width], which node is the maximum, the first among equals
    nodes: F32  # [tokens · width], what comes back to a node
    relay: F32  # [slots · width], what comes back to the relay by a head of the ring
    mean: F32  # [width], what comes back to the relay by the star


class Pair(NamedTuple):
    """A text that was read, and what is asked back for one article."""

    ids: Any
    length: int
    step: int  # from one entry of the ring's weights to the next
    shares: Any  # [tokens]
    direct: Any  # [width]
    nodes: Any  # [width]
    heads: Any  # [slots · width]


@jit()
def step_of(shape: Any, length: int) -> int:
    """From one entry of the ring's weights to the next, as the kernel leaves them."""
    return int((length * shape.slots + 2 * LANES - 1) // LANES * LANES)


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
        way.nodes[way.top[d] * shape.width + d] += pair.nodes[d]


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
        scale = load(shape.block_vectors, tables.sum_scale, column)
        store(way.mean, column, by_star(shape, space, pair, 0, column) * scale * part)


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
def value_of(shape: Any, way: Any, row: int, head: int, column: int) -> Any:
    """The folded value of a row in one head: one block, out of the halves where two heads stand."""
    place = (row + shape.value_at) // 2 + head // 2 * shape.width + column
    both = load(shape.block_vectors, way.values, place)
    return to_float((both << (HALF_BITS * int32(1 - head % 2))) >> HALF_BITS)


@jit(fast=True, inline=True)
def part_of(shape: Any, tables: Any, space: Any, pair: Any, way: Any, j: int) -> Any:
    """The part of token j: its folded values and its embedding times what comes back to them."""
    row, sums = int64(pair.ids[j]) * shape.row, filled(1, float32(0))
    for column in range(0, shape.width, shape.block_width):
        for head in range(shape.heads):
            back = to_value(shape, space, pair, way, j, head, column)
            sums = sums + sum_registers(value_of(shape, way, row, head, column) * back)
        back = load(shape.block_vectors, pair.direct, column) * pair.shares[j]
        back = back + load(shape.block_vectors, way.mean, column)
        at = row + shape.embedding_at + column
        embedding = to_float(load_halves(shape.block_vectors, tables.table, at))
        sums = sums + sum_registers(embedding * back)
    return sums


@jit(fast=True, inline=True)
def begin_block(
    shape: Any, tables: Any, space: Any, texts: Any, first: int, block: int, count: int
) -> None:
    """What the kernel does for a block of texts before it reads them one by one."""
    for slot in range(block):
        text = text_at(texts.ids, texts.offsets, count, first + slot)
        sum_rows(shape, tables, space, text, slot)
        if texts.residual:
            sum_gated(shape, tables, space, text, slot, texts.gates, texts.places)
    star_probes(shape, tables, space, block)


@jit(fast=True, inline=True)
def read_text(
    shape: Any, tables: Any, space: Any, texts: Any, number: int, slot: int, count: int
) -> Any:
    """Read a text of the block, and send for those that follow."""
    text = text_at(texts.ids, texts.offsets, count, number)
    following = text_at(texts.ids, texts.offsets, count, number + 1)
    later = text_at(texts.ids, texts.offsets, count, number + TEXTS)
    encode_text(shape, tables, space, slot, text, following, later)
    return text


@jit(fast=True, inline=True)
def pair_of(shape: Any, texts: Any, asked: Any, number: int, k: int) -> Any:
    """Pair k, whose text this is."""
    first, at = texts.offsets[number], asked.rows[k] * shape.width
    length = texts.offsets[number + 1] - first
    direct, nodes, heads = asked.direct + at, asked.nodes + at, asked.heads + at * shape.slots
    ids, shares, step = texts.ids + first, texts.shares + first, step_of(shape, length)
    return Pair(ids, length, step, shares, direct, nodes, heads)


@jit(fast=True)
def explain_texts(
    shape: Any, held: Any, work: Any, given: Any, asks: Any, memory: Any, parts: F32, y: F32
) -> None:
    """Every text is read once, then gone back through for each article.

    A token's part of a pair's product with y are the 16 lanes of a row of `parts` together.
    """
    tables, space, texts, asked = bare(held), bare(work), bare(given), bare(asks)
    way, out, count = bare(memory), bare(parts), len(y)
    for first in range(0, count, TEXTS):
        block = min(TEXTS, count - first)
        begin_block(shape, tables, space, texts, first, block, count)
        for slot in range(block):
            number = first + slot
            text = read_text(shape, tables, space, texts, number, slot, count)
            highest(shape, space, slot, text.length, way.top)
            for k in range(asked.firsts[number], asked.firsts[number + 1]):
                pair = pair_of(shape, texts, asked, number, k)
                to_nodes(shape, tables, space, pair, way)
                to_relay(shape, tables, space, pair, way)
                for j in range(text.length):
                    part = part_of(shape, tables, space, pair, way, j)
                    store(out, (asked.begins[k] + j) * LANES, part)
        star_outputs(shape, tables, space, block)
        for slot in range(block):
            finish(shape, tables, space, slot, texts.residual, bare(y) + (first + slot) * shape.dim)
