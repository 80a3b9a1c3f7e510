"""The draw of posts for a count: story groups asked for with certainty, and strata by score.

The posts are those of a frame: matches by one seed set and model within a time, and near misses. A
post is known by 64 bits of a keyed hash of its name, which is the order of the draw. So the draw is
random, repeatable, and the same whoever asks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from encoder.model.weights import F32, I64
from newsift.statistics.counts import MIN_LABELS
from newsift.statistics.labels import StratumName
from worker.match.near import draw_key
from worker.posts.outcome import PostId

U64 = NDArray[np.uint64]
MIN_COUNT_LABELS, DEFAULT_COUNT_LABELS = 3 * MIN_LABELS, 100
# What the labels are divided by, beside the number of posts: the standard deviation of a verdict
# where half are on the event, and where one in fifteen is.
SPREADS: Mapping[StratumName, float] = {"upper": 0.5, "lower": 0.5, "near": 0.25}


def frame_key(name: PostId | str, nonce: str) -> int:
    """64 bits, of a post or of a story group."""
    return int(draw_key(name if isinstance(name, tuple) else ("", name), nonce)[:16], 16)


@dataclass(frozen=True, slots=True, eq=False)
class FramePosts:
    """The matches of a frame, each once, in the order of the draw."""

    keys: U64  # [n], rising
    scores: F32  # [n]
    times: I64  # [n], by Kafka, in milliseconds
    groups: U64  # [n]; a post without a group has its own key

    @classmethod
    def of(cls, keys: U64, scores: F32, times: I64, groups: U64) -> Self:
        """Of a post that comes again, the first counts."""
        distinct, first = np.unique(keys, return_index=True)
        return cls(distinct, scores[first], times[first], groups[first])

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """The strata of the matches of a frame."""

    cut: float  # the least score of the upper band
    stratum: NDArray[np.int8]  # [n], by the number of its name in MATCH_STRATA

    def rows(self, name: StratumName) -> I64:
        return np.flatnonzero(self.stratum == MATCH_STRATA.index(name))


MATCH_STRATA: tuple[StratumName, ...] = ("story", "upper", "lower")


def count_certain_groups(posts: FramePosts, labels: int) -> int:
    """How many story groups have more than N / n posts, for n labels of N matches.

    Each takes its posts and one label with it, which lowers the limit for the others.
    """
    sizes = np.sort(np.unique(posts.groups, return_counts=True)[1])[::-1].tolist()
    rest = len(posts)
    for number, size in enumerate(sizes[:labels]):
        if size < 2 or size * (labels - number) <= rest:
            return number
        rest -= size
    return min(labels, len(sizes))


def largest_groups(posts: FramePosts, count: int) -> U64:
    groups, sizes = np.unique(posts.groups, return_counts=True)
    return groups[np.argsort(-sizes, kind="stable")[:count]]


def divide(posts: FramePosts, groups: U64, cut: float | None = None) -> Division:
    """Posts of these groups are asked for with certainty; the others lie above a cut, or below.

    Without a cut it is their median score.
    """
    is_story = np.isin(posts.groups, groups)
    if cut is None:
        others = posts.scores[~is_story]
        cut = float(np.median(others)) if len(others) else 1.0
    stratum = np.where(is_story, 0, np.where(posts.scores >= np.float32(cut), 1, 2))
    return Division(cut, stratum.astype(np.int8))


def allocate(sizes: Mapping[StratumName, int], labels: int) -> dict[StratumName, int]:
    """Labels of each stratum: by its size and spread, at least MIN_LABELS, all where few are."""
    labels = max(labels, sum(min(MIN_LABELS, size) for size in sizes.values()))
    result, rest = {name: min(MIN_LABELS, size) for name, size in sizes.items()}, dict(sizes)
    while rest:
        left = labels - sum(count for name, count in result.items() if name not in rest)
        weight = sum(size * SPREADS[name] for name, size in rest.items())
        shares = {name: left * size * SPREADS[name] / max(weight, 1) for name, size in rest.items()}
        fixed = {
            name: min(max(MIN_LABELS, round(share)), sizes[name])
            for name, share in shares.items()
            if not MIN_LABELS <= round(share) <= sizes[name]
        }
        if not fixed:
            return result | {name: round(share) for name, share in shares.items()}
        result |= fixed
        rest = {name: size for name, size in rest.items() if name not in fixed}
    return result


def plan_strata(
    posts: FramePosts, near: int, kept: int, labels: int
) -> tuple[float, dict[StratumName, tuple[int, int]]]:
    """The cut, and for each stratum its posts and the labels that are planned.

    `near` are all near misses, `kept` those of them that can be asked about.
    """
    half = len(posts) // 2
    sizes: dict[StratumName, int] = {"upper": half, "lower": len(posts) - half, "near": near}
    first = allocate(sizes, labels)
    stories = count_certain_groups(posts, first["upper"] + first["lower"])
    division = divide(posts, largest_groups(posts, stories))
    sizes |= {"upper": len(division.rows("upper")), "lower": len(division.rows("lower"))}
    counts = allocate(sizes, labels - stories)
    strata: dict[StratumName, tuple[int, int]] = {"story": (len(division.rows("story")), stories)}
    for name, size in sizes.items():
        strata[name] = size, min(counts[name], kept if name == "near" else size)
    return division.cut, {name: stratum for name, stratum in strata.items() if stratum[0]}


@dataclass(frozen=True, slots=True)
class DrawnPost:
    """A post that is asked about."""

    stratum: StratumName
    number: int  # the row of a match in its frame, or the place of a near miss in its sample
    posts: int  # that its label stands for with certainty: of its story group, else itself


def draw_posts(
    posts: FramePosts, division: Division, planned: Mapping[StratumName, int]
) -> list[DrawnPost]:
    """All that are asked about, in this order: stories first, then all strata evenly.

    The near misses are counted off their sample, whose order is random.
    """
    stories = division.rows("story")
    _, first, sizes = np.unique(posts.groups[stories], return_index=True, return_counts=True)
    pairs = sorted(zip(stories[first].tolist(), sizes.tolist(), strict=True))
    drawn = [DrawnPost("story", row, size) for row, size in pairs]
    places: list[tuple[float, DrawnPost]] = []
    for name, count in planned.items():
        if name == "story":
            continue
        rows: Sequence[int] = range(count)
        if name != "near":
            rows = division.rows(name)[:count].tolist()
        places += [((n + 0.5) / count, DrawnPost(name, row, 1)) for n, row in enumerate(rows)]
    return [*drawn, *(post for _, post in sorted(places, key=lambda place: place[0]))]
