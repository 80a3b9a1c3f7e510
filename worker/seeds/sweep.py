"""Posts compared with all seeds, a part of both at a time: their scores stay in the cache.

A score that was written, summed up and looked at one after the other by way of main memory costs
as much as the products that it is made of.
"""

from typing import Any, NamedTuple

import numpy as np

from encoder.model.weights import F32, I32, I64
from encoder.simd.across import highest_lane, largest
from encoder.simd.lanewise import maximum
from encoder.simd.loads import filled, load
from encoder.simd.rounded import FULL, I16, add_products
from encoder.simd.tile import LANES
from encoder.support.jit import jit

OUT_OF_REACH = np.float32(-2)


class Words(NamedTuple):
    """The words of some posts: of post i the entries indptr[i] to indptr[i + 1]."""

    indptr: I64
    slots: I32
    weights: F32


class Lists(NamedTuple):
    """The seeds that hold a word, in order: those of a slot from starts[slot] on."""

    column: I32  # [SLOTS], where in a row of the matrix a common word stands, or -1
    starts: I32  # [SLOTS + 1]
    seeds: I32  # [entries]
    weights: F32  # [entries], their weights there, times the mix


class Asked(NamedTuple):
    """From where on a score is looked at, and from where on it is sure to match, by seed."""

    cuts: F32  # [room]
    sure: F32  # [room]
    expiry: I64  # [k]
    most: int  # matches that are kept of a post
    reach: float  # how much of their order rounding may hide
    chosen: I64  # [m], seeds whose scores are wanted


class Seen(NamedTuple):
    """What the sweep adds up; at first, `best` is out of reach and the rest zero."""

    best: F32  # [n], each post's highest score
    counts: I64  # [n], the seeds that a post is sure to match
    hits: I64  # [room], the posts that are sure to match a seed
    chosen: F32  # [n, m], the scores of those that are wanted


@jit()
def sweep(
    tile: Any, levels: I16, words: Any, times: I64,
    cut: I16, scale: F32, lists: Any, asked: Any, seen: Any, posts_at_once: int, part: int,
) -> I64:  # fmt: skip
    """Compare all posts with all seeds: [post, seed, in doubt] of what is to be looked at exactly.

    The posts' rows are in levels, as many as whole tiles need.
    """
    triples, end, room = np.empty((64, 3), np.int64), 0, len(asked.cuts)
    places, ends = np.empty((2, len(words.slots)), np.int64)
    memory = np.empty(posts_at_once * part, np.float32)
    excess, least = np.empty((2, posts_at_once), np.float32)
    for first in range(0, len(times), posts_at_once):
        last = min(first + posts_at_once, len(times))
        begin_lists(words, lists, first, last, places, ends)
        least[:] = OUT_OF_REACH
        for low in range(0, room, part):
            high = min(low + part, room)
            scores = memory[: posts_at_once * (high - low)].reshape(posts_at_once, high - low)
            write_rare(words, lists, places, ends, first, last, low, scores)
            add_products(tile, levels[first : first + posts_at_once], cut, scale, low, scores)
            scores, held = scores[: last - first], asked.expiry[low:high]
            hide_expired(scores, held, times[first:last])
            survey(scores, asked.cuts[low:high], len(held), seen.best[first:last], excess)
            copy_chosen(scores, asked.chosen, low, seen.chosen[first:last])
            triples, end = look_at(scores, asked, first, low, excess, least, seen, triples, end)
    return triples[:end].copy()


@jit()
def write_columns(words: Any, column: I32, levels: I16) -> None:
    """Put the levels of the words that have a column into the posts' rows."""
    for post in range(len(words.indptr) - 1):
        for e in range(words.indptr[post], words.indptr[post + 1]):
            at = column[words.slots[e]]
            if at >= 0:
                levels[post, at] = np.int16(np.rint(words.weights[e] * np.float32(FULL)))


@jit()
def begin_lists(words: Any, lists: Any, first: int, last: int, places: I64, ends: I64) -> None:
    """Where the list of each word of the posts begins and ends; nowhere if it has a column."""
    for e in range(words.indptr[first], words.indptr[last]):
        places[e] = ends[e] = 0
        slot = words.slots[e]
        if lists.column[slot] < 0:
            places[e], ends[e] = lists.starts[slot], lists.starts[slot + 1]


@jit()
def write_rare(
    words: Any, lists: Any, places: I64, ends: I64, first: int, last: int, low: int, out: F32
) -> None:
    """Write the products of the words in lists for the seeds from `low` on, as many as fit.

    The lists are read on from `places`, where the part before left off.
    """
    high, seeds, weights = low + out.shape[1], lists.seeds, lists.weights
    for post in range(first, last):
        scores = out[post - first]
        scores[:] = 0
        for e in range(words.indptr[post], words.indptr[post + 1]):
            at, end, weight = np.uint64(places[e]), np.uint64(ends[e]), words.weights[e]
            while at < end and seeds[at] < high:
                scores[np.uint64(seeds[at] - low)] += weight * weights[at]
                at += np.uint64(1)
            places[e] = at


@jit()
def hide_expired(scores: F32, expiry: I64, times: I64) -> None:
    """Put the scores with seeds that had expired at the time of the post out of reach."""
    latest = times.max()
    for seed in range(len(expiry)):
        if expiry[seed] <= latest:
            for post in range(len(times)):
                if expiry[seed] <= times[post]:
                    scores[post, seed] = OUT_OF_REACH


@jit(fast=True)
def survey(scores: F32, cuts: F32, seeds: int, best: F32, excess: F32) -> None:
    """Raise each row's highest score, and write by how much a score at most exceeds its cut."""
    whole = seeds - seeds % LANES
    for post in range(len(scores)):
        row = scores[post]
        top, most = filled(1, OUT_OF_REACH), filled(1, OUT_OF_REACH)
        for at in range(0, whole, LANES):
            score = load(1, row, at)
            top = maximum(top, score)
            most = maximum(most, score - load(1, cuts, at))
        best[post] = max(best[post], highest_lane(top))
        excess[post] = highest_lane(most)
        for seed in range(whole, seeds):
            best[post] = max(best[post], row[seed])
            excess[post] = max(excess[post], row[seed] - cuts[seed])


@jit()
def copy_chosen(scores: F32, chosen: I64, low: int, out: F32) -> None:
    """Keep the scores that are wanted, as far as they are in this part."""
    for at in range(len(chosen)):
        if low <= chosen[at] < low + scores.shape[1]:
            for post in range(len(scores)):
                out[post, at] = scores[post, chosen[at] - low]


@jit()
def look_at(
    scores: F32, asked: Any, first: int, low: int, excess: F32, least: F32, seen: Any,
    triples: I64, end: int,
) -> tuple[I64, int]:  # fmt: skip
    """Add [post, seed, in doubt] of what is to be looked at exactly; count what is sure.

    Of what is sure only that comes which may be among the highest `most`, as rounding hides no
    more than `reach`; of what is in doubt all.
    """
    width = scores.shape[1]
    cuts, sure = asked.cuts[low : low + width], asked.sure[low : low + width]
    found, high = np.empty(width, np.int64), np.empty(width, np.float32)
    for post in range(len(scores)):
        if excess[post] < 0:
            continue
        row, certain = scores[post], 0
        number = reached(row, cuts, found)
        for seed in found[:number]:
            matches = row[seed] >= sure[seed]
            high[certain] = row[seed]
            seen.hits[low + seed] += matches
            certain += matches
        seen.counts[first + post] += certain
        if certain > asked.most:
            lowest = lowest_of_best(high[:certain], asked.most) - asked.reach
            least[post] = max(least[post], lowest)
        for seed in found[:number]:
            doubt = row[seed] < sure[seed]
            if doubt or row[seed] >= least[post]:
                if end == len(triples):
                    triples = longer(triples)
                triples[end, 0], triples[end, 1], triples[end, 2] = first + post, low + seed, doubt
                end += 1
    return triples, end


@jit()
def reached(scores: F32, cuts: F32, found: I64) -> int:
    """Write which scores reach their cuts, and say how many; most groups of them have none.

    In the others no branch depends on a score: where half of them match, it would be guessed wrong.
    """
    number = 0
    for group in range(0, len(scores), 2 * LANES):
        if highest_lane(largest(load(2, scores, group) - load(2, cuts, group))) < 0:
            continue
        for seed in range(group, group + 2 * LANES):
            found[number] = seed
            number += scores[seed] >= cuts[seed]
    return number


@jit()
def lowest_of_best(values: F32, most: int) -> float:
    """The lowest of the highest `most` values; numba's np.partition compiles for five seconds."""
    heap = np.full(most, OUT_OF_REACH)  # the lowest on top
    for value in values:
        at, below = 0, 1
        if value <= heap[0]:
            continue
        while below < most:
            if below + 1 < most and heap[below + 1] < heap[below]:
                below += 1
            if heap[below] >= value:
                break
            heap[at] = heap[below]
            at, below = below, 2 * below + 1
        heap[at] = value
    return heap[0]  # type: ignore[no-any-return]


@jit()
def longer(triples: I64) -> I64:
    """A copy with room for twice as many."""
    copy = np.empty((2 * len(triples), 3), np.int64)
    for i in range(len(triples)):
        for k in range(3):
            copy[i, k] = triples[i, k]
    return copy
