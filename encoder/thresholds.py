"""Thresholds of articles: the scores that a share of the background reaches."""

import numpy as np

from encoder.embeddings import (
    Background,
    Embeddings,
    is_real,
    refuse_wrong_lengths,
    require_embeddings,
    require_same_model,
    threads_for,
)
from encoder.errors import InputError
from encoder.model.weights import F32, I64
from encoder.score.exact import pair_scores, rounding
from encoder.score.top import Cut, top_pairs
from encoder.support.readonly import fixed

ARTICLES_AT_ONCE = 64  # their scores with a background fit the CPU cache
# Above 0, the score of a text without words, which matches nothing.
LEAST_THRESHOLD = np.float32(np.finfo(np.float32).tiny)
EVERY_POST = np.float32(-1)  # a skim threshold that every post reaches


def thresholds(background: Embeddings, articles: Embeddings, rate: float) -> F32:
    """Compute the score that a share `rate` of the background reaches, for each article: [k]."""
    if not (is_real(rate) and 0 < rate < 1):
        raise InputError(f"rate: {rate!r} is not a share between 0 and 1")
    require_same_model(require_embeddings("articles", articles), background)
    refuse_wrong_lengths(articles=articles, background=background)
    if round(rate * len(background)) < 1:
        coarser = f"use {1 / len(background):.1g} or more, or " if len(background) > 1 else ""
        raise InputError(
            f"rate: {rate:g} is finer than {len(background)} background posts can tell; "
            f"{coarser}give more posts"
        )
    cuts = np.empty(len(articles), np.float32)
    count = round(rate * len(background))
    for start in range(0, len(articles), ARTICLES_AT_ONCE):
        block = slice(start, start + ARTICLES_AT_ONCE)
        cuts[block] = _nth_scores(count, background, articles[block])
    return np.maximum(cuts, LEAST_THRESHOLD)


def match_thresholds(
    background: Background, articles: Embeddings, rate: float, read_factor: float
) -> tuple[F32, F32]:
    """The thresholds [k] and skim thresholds [k] that together a share `rate` reaches.

    `read_factor` times as many posts are read, and `rate` of the background are those with the
    highest scores among the posts that are read. EVERY_POST where all posts are read.
    """
    if not (is_real(read_factor) and read_factor >= 1):
        raise InputError(
            f'read_factor: {read_factor!r} is neither a number of at least 1 nor "all"'
        )
    alone = thresholds(background.read, articles, rate)
    if read_factor * rate >= 1:
        return alone, np.full(len(articles), EVERY_POST, np.float32)
    skim_cuts = thresholds(background.skim, articles, read_factor * rate)
    pairs, _ = reaching_pairs(articles, background.skim, skim_cuts)
    scores = pair_scores(articles, background.read, pairs)
    count = round(rate * len(background.read))
    ends = np.searchsorted(pairs[:, 0], np.arange(len(articles) + 1))  # [k + 1]
    cuts = np.full(len(articles), LEAST_THRESHOLD)
    for article in np.flatnonzero(np.diff(ends) >= count):
        own = scores[ends[article] : ends[article + 1]]
        cuts[article] = max(np.partition(own, -count)[-count], LEAST_THRESHOLD)
    return cuts, skim_cuts


def _nth_scores(count: int, posts: Embeddings, articles: Embeddings) -> F32:
    """Compute the `count`-th highest score of each article: [k].

    Candidates are scored again in a fixed order of summation, so an article's threshold does not
    depend on the other articles.
    """
    least = np.zeros(len(articles), np.float32)
    pairs, exact = _scored_pairs(articles, posts, count, least)
    rising = exact[np.lexsort((exact, pairs[:, 0]))]  # grouped by article
    ends = np.searchsorted(pairs[:, 0], np.arange(len(articles)), side="right")  # [k]
    cut: F32 = rising[ends - count]
    return cut


def reaching_pairs(articles: Embeddings, background: Embeddings, cuts: F32) -> tuple[I64, F32]:
    """Return the pairs [p, 2] of article and post that reach its threshold, and their scores."""
    pairs, scores = [np.zeros((0, 2), np.int64)], [np.zeros(0, np.float32)]
    for start in range(0, len(articles), ARTICLES_AT_ONCE):
        block = slice(start, start + ARTICLES_AT_ONCE)
        near, exact = _scored_pairs(articles[block], background, 0, cuts[block])
        hits = exact >= cuts[block][near[:, 0]]
        pairs.append(near[hits] + np.array([start, 0]))
        scores.append(exact[hits])
    return np.concatenate(pairs), np.concatenate(scores)


def _scored_pairs(
    articles: Embeddings, posts: Embeddings, count: int, least: F32
) -> tuple[I64, F32]:
    """Return the `count` best pairs of each article, or those from `least` on, and their scores.

    More pairs may be included, since rounding hides the order of nearly equal scores.
    """
    words, mix = articles.lexical, articles.mix
    rows: F32 = np.multiply(articles.dense, 1 - mix, dtype=np.float32)
    with threads_for(len(rows) * len(posts)):
        dense: F32 = rows @ posts.dense.T  # [k, n]
    terms = rows.shape[1] + int(np.diff(words.indptr).max(initial=0))
    slack = np.full(len(rows), rounding(terms), np.float32)
    cut = Cut(count, fixed(least), fixed(slack))
    pairs: I64 = top_pairs(dense, words.arrays, posts.lexical.inverted, float(mix), cut)
    return pairs, pair_scores(articles, posts, pairs)
