"""The ring: every token attends to its neighbours, itself and the relay; all from table rows.

The projections are linear in a token's vector, so they stand folded in its row: keys, queries, and
the values of each head already multiplied by the output projection. Keys and values of the relay,
which is the mean of the tokens, are then means of rows. What entmax made zero is skipped.
"""

from typing import Any

from numpy import float32, int32, int64

from encoder.backends.kernel.entmax import ABSENT, ring_entmax
from encoder.backends.kernel.relay import meet
from encoder.simd.int16_pairs import add_scaled, head_logits, join_pairs
from encoder.simd.lanewise import maximum, nearest, to_float, to_int
from encoder.simd.loads import address, filled, load, load_rows, prefetch, store, store_halves
from encoder.simd.tile import HALVES, LANES
from encoder.support.jit import jit

# A weight of 1 as int16; tables.levels sees to it that no sum of weighted values overflows.
UNIT = float32(16384)
# Rows come from main memory, so those of the following text are sent for early, a few lines at a
# time between the steps of this one: all at once they would wait for each other.
ROW_PARTS = 8
PARTS_PER_SOLVE = 4
PARTS_PER_NODE = 5


@jit(fast=True, inline=True)
def fetch(shape: Any, table: Any, text: Any, first: int, last: int) -> None:
    """Ask for parts first to last of the rows of a text, each row cut into ROW_PARTS."""
    for part in range(first, min(last, text.length * ROW_PARTS)):
        token, within = part // ROW_PARTS, part % ROW_PARTS
        start = int64(text.ids[token]) * shape.row + within * shape.fetch_size
        for at in range(0, shape.fetch_size, HALVES):
            prefetch(table, start + at)


@jit(fast=True)
def fetch_embeddings(shape: Any, table: Any, text: Any) -> None:
    """Ask for what sum_rows reads of a text."""
    for i in range(text.length):
        row = int64(text.ids[i]) * shape.row
        for at in range(shape.embedding_at, shape.row, HALVES):
            prefetch(table, row + at)


@jit(fast=True)
def average_rows(shape: Any, tables: Any, space: Any, text: Any) -> None:
    """The mean of the tokens' keys and values, rounded: those of the relay.

    Rows times the pair (1, 0) add up the low halves of int32, rows times (0, 1) the high ones.
    """
    share = float32(1) / float32(text.length)
    size = shape.embedding_at - shape.key_at
    for block in range(shape.average_blocks):
        at = min(block * shape.average_size, size - shape.average_size)
        low = filled(shape.average_vectors, int32(0))
        high = filled(shape.average_vectors, int32(0))
        for i in range(text.length):
            row = int64(text.ids[i]) * shape.row + shape.key_at
            where = address(tables.table, row + at)
            low = add_scaled(low, where, tables.halves[0])
            high = add_scaled(high, where, tables.halves[1])
        low, high = nearest(to_float(low) * share), nearest(to_float(high) * share)
        store(space.relay, at, join_pairs(low, high))


@jit(fast=True)
def ring_logits(shape: Any, tables: Any, space: Any, text: Any, step: int) -> None:
    """logits[entry · step + token · slots + head], for every token, entry of its context and head.

    Each store writes 16 lanes; those beyond a bank's heads are overwritten by the next store.
    """
    n, table, own = text.length, tables.table, shape.window
    for i in range(n):
        row = int64(text.ids[i]) * shape.row
        for bank in range(shape.banks):
            at = bank * shape.bank_size
            out = i * shape.slots + bank * shape.bank_heads
            queries = load(shape.bank_vectors, table, row + at)
            for entry in range(shape.entries - 1):
                near = int64(text.ids[min(max(i + entry - own, 0), n - 1)]) * shape.row
                found = head_logits(shape, queries, table, near + shape.key_at + at)
                store(space.logits, entry * step + out, to_float(found) * tables.logit_scale)
            found = head_logits(shape, queries, space.relay, at)
            last = (shape.entries - 1) * step
            store(space.logits, last + out, to_float(found) * tables.logit_scale)
    for entry in range(shape.entries - 1):
        before, after = min(max(own - entry, 0), n), min(max(entry - own, 0), n)
        for k in range(before * shape.slots):
            space.logits[entry * step + k] = ABSENT
        for k in range((n - after) * shape.slots, n * shape.slots):
            space.logits[entry * step + k] = ABSENT


@jit(fast=True)
def ring_weights(shape: Any, tables: Any, space: Any, rows: int, step: int, following: Any) -> None:
    """Entmax of `rows` rows of logits, 16 at a time, as int16 of which UNIT is 1.

    That asks nothing of memory, so the rows of the following text are sent for meanwhile.
    """
    for entry in range(shape.entries):
        for k in range(rows, step):
            space.logits[entry * step + k] = float32(0)
    period = shape.slots * LANES
    for row in range(0, rows, LANES):
        sent = row // LANES * PARTS_PER_SOLVE
        fetch(shape, tables.table, following, sent, sent + PARTS_PER_SOLVE)
        logits = load_rows(shape.entries, space.logits, row, step)
        scale = load(1, tables.ring_scale, row % period)
        weights = ring_entmax(shape.window, logits, scale)
        store_halves(space.weights, row, step, to_int(weights * UNIT + float32(0.5)))


@jit(fast=True, inline=True)
def collect_entry(shape: Any, space: Any, count: int, start: int, at: int) -> Any:
    """List the values of one entry of a context that have a weight; how many there now are."""
    for pair in range(shape.pairs):
        share = space.weight_pairs[at // 2 + pair]
        space.places[count] = start + pair * shape.pair_bytes
        space.shares[count] = share
        count += share != 0
    return count


@jit(fast=True, inline=True)
def collect(shape: Any, tables: Any, space: Any, text: Any, i: int, step: int) -> Any:
    """List the addresses and weights of all values, two heads each, that token i attends to."""
    count, at = 0, i * shape.slots
    first, last = max(shape.window - i, 0), min(text.length + shape.window - i, shape.entries - 1)
    for entry in range(first, last):
        row = int64(text.ids[i + entry - shape.window]) * shape.row
        start = address(tables.table, row + shape.value_at)
        count = collect_entry(shape, space, count, start, entry * step + at)
    start = address(space.relay, shape.value_at - shape.key_at)
    return collect_entry(shape, space, count, start, (shape.entries - 1) * step + at)


@jit(fast=True, inline=True)
def ring_node(shape: Any, tables: Any, space: Any, count: int, column: int) -> Any:
    """One block of a token's new vector: its values, weighted and summed as integers."""
    total = filled(shape.block_vectors, int32(0))
    for k in range(count):
        total = add_scaled(total, space.places[k] + 4 * column, space.shares[k])
    node = to_float(total) * load(shape.block_vectors, tables.node_scale, column)
    return node + load(shape.block_vectors, tables.node_bias, column)


@jit(fast=True)
def ring_nodes(
    shape: Any, tables: Any, space: Any, text: Any, slot: int, step: int, following: Any
) -> None:
    """The tokens' new vectors, their maximum, and, while in registers, their logits in the star."""
    peak_at, probe_at = slot * shape.width, slot * shape.slots * shape.width
    for column in range(0, shape.width, LANES):
        store(space.peak, peak_at + column, filled(1, ABSENT))
    sent = (text.length * shape.slots + LANES - 1) // LANES * PARTS_PER_SOLVE
    for i in range(text.length):
        fetch(shape, tables.table, following, sent, sent + PARTS_PER_NODE)
        sent += PARTS_PER_NODE
        count = collect(shape, tables, space, text, i, step)
        for block in range(shape.blocks):
            column = block * shape.block_width
            node = ring_node(shape, tables, space, count, column)
            store(space.nodes, i * shape.width + column, node)
            peak = load(shape.block_vectors, space.peak, peak_at + column)
            store(space.peak, peak_at + column, maximum(peak, node))
            meet(shape, tables, space, node, probe_at + column, 1 + i, block)
    fetch(shape, tables.table, following, sent, following.length * ROW_PARTS)
