"""Automatic thresholds: the scores that a share of the background reaches.

At one rate for each seed the shares of many seeds add up. For a rate of the whole set one constant
is added to all thresholds, which brings the share that passes any seed down again.

The background, the model's or the user's own, has two parts: posts that a profile is separated from
never calibrate its threshold. An eighth is enough to separate; the tail of a threshold needs the
rest.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from typing import Literal, NamedTuple
from zlib import crc32

import numpy as np

from encoder.embeddings import Background, Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32, I64
from encoder.score.exact import pair_scores
from encoder.thresholds import EVERY_POST, match_thresholds, reaching_pairs
from worker.seeds.profile import Profile, SeedOrProfile
from worker.seeds.set import SeedVectors

Reader = Literal["read", "skim"]
RATE, READ_FACTOR = 0.001, 5.0
FLOAT32_STEP = 2.0**-23  # no smaller than the distance of neighbouring float32 up to 1
CONTROL_RATE = 0.05  # The control floor is the approximate score that this share reaches.
RATE_KEY = "matching.background_rate"
MIN_TAIL_POSTS = 3
HASH_PARTS = 8  # The first part separates events; the others calibrate.


@dataclass(frozen=True, slots=True, eq=False)
class OwnBackground:
    """A background file's posts; `digest` has the first 12 hex digits of its SHA-256."""

    posts: Background
    digest: str


def split_background(background: Embeddings) -> tuple[Embeddings, Embeddings]:
    """The posts that separate events and those that calibrate."""
    calibrating = calibrating_rows(background)
    separating = np.delete(np.arange(len(background)), calibrating)
    return background[separating], background[calibrating]


def calibrating_rows(background: Embeddings) -> I64:
    """The posts that calibrate, chosen by hashes of vectors that were read.

    Copies of a post are always on the same side.
    """
    words, ends = background.lexical, background.lexical.indptr
    sides = np.array([
        crc32(words.slots[begin:end].tobytes(), crc32(dense.tobytes())) % HASH_PARTS
        for dense, begin, end in zip(background.dense, ends, ends[1:], strict=False)
    ], bool)  # fmt: skip
    return np.flatnonzero(sides)


def tail_size(posts: int, rate: float) -> int:
    """The posts that reach a threshold at this rate."""
    return round(rate * posts)


def tail_error(tail: int) -> float:
    """The relative error of the rate."""
    return 1 / sqrt(tail) if tail else float("inf")


def refuse_small(name: object, posts: int, rate: float, key: str = RATE_KEY) -> None:
    """Raises if too few posts reach a threshold at this rate."""
    if (tail := tail_size(posts, rate)) < MIN_TAIL_POSTS:
        raise InputError(
            f"{name}: {posts:,} posts are too few for {key} {rate:g}, with "
            f"{tail} of them above a threshold and not {MIN_TAIL_POSTS}; "
            f"{ceil(MIN_TAIL_POSTS / rate):,} are needed"
        )


@dataclass(frozen=True, slots=True)
class ThresholdRules:
    """What decides about matches, as the configuration says."""

    rate: float = RATE  # of each seed or, with `total`, of all seeds together
    threshold: float | None = None  # in place of automatic ones
    total: bool = False
    reader: Reader = "read"
    read_factor: float = READ_FACTOR  # inf: every post is read
    links: bool = True  # whether a post matches that links to a seed's page
    compare: tuple[str, ...] | None = None  # the parts of a post, where not all are


class AutomaticThresholds:
    """Finds the thresholds and skim thresholds of one model, background and rate."""

    def __init__(
        self, enc: Encoder, rules: ThresholdRules, own_background: OwnBackground | None = None
    ) -> None:
        self._enc, self._rules = enc, rules
        self.background = own_background.posts if own_background else enc.background
        self.reads = enc.has_star and rules.reader == "read"
        self.skims_alone = enc.has_star and rules.reader == "skim"
        self.too_fine = self._rate_error(self.background)
        self._passing: dict[str, PassingPosts] = {}  # by content; with a total rate

    def scores_reached(self, rows: Embeddings, rate: float) -> F32:
        """The score that this share of the background reaches with each seed: [k]."""
        if len(self.background) * rate < 1:
            return np.full(len(rows), np.inf, np.float32)  # nobody can tell
        return self._enc.thresholds(rows, rate, self.judging, skim=self.skims_alone)

    def control_floors(self, rows: Embeddings) -> F32:
        """The approximate scores from which on some posts are read as a control: [k]."""
        if not self.reads or tail_size(len(self.background), CONTROL_RATE) < MIN_TAIL_POSTS:
            return np.full(len(rows), np.inf, np.float32)
        return self._enc.thresholds(rows, CONTROL_RATE, self.background.skim, skim=True)

    @property
    def judging(self) -> Embeddings:
        """The background as the reader sees it whose scores decide."""
        return self.background.skim if self.skims_alone else self.background.read

    @property
    def near_rates(self) -> tuple[float, float] | None:
        """The shares of the background at which near misses end, where not every post is read."""
        rate, factor = self._rules.rate, self._rules.read_factor
        every = not self.reads or rate * factor >= 1
        return None if every else (rate * sqrt(factor), rate * factor)

    @cached_property
    def calibrating(self) -> Background:
        """The posts that no profile learns from."""
        return self.background[calibrating_rows(self.background.read)]

    @cached_property
    def too_fine_for_profiles(self) -> str:
        return self._rate_error(self.calibrating)

    def of_seeds(self, seeds: Sequence[SeedOrProfile], rows: Embeddings) -> F32:
        """The threshold and the skim threshold of each: [k, 2].

        Those of profiles are found on the posts that no profile learns from.
        """
        found = np.empty((len(seeds), 2), np.float32)
        is_profile = np.array([isinstance(seed, Profile) for seed in seeds], bool)
        articles, profiles = np.flatnonzero(~is_profile), np.flatnonzero(is_profile)
        if len(articles):
            own = rows[articles] if len(profiles) else rows
            found[articles] = self._find(own, self.background, self.too_fine)
        if len(profiles):
            too_fine = self.too_fine_for_profiles
            found[profiles] = self._find(rows[profiles], self.calibrating, too_fine)
        return found

    def share_passing(self, rows: Embeddings, thresholds: F32) -> float:
        """The share of the calibrating posts that match any row; `thresholds` are both [k, 2]."""
        skim = self.calibrating.skim if self.reads else None
        judging = self.calibrating.skim if self.skims_alone else self.calibrating.read
        found = passing_posts(judging, skim, rows, thresholds)
        posts = {post for passing in found for post in passing.posts.tolist()}
        return len(posts) / len(judging)

    def total_constant(
        self, contents: Mapping[str, int], vectors: SeedVectors, thresholds: F32
    ) -> float:
        """The constant that is added to all automatic thresholds to hold the total rate.

        `contents` are the places of seeds by their content, `thresholds` those of all seeds [k, 2].
        """
        passing = self._passing
        self._passing = {content: passing[content] for content in contents if content in passing}
        new = [content for content in contents if content not in self._passing]
        rows = np.array([contents[content] for content in new], np.int64)
        skim = self.background.skim if self.reads else None
        found = passing_posts(self.judging, skim, vectors[rows], thresholds[rows])
        self._passing |= zip(new, found, strict=True)
        return total_rate_constant(self._passing.values(), len(self.background), self._rules.rate)

    def _find(self, rows: Embeddings, background: Background, too_fine: str) -> F32:
        """Without a background that is large enough every post is read, and no score is enough."""
        found = np.full((len(rows), 2), EVERY_POST, np.float32)
        if too_fine:
            found[:, 0] = np.inf
        elif self.reads:
            rate, factor = self._rules.rate, self._rules.read_factor
            found.T[:] = match_thresholds(background, rows, rate, factor)
        else:
            found[:, 0] = self._score_reached(rows, background)
        return found

    def _score_reached(self, rows: Embeddings, background: Background) -> F32:
        posts = background.skim if self.skims_alone else background.read
        return self._enc.thresholds(rows, self._rules.rate, posts, skim=self.skims_alone)

    def _rate_error(self, background: Background) -> str:
        """Why the background is too small for this rate; empty if it is not."""
        try:
            self._score_reached(self._enc.background.read[:0], background)
        except InputError as error:
            return f"matching.{'total' if self._rules.total else 'background'}_{error}"
        return ""


class PassingPosts(NamedTuple):
    """Background posts that reach the threshold of a seed, and by how much."""

    posts: I64  # [p]
    margins: F32  # [p], at least 0


def passing_posts(
    background: Embeddings, skimmed: Embeddings | None, seeds: Embeddings, thresholds: F32
) -> list[PassingPosts]:
    """Where posts are skimmed first, a margin is the lesser of both readers'.

    `thresholds` are those of the scores and of the approximate scores: [k, 2].
    """
    cuts, skim_cuts = np.ascontiguousarray(thresholds.T)
    pairs, scores = reaching_pairs(seeds, background, cuts)
    margins = scores - cuts[pairs[:, 0]]
    if skimmed is not None:
        approximate = pair_scores(seeds, skimmed, pairs)
        margins = np.minimum(margins, approximate - skim_cuts[pairs[:, 0]])
        pairs, margins = pairs[margins >= 0], margins[margins >= 0]
    rows, posts = pairs.T
    ends = np.searchsorted(rows, np.arange(1, len(seeds)))
    parts = np.split(posts, ends), np.split(margins, ends)
    return [PassingPosts(*part) for part in zip(*parts, strict=True)][: len(seeds)]


def total_rate_constant(
    passing: Iterable[PassingPosts], background_posts: int, rate: float
) -> float:
    """The least constant for which at most this share of the background passes any seed.

    A post passes a seed if its margin is at least the constant.
    """
    every = list(passing)
    best = np.full(background_posts, -1, np.float32)  # [n] each post's largest margin
    if every:
        posts, margins = map(np.concatenate, zip(*every, strict=True))
        np.maximum.at(best, posts, margins)
    most, falling = max(1, int(rate * len(best) + FLOAT32_STEP)), np.sort(best)[::-1]
    if len(falling) <= most or falling[most] < 0:
        return 0.0
    # So that the next one is excluded after rounding, too
    return max(float(falling[most - 1]), float(falling[most]) + FLOAT32_STEP)
