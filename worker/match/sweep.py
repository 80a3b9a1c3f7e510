"""Compares posts with all seeds, a part of both at a time, so that scores stay in the cache.

Scores written to and read from main memory cost as much as the products.
"""

from typing import Any, NamedTuple

import numpy as np

from encoder.model.weights import F32, I32, I64
from encoder.score.exact import pair_score
from encoder.score.top import lowest_of_highest
from encoder.support.jit import jit
from encoder.support.pointers import pointers_to, prefetch
from worker.simd.registers import LANES, broadcast, highest_lane, largest, load, maximum
from worker.simd.rounded import add_products

OUT_OF_REACH = np.float32(-2)


class Lists(NamedTuple):
    """The seeds of each word, in order: those of a slot begin at starts[slot]."""

    column: I32  # [SLOTS], the place of a common word in a row of the matrix, or -1
    starts: I32  # [SLOTS + 1]
    seeds: I32  # [entries]
    weights: F32  # [entries], their weights there, times the mix


class SweepLimits(NamedTuple):
    thresholds: F32  # [room], by seed
    expiry: I64  # [k]
    most: int  # matches of a post: so many of the highest, and those that rounding may hide
    chosen: I64  # [m], seeds whose scores are returned


class SweepTotals(NamedTuple):
    """`best` starts out of reach, the rest at zero."""

    best: F32  # [n], each post's highest score
    counts: I64  # [n], the seeds that a post matches
    hits: I64  # [room], the posts that match a seed
    chosen: F32  # [n, m], the most that their scores may be


class ListedWords(NamedTuple):
    """The posts' words that have lists: those of post i begin at the row's first entry."""

    stops: I64  # [n], their ends
    places: I64  # [entries], where each list is read next
    ends: I64  # [entries], of the lists
    weights: F32  # [entries]


@jit()
def sweep(
    tile: Any, posts: Any, groups: I32, scales: F32, slack: F32, times: I64,
    seeds: Any, panels: I32, scale: F32, excess: I32, lists: Any, mix: float,
    limits: Any, totals: Any, posts_at_once: int, part: int,
) -> tuple[I64, F32]:  # fmt: skip
    """Compare all posts with all seeds: [post, seed] of each post's highest matches, with scores.

    The posts' rows are padded to whole tiles. Products are off by a post's slack at most; pairs
    that match, or may, are scored exactly.
    """
    pairs, exact, end = np.empty((64, 2), np.int64), np.empty(64, np.float32), 0
    room = len(limits.thresholds)
    count = len(posts.slots)
    words = ListedWords(
        np.empty(len(times), np.int64), np.empty(count, np.int64), np.empty(count, np.int64),
        np.empty(count, np.float32),
    )  # fmt: skip
    memory = np.empty(posts_at_once * part, np.float32)
    above, least = np.empty((2, posts_at_once), np.float32)
    for first in range(0, len(times), posts_at_once):
        last = min(first + posts_at_once, len(times))
        begin_lists(posts, lists, first, last, words)
        least[:] = OUT_OF_REACH
        for low in range(0, room, part):
            high = min(low + part, room)
            scores = memory[: posts_at_once * (high - low)].reshape(posts_at_once, high - low)
            write_rare(posts, lists, words, first, last, low, scores)
            rows = slice(first, first + posts_at_once)
            add_products(tile, groups[rows], scales[rows], panels, scale, excess, low, scores)
            scores, held = scores[: last - first], limits.expiry[low:high]
            hide_expired(scores, held, times[first:last])
            survey(scores, limits.thresholds[low:high], len(held), totals.best[first:last], above)
            copy_chosen(scores, slack[first:last], limits.chosen, low, totals.chosen[first:last])
            pairs, exact, end = collect_matches(
                *(scores, posts, seeds, mix, slack, limits, first, low),
                *(above, least, totals, pairs, exact, end),
            )
    return pairs[:end].copy(), exact[:end].copy()


@jit()
def write_columns(posts: Any, column: I32, rows: F32) -> None:
    """Write the weights of the words that have a column into the posts' rows."""
    for post in range(len(posts.indptr) - 1):
        for e in range(posts.indptr[post], posts.indptr[post + 1]):
            at = column[posts.slots[e]]
            if at >= 0:
                rows[post, at] = posts.weights[e]


@jit()
def begin_lists(posts: Any, lists: Any, first: int, last: int, words: Any) -> None:
    """Collect the posts' words that have lists, at their begin."""
    for post in range(first, last):
        end = posts.indptr[post]
        for e in range(posts.indptr[post], posts.indptr[post + 1]):
            slot = posts.slots[e]
            start, stop = lists.starts[slot], lists.starts[slot + 1]
            words.places[end], words.ends[end] = start, stop
            words.weights[end] = posts.weights[e]
            end += (lists.column[slot] < 0) & (start < stop)  # no branch: it would be mispredicted
        words.stops[post] = end


@jit()
def write_rare(
    posts: Any, lists: Any, words: Any, first: int, last: int, low: int, out: F32
) -> None:
    """Write the products of the words in lists, for the seeds from `low` on.

    The lists are read on from where the previous part stopped. Where there are several parts, the
    lists exceed a core's cache, so those of the next post are loaded meanwhile.
    """
    high, seeds, weights = low + out.shape[1], lists.seeds, lists.weights
    distant_seeds, distant_weights = pointers_to(seeds), pointers_to(weights)
    for post in range(first, last):
        if low > 0 and post + 1 < last:
            for e in range(posts.indptr[post + 1], words.stops[post + 1]):
                prefetch(distant_seeds, words.places[e])
                prefetch(distant_weights, words.places[e])
        scores = out[post - first]
        scores[:] = 0
        for e in range(posts.indptr[post], words.stops[post]):
            at, end, weight = np.uint64(words.places[e]), np.uint64(words.ends[e]), words.weights[e]
            while at < end and seeds[at] < high:
                scores[np.uint64(seeds[at] - low)] += weight * weights[at]
                at += np.uint64(1)
            words.places[e] = at


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
def survey(scores: F32, thresholds: F32, seeds: int, best: F32, above: F32) -> None:
    """Raise each row's highest score, and write how far a score is above its threshold at most."""
    whole = seeds - seeds % LANES
    for post in range(len(scores)):
        row = scores[post]
        top, most = broadcast(1, OUT_OF_REACH), broadcast(1, OUT_OF_REACH)
        for at in range(0, whole, LANES):
            score = load(1, row, at)
            top = maximum(top, score)
            most = maximum(most, score - load(1, thresholds, at))
        best[post] = max(best[post], highest_lane(top))
        above[post] = highest_lane(most)
        for seed in range(whole, seeds):
            best[post] = max(best[post], row[seed])
            above[post] = max(above[post], row[seed] - thresholds[seed])


@jit()
def copy_chosen(scores: F32, slack: F32, chosen: I64, low: int, out: F32) -> None:
    """Write upper bounds of the scores with the chosen seeds of this part."""
    for at in range(len(chosen)):
        if low <= chosen[at] < low + scores.shape[1]:
            for post in range(len(scores)):
                out[post, at] = scores[post, chosen[at] - low] + slack[post]


@jit()
def collect_matches(
    scores: F32, posts: Any, seeds: Any, mix: float, slack: F32, limits: Any, first: int, low: int,
    above: F32, least: F32, totals: Any, pairs: I64, exact: F32, end: int,
) -> tuple[I64, F32, int]:  # fmt: skip
    """Count the pairs that match; add those that may be among a post's highest `most`."""
    width = scores.shape[1]
    thresholds, columns = limits.thresholds[low : low + width], np.empty(width, np.int64)
    high, own = np.empty((2, width), np.float32)
    heap = np.empty(min(limits.most, width), np.float32)  # used only for more matches than that
    for at in range(len(scores)):
        row, post, off = scores[at], first + at, slack[first + at]
        if above[at] < -off:
            continue
        number = list_reached(row, thresholds, -off, columns)
        number = keep_matching(
            row, posts, seeds, mix, off, thresholds, post, low, columns[:number], own
        )
        totals.counts[post] += number
        for place in range(number):
            totals.hits[low + columns[place]] += 1
            high[place] = row[columns[place]]
        if number > limits.most:
            lowest = lowest_of_highest(high[:number], heap) - 2 * off
            least[at] = max(least[at], lowest)
        for place in range(number):
            seed = columns[place]
            if row[seed] >= least[at]:
                if end == len(pairs):
                    pairs = np.concatenate((pairs, np.empty_like(pairs)))
                    exact = np.concatenate((exact, np.empty_like(exact)))
                score = own[place]
                if score == OUT_OF_REACH:
                    score = pair_score(posts, seeds, mix, post, low + seed)
                pairs[end, 0], pairs[end, 1], exact[end] = post, low + seed, score
                end += 1
    return pairs, exact, end


@jit()
def keep_matching(
    row: F32, posts: Any, seeds: Any, mix: float, slack: np.float32, thresholds: F32, post: int,
    low: int, columns: I64, exact: F32,
) -> int:  # fmt: skip
    """Move the columns that match to the front and count them; doubtful ones are scored exactly."""
    number = 0
    for seed in columns:
        score = OUT_OF_REACH
        if row[seed] - thresholds[seed] < slack:
            score = pair_score(posts, seeds, mix, post, low + seed)
            if score < thresholds[seed]:
                continue
        columns[number], exact[number] = seed, score
        number += 1
    return number


@jit()
def list_reached(scores: F32, thresholds: F32, least: np.float32, columns: I64) -> int:
    """List the scores that are `least` above their thresholds and count them.

    Most groups have none.

    In the others no branch depends on a score: with half of them matching, branches would be
    mispredicted.
    """
    number = 0
    for group in range(0, len(scores), 2 * LANES):
        if highest_lane(largest(load(2, scores, group) - load(2, thresholds, group))) < least:
            continue
        for seed in range(group, group + 2 * LANES):
            columns[number] = seed
            number += scores[seed] - thresholds[seed] >= least
    return number
