"""The attentions of the Star Transformer and their way back, over ragged texts, compiled.

Every text is worked on by itself, in one order, so that its bits are the same in any batch.
"""

import numpy as np

from encoder.backends.kernel.entmax import ABSENT, star_entmax
from encoder.model.weights import F32, I64
from encoder.simd.loads import load
from encoder.simd.pointers import bare
from encoder.simd.tile import LANES, up
from encoder.support.jit import jit


def scales_of(alpha: F32) -> F32:
    """α − 1 of every head, on whole registers; lanes without a head have 1."""
    scales = np.ones(up(len(alpha), LANES), np.float32)
    scales[: len(alpha)] = alpha - 1
    return scales


@jit()
def sum_rows(rows: F32, offsets: I64) -> F32:
    """The sum of every text's rows, in order: [texts, d]."""
    out = np.zeros((len(offsets) - 1, rows.shape[1]), np.float32)
    for text in range(len(out)):
        for i in range(offsets[text], offsets[text + 1]):
            for d in range(rows.shape[1]):
                out[text, d] += rows[i, d]
    return out


@jit()
def highest(rows: F32, offsets: I64) -> I64:
    """Which row of every text is the highest in each column, the first among equals: [texts, d]."""
    out = np.zeros((len(offsets) - 1, rows.shape[1]), np.int64)
    for text in range(len(out)):
        out[text] = offsets[text]
        for i in range(offsets[text] + 1, offsets[text + 1]):
            for d in range(rows.shape[1]):
                if rows[i, d] > rows[out[text, d], d]:
                    out[text, d] = i
    return out


@jit(fast=True)
def entmax(z: F32, scales: F32, scratch: F32) -> None:
    """α-entmax over the entries of z [banks, entries, lanes], in place."""
    for bank in range(len(z)):
        heads = load(1, scales, bank * LANES)
        star_entmax(bare(z[bank]), bare(scratch[0]), bare(scratch[1]), 0, z.shape[1], heads)


@jit(fast=True)
def inner(x: F32, i: int, y: F32, j: int, start: int, width: int) -> np.float32:
    """The product of row i of x and row j of y over one head."""
    total = np.float32(0)
    for k in range(start, start + width):
        total += x[i, k] * y[j, k]
    return total


@jit(fast=True)
def add_head(factor: np.float32, x: F32, i: int, out: F32, j: int, start: int, width: int) -> None:
    """Row j of out + factor · row i of x over one head; nothing is left out but nothings."""
    if factor != 0:
        for k in range(start, start + width):
            out[j, k] += factor * x[i, k]


@jit(fast=True)
def ring_attention(
    offsets: I64, window: int, heads: int, scales: F32, query: F32, key: F32, value: F32,
    first_key: F32, first_value: F32, relay_key: F32, relay_value: F32,
) -> tuple[F32, F32]:  # fmt: skip
    """Every token looks around: its attention [tokens, heads, 2c+3], and what it saw."""
    columns, width = 2 * window + 3, query.shape[1] // heads
    shrink = np.float32(width**-0.5)
    p = np.zeros((len(query), heads, columns), np.float32)
    mixed = np.zeros_like(query)
    z = np.zeros((len(scales) // LANES, columns, LANES), np.float32)
    scratch = np.zeros((2, columns, LANES), np.float32)
    for text in range(len(offsets) - 1):
        begin, end = offsets[text], offsets[text + 1]
        for i in range(begin, end):
            for head in range(heads):
                bank, lane, start = head // LANES, head % LANES, head * width
                for c in range(2 * window + 1):
                    j = i + c - window
                    z[bank, c, lane] = ABSENT
                    if begin <= j < end:
                        z[bank, c, lane] = inner(query, i, key, j, start, width) * shrink
                z[bank, columns - 2, lane] = inner(query, i, first_key, i, start, width) * shrink
                z[bank, columns - 1, lane] = inner(query, i, relay_key, text, start, width) * shrink
            entmax(z, scales, scratch)
            for head in range(heads):
                start = head * width
                for c in range(columns):
                    p[i, head, c] = z[head // LANES, c, head % LANES]
                for j in range(max(begin, i - window), min(end, i + window + 1)):
                    add_head(p[i, head, j - i + window], value, j, mixed, i, start, width)
                add_head(p[i, head, columns - 2], first_value, i, mixed, i, start, width)
                add_head(p[i, head, columns - 1], relay_value, text, mixed, i, start, width)
    return p, mixed


@jit(fast=True)
def star_attention(
    offsets: I64, heads: int, scales: F32, query: F32, h: F32, relay: F32, key: F32, value: F32
) -> tuple[F32, F32, F32]:
    """The relay looks at itself [texts, heads], at its tokens [tokens, heads], and what it saw."""
    dim, texts, width = h.shape[1], len(offsets) - 1, query.shape[1] // heads
    shrink = np.float32(width**-0.5)
    own, others = np.zeros((texts, heads), np.float32), np.zeros((len(h), heads), np.float32)
    seen = np.zeros_like(query)
    for text in range(texts):
        begin, count = offsets[text], offsets[text + 1] - offsets[text]
        z = np.zeros((len(scales) // LANES, 1 + count, LANES), np.float32)
        scratch = np.zeros((2, 1 + count, LANES), np.float32)
        into, mixed = np.zeros((heads, dim), np.float32), np.zeros((heads, dim), np.float32)
        for head in range(heads):
            bank, lane = head // LANES, head % LANES
            for k in range(head * width, (head + 1) * width):
                add_head(query[text, k], key, k, into, head, 0, dim)
            z[bank, 0, lane] = inner(into, head, relay, text, 0, dim) * shrink
            for i in range(count):
                z[bank, 1 + i, lane] = inner(into, head, h, begin + i, 0, dim) * shrink
        entmax(z, scales, scratch)
        for head in range(heads):
            bank, lane = head // LANES, head % LANES
            own[text, head] = z[bank, 0, lane]
            add_head(own[text, head], relay, text, mixed, head, 0, dim)
            for i in range(count):
                others[begin + i, head] = z[bank, 1 + i, lane]
                add_head(z[bank, 1 + i, lane], h, begin + i, mixed, head, 0, dim)
            for k in range(head * width, (head + 1) * width):
                seen[text, k] = inner(value, k, mixed, head, 0, dim)
    return own, others, seen


@jit(fast=True)
def pull_star(
    ends: I64, texts: I64, rows: I64, relay: F32, star: F32, back: F32, value: F32, to_h: F32
) -> F32:
    """Back through the star: adds to what goes to the tokens, and returns what to the relay."""
    heads, dim = relay.shape[1], to_h.shape[1]
    width = back.shape[1] // heads
    to_relay = np.zeros((len(texts), dim), np.float32)
    for pair in range(len(texts)):
        source = np.zeros((heads, dim), np.float32)
        for head in range(heads):
            for k in range(head * width, (head + 1) * width):
                add_head(back[pair, k], value, k, source, head, 0, dim)
            add_head(relay[texts[pair], head], source, head, to_relay, pair, 0, dim)
            for i in range(ends[pair], ends[pair + 1]):
                add_head(star[rows[i], head], source, head, to_h, i, 0, dim)
    return to_relay


@jit(fast=True)
def pull_ring(ends: I64, rows: I64, p: F32, value: F32) -> tuple[F32, F32, F32]:
    """Back through the ring: to the neighbours, the tokens themselves, and the relay."""
    heads, columns = p.shape[1:]
    window, width = (columns - 3) // 2, value.shape[1] // heads
    around, own = np.zeros_like(value), np.zeros_like(value)
    relay = np.zeros((len(ends) - 1, value.shape[1]), np.float32)
    for pair in range(len(ends) - 1):
        begin, end = ends[pair], ends[pair + 1]
        for i in range(begin, end):
            row = rows[i]
            for head in range(heads):
                start = head * width
                for j in range(max(begin, i - window), min(end, i + window + 1)):
                    add_head(p[row, head, j - i + window], value, i, around, j, start, width)
                add_head(p[row, head, columns - 2], value, i, own, i, start, width)
                add_head(p[row, head, columns - 1], value, i, relay, pair, start, width)
    return around, own, relay
