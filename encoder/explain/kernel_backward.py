"""From a product with y back to every token, by the tables and the memory of the kernel, compiled.

The kernel reads a text as it does for an embedding, and leaves behind what every attention looked
at. From there back no matrix is needed: what a token gave through a head of the ring is the product
of its folded values with what comes back from its readers. So the parts add up to the kernel's y.
"""

from typing import Any, NamedTuple

import numpy as np
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


class Texts(NamedTuple):
    """Texts side by side, none of them empty: text i is ids[offsets[i]:offsets[i + 1]]."""

    ids: I32
    offsets: I64
    gates: F32  # [vocabulary], and
    places: F32  # by position, weigh the residual; both are empty where there is none


class Asked(NamedTuple):
    """The pairs of a text and an article, text by text, and what is asked back for each article."""

    firsts: I64  # [texts + 1], the pairs of text i are firsts[i] to firsts[i + 1]
    rows: I64  # [pairs], the article
    begins: I64  # [pairs], where the pair's parts begin
    direct: F32  # [articles · width], by the residual, on the scale of an embedding's integers
    nodes: F32  # [articles · width], by the maximum
    heads: F32  # [articles · slots · width], by a head of the star


class Way(NamedTuple):
    """The working memory of the way back."""

    top: I64  # [width], which node is the maximum, the first among equals
    shares: F32  # [tokens], each token's part of the residual's mean
    nodes: F32  # [tokens · width], what comes back to a node
    relay: F32  # [slots · width], what comes back to the relay by a head of the ring
    mean: F32  # [width], what comes back to the relay by the star
    lanes: F32  # [16]
    y: F32  # [dim]


class Back(NamedTuple):
    """What is asked back for one article."""

    direct: Any  # [width]
    nodes: Any  # [width]
    heads: Any  # [slots · width]


@jit(fast=True)
def star_sources(half: F32, output: F32, value: F32, back: F32, width: int, out: F32) -> None:
    """out[article, head] += half · Wo_h · Wv_h, for heads of this width; `back` are zeros.

    Row after row of the matrices, so that an article's bits do not depend on those beside it.
    """
    dim, inner = output.shape
    for article in range(len(half)):
        for d in range(dim):
            for k in range(inner):
                back[article, k] += half[article, d] * output[d, k]
        for k in range(inner):
            for d in range(dim):
                out[article, k // width, d] += back[article, k] * value[k, d]


@jit(fast=True, inline=True)
def highest(shape: Any, space: Any, slot: int, length: int, top: Any) -> None:
    """Which node is the maximum in each dimension, the first among equals."""
    peak = space.peak + slot * shape.width
    for i in range(length - 1, -1, -1):
        for d in range(shape.width):
            if space.nodes[i * shape.width + d] == peak[d]:
                top[d] = i


@jit(fast=True, inline=True)
def share(text: Any, gates: Any, places: Any, residual: bool, shares: Any) -> None:
    """Each token's part of the residual's mean; without one, nothing."""
    total = float32(0)
    for i in range(text.length):
        shares[i] = float32(0)
        if residual:
            shares[i] = gates[text.ids[i]] * places[i]
        total += shares[i]
    for i in range(text.length):
        if residual:
            shares[i] /= total


@jit(fast=True, inline=True)
def to_nodes(shape: Any, tables: Any, space: Any, length: int, at: Any, way: Any) -> None:
    """What comes back to every node, by the star and by the maximum, on its integers' scale."""
    for i in range(length):
        weights = space.star_logits + (1 + i) * LANES
        for column in range(0, shape.width, shape.block_width):
            total = filled(shape.block_vectors, float32(0))
            for head in range(shape.heads):
                bank, lane = head // shape.bank_heads, head % shape.bank_heads
                weight = weights[bank * STAR_ROWS * LANES + lane]
                if weight != 0:
                    total = (
                        total
                        + load(shape.block_vectors, at.heads, head * shape.width + column) * weight
                    )
            total = total * load(shape.block_vectors, tables.node_scale, column)
            store(way.nodes, i * shape.width + column, total)
    for d in range(shape.dim):
        way.nodes[way.top[d] * shape.width + d] += at.nodes[d]


@jit(fast=True, inline=True)
def to_relay(
    shape: Any, tables: Any, space: Any, length: int, step: int, at: Any, way: Any
) -> None:
    """What comes back to each token of the mean: by every head of the ring, and by the star."""
    last, part = (shape.entries - 1) * step, float32(1) / float32(length)
    for column in range(0, shape.width, shape.block_width):
        for head in range(shape.heads):
            total = filled(shape.block_vectors, float32(0))
            for i in range(length):
                weight = space.weights[last + i * shape.slots + head]
                if weight != 0:
                    node = load(shape.block_vectors, way.nodes, i * shape.width + column)
                    total = total + node * float32(weight)
            store(way.relay, head * shape.width + column, total * part)
        total = filled(shape.block_vectors, float32(0))
        for head in range(shape.heads):
            bank, lane = head // shape.bank_heads, head % shape.bank_heads
            weight = space.star_logits[bank * STAR_ROWS * LANES + lane]
            if weight != 0:
                total = (
                    total
                    + load(shape.block_vectors, at.heads, head * shape.width + column) * weight
                )
        total = total * load(shape.block_vectors, tables.sum_scale, column)
        store(way.mean, column, total * part)


@jit(fast=True, inline=True)
def to_head(
    shape: Any, space: Any, text: Any, j: int, step: int, head: int, column: int, way: Any
) -> Any:
    """What comes back to the values of token j by a head of the ring: one block."""
    total = load(shape.block_vectors, way.relay, head * shape.width + column)
    for i in range(max(0, j - shape.window), min(text.length, j + shape.window + 1)):
        weight = space.weights[(j - i + shape.window) * step + i * shape.slots + head]
        if weight != 0:
            node = load(shape.block_vectors, way.nodes, i * shape.width + column)
            total = total + node * float32(weight)
    return total


@jit(fast=True, inline=True)
def part_of(
    shape: Any,
    tables: Any,
    space: Any,
    values: Any,
    text: Any,
    j: int,
    step: int,
    at: Any,
    way: Any,
) -> np.float32:
    """The part of token j: its folded values and its embedding times what comes back to them."""
    row, sums = int64(text.ids[j]) * shape.row, filled(1, float32(0))
    for column in range(0, shape.width, shape.block_width):
        for head in range(shape.heads):
            back = to_head(shape, space, text, j, step, head, column, way)
            place = (row + shape.value_at) // 2 + head // 2 * shape.width + column
            both = load(shape.block_vectors, values, place)
            own = (both << (HALF_BITS * int32(1 - head % 2))) >> HALF_BITS
            sums = sums + sum_registers(to_float(own) * back)
        direct = load(shape.block_vectors, at.direct, column) * way.shares[j]
        direct = direct + load(shape.block_vectors, way.mean, column)
        embedding = load_halves(
            shape.block_vectors, tables.table, row + shape.embedding_at + column
        )
        sums = sums + sum_registers(to_float(embedding) * direct)
    store(way.lanes, 0, sums)
    total = float32(0)
    for lane in range(LANES):
        total += way.lanes[lane]
    return total


@jit(fast=True, inline=True)
def divide(parts: Any, count: int, y: Any, dim: int) -> None:
    """Parts of a product with y as parts of a cosine; of a y of length 0, nothing."""
    square = float32(0)
    for d in range(dim):
        square += y[d] * y[d]
    factor = float32(0)
    if square > 0:
        factor = float32(1) / np.sqrt(square)
    for i in range(count):
        parts[i] *= factor


@jit(fast=True, inline=True)
def explain_text(
    shape: Any, tables: Any, space: Any, values: Any, text: Any, at: Any, way: Any, parts: Any
) -> None:
    """Each token's part of the product of an article's row with y."""
    step = (text.length * shape.slots + 2 * LANES - 1) // LANES * LANES
    to_nodes(shape, tables, space, text.length, at, way)
    to_relay(shape, tables, space, text.length, step, at, way)
    for j in range(text.length):
        parts[j] = part_of(shape, tables, space, values, text, j, step, at, way)


@jit(fast=True, inline=True)
def read_block(
    shape: Any, tables: Any, space: Any, texts: Any, first: int, block: int, count: int,
    residual: bool,
) -> None:  # fmt: skip
    """What the kernel does for a block of texts before it reads them one by one."""
    for slot in range(block):
        text = text_at(texts.ids, texts.offsets, count, first + slot)
        sum_rows(shape, tables, space, text, slot)
        if residual:
            sum_gated(shape, tables, space, text, slot, texts.gates, texts.places)
    star_probes(shape, tables, space, block)


@jit(fast=True)
def explain_texts(
    shape: Any, held: Any, work: Any, rows: Any, given: Any, asks: Any, memory: Any, out: Any
) -> None:
    """The parts of all pairs: every text is read once, then gone back through for each article."""
    tables, space, values, texts = bare(held), bare(work), bare(rows), bare(given)
    asked, way, parts = bare(asks), bare(memory), bare(out)
    count, residual = len(given.offsets) - 1, len(given.gates) > 0
    for first in range(0, count, TEXTS):
        block = min(TEXTS, count - first)
        read_block(shape, tables, space, texts, first, block, count, residual)
        for slot in range(block):
            number = first + slot
            text = text_at(texts.ids, texts.offsets, count, number)
            following = text_at(texts.ids, texts.offsets, count, number + 1)
            later = text_at(texts.ids, texts.offsets, count, number + TEXTS)
            encode_text(shape, tables, space, slot, text, following, later)
            highest(shape, space, slot, text.length, way.top)
            share(text, texts.gates, texts.places, residual, way.shares)
            for pair in range(asked.firsts[number], asked.firsts[number + 1]):
                at = asked.rows[pair] * shape.width
                heads = asked.heads + at * shape.slots
                back = Back(asked.direct + at, asked.nodes + at, heads)
                into = parts + asked.begins[pair]
                explain_text(shape, tables, space, values, text, back, way, into)
        star_outputs(shape, tables, space, block)
        for slot in range(block):
            number = first + slot
            length = texts.offsets[number + 1] - texts.offsets[number]
            finish(shape, tables, space, slot, residual, way.y)
            for pair in range(asked.firsts[number], asked.firsts[number + 1]):
                divide(parts + asked.begins[pair], length, way.y, shape.dim)
