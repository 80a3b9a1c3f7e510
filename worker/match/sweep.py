"""Compares posts with all seeds, a part of both at a time, so that scores stay in the cache.

Scores written to and read from main memory cost as much as the products.
"""

from typing import Any, NamedTuple

import numpy as np

from encoder.model.weights import F32, I32, I64
from encoder.score.top import lowest_of_highest
from encoder.support.jit import jit
from worker.match.simd.registers import LANES, filled, highest_lane, largest, load, maximum
from worker.match.simd.rounded import FULL, I16, add_products

OUT_OF_REACH = np.float32(-2)


class Words(NamedTuple):
    """The words of some posts: those of post i are the entries indptr[i] to indptr[i + 1]."""

    indptr: I64
    slots: I32
    weights: F32


class Lists(NamedTuple):
    """The seeds of each word, in order: those of a slot begin at starts[slot]."""

    column: I32  # [SLOTS], the place of a common word in a row of the matrix, or -1
    starts: I32  # [SLOTS + 1]
    seeds: I32  # [entries]
    weights: F32  # [entries], their weights there, times the mix


class SweepLimits(NamedTuple):
    """By seed, the score from which a pair is checked, and that from which it surely matches."""

    cuts: F32  # [room]
    sure: F32  # [room]
    expiry: I64  # [k]
    most: int  # matches that are kept of a post
    reach: float  # how much of their order rounding may hide
    chosen: I64  # [m], seeds whose scores are returned


class SweepTotals(NamedTuple):
    """The totals of a sweep; `best` starts out of reach and the rest at zero."""

    best: F32  # [n], each post's highest score
    counts: I64  # [n], the seeds that a post is sure to match
    hits: I64  # [room], the posts that are sure to match a seed
    chosen: F32  # [n, m], their scores


@jit()
def sweep(
    tile: Any, levels: I16, words: Any, times: I64,
    cut: I16, scale: F32, lists: Any, limits: Any, seen: Any, posts_at_once: int, part: int,
) -> I64:  # fmt: skip
    """Compare all posts with all seeds: [post, seed, in doubt] of the pairs to check exactly.

    The posts' rows are in levels, padded to whole tiles.
    """
    triples, end, room = np.empty((64, 3), np.int64), 0, len(limits.cuts)
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
            scores, held = scores[: last - first], limits.expiry[low:high]
            hide_expired(scores, held, times[first:last])
            survey(scores, limits.cuts[low:high], len(held), seen.best[first:last], excess)
            copy_chosen(scores, limits.chosen, low, seen.chosen[first:last])
            triples, end = look_at(scores, limits, first, low, excess, least, seen, triples, end)
    return triples[:end].copy()


@jit()
def write_columns(words: Any, column: I32, levels: I16) -> None:
    """Write the levels of the words that have a column into the posts' rows."""
    for post in range(len(words.indptr) - 1):
        for e in range(words.indptr[post], words.indptr[post + 1]):
            at = column[words.slots[e]]
            if at >= 0:
                levels[post, at] = np.int16(np.rint(words.weights[e] * np.float32(FULL)))


@jit()
def begin_lists(words: Any, lists: Any, first: int, last: int, places: I64, ends: I64) -> None:
    """The begin and end of each word's list; empty for words with a column."""
    for e in range(words.indptr[first], words.indptr[last]):
        places[e] = ends[e] = 0
        slot = words.slots[e]
        if lists.column[slot] < 0:
            places[e], ends[e] = lists.starts[slot], lists.starts[slot + 1]


@jit()
def write_rare(
    words: Any, lists: Any, places: I64, ends: I64, first: int, last: int, low: int, out: F32
) -> None:
    """Write the products of the words in lists, for the seeds from `low` on.

    The lists are read from `places`, where the previous part stopped.
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
    """Put the scores with seeds that had expired at the post's time out of reach."""
    latest = times.max()
    for seed in range(len(expiry)):
        if expiry[seed] <= latest:
            for post in range(len(times)):
                if expiry[seed] <= times[post]:
                    scores[post, seed] = OUT_OF_REACH


@jit(fast=True)
def survey(scores: F32, cuts: F32, seeds: int, best: F32, excess: F32) -> None:
    """Raise each row's highest score, and write how far a score exceeds its cut at most."""
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
    """Copy the scores with chosen seeds in this part."""
    for at in range(len(chosen)):
        if low <= chosen[at] < low + scores.shape[1]:
            for post in range(len(scores)):
                out[post, at] = scores[post, chosen[at] - low]


@jit()
def look_at(
    scores: F32, limits: Any, first: int, low: int, excess: F32, least: F32, seen: Any,
    triples: I64, end: int,
) -> tuple[I64, int]:  # fmt: skip
    """Add [post, seed, in doubt] of the pairs to check exactly; count the certain ones.

    Of the certain pairs only those are added that may be among the highest `most`, given that
    rounding hides at most `reach`; of the pairs in doubt all.
    """
    width = scores.shape[1]
    cuts, sure = limits.cuts[low : low + width], limits.sure[low : low + width]
    columns, high = np.empty(width, np.int64), np.empty(width, np.float32)
    heap = np.empty(limits.most, np.float32)
    for post in range(len(scores)):
        if excess[post] < 0:
            continue
        row, certain = scores[post], 0
        number = reached(row, cuts, columns)
        for seed in columns[:number]:
            matches = row[seed] >= sure[seed]
            high[certain] = row[seed]
            seen.hits[low + seed] += matches
            certain += matches
        seen.counts[first + post] += certain
        if certain > limits.most:
            lowest = lowest_of_highest(high[:certain], heap) - limits.reach
            least[post] = max(least[post], lowest)
        for seed in columns[:number]:
            doubt = row[seed] < sure[seed]
            if doubt or row[seed] >= least[post]:
                if end == len(triples):
                    triples = longer(triples)
                triples[end, 0], triples[end, 1], triples[end, 2] = first + post, low + seed, doubt
                end += 1
    return triples, end


@jit()
def reached(scores: F32, cuts: F32, columns: I64) -> int:
    """Mark the scores that reach their cuts and count them; most groups have none.

    In the others no branch depends on a score: with half of them matching, branches would be
    mispredicted.
    """
    number = 0
    for group in range(0, len(scores), 2 * LANES):
        if highest_lane(largest(load(2, scores, group) - load(2, cuts, group))) < 0:
            continue
        for seed in range(group, group + 2 * LANES):
            columns[number] = seed
            number += scores[seed] >= cuts[seed]
    return number


@jit()
def longer(triples: I64) -> I64:
    """A copy with twice the capacity."""
    copy = np.empty((2 * len(triples), 3), np.int64)
    for i in range(len(triples)):
        for k in range(3):
            copy[i, k] = triples[i, k]
    return copy
