"""A frame of a count: what its labels say of all its posts, together and by period."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, get_args

import numpy as np

from encoder.model.weights import I64
from newsift.statistics.count_draw import (
    Division,
    FramePosts,
    divide,
    frame_key,
    largest_groups,
)
from newsift.statistics.counts import (
    Tally,
    chance_of_constant_precision,
    count_in_period,
    count_posts,
    has_own_labels,
    labels_missing,
)
from newsift.statistics.estimates import Estimate
from newsift.statistics.labels import (
    CountDraw,
    FrozenStrata,
    Label,
    StratumName,
    Verdict,
    agreed_verdicts,
)
from worker.posts.times import milliseconds, rfc3339, utc

SAMPLED: tuple[StratumName, ...] = ("upper", "lower", "near")  # the strata that chance draws from
VERDICTS = get_args(Verdict)
MAX_PERIODS = 10_000  # Between the first and the last of more, empty ones are left out.


@dataclass(frozen=True, slots=True)
class CountedPost:
    """A post that was drawn, one label of it, and the joint verdict of all."""

    label: Label
    draw: CountDraw
    verdict: Verdict

    def tally(self) -> Tally:
        posts = self.draw.posts
        return Tally(posts, **{self.verdict: posts})


@dataclass(frozen=True, slots=True)
class CountFrame:
    """The posts that were frozen for a draw, and the labels of it."""

    nonce: str
    since: int  # milliseconds
    until: int  # when the newest of its matches was processed
    cut: float
    strata: Mapping[StratumName, tuple[int, int]]  # posts, and labels that are planned
    scored_by: tuple[str, str]  # seed set and model; "" where no label names them
    posts: tuple[CountedPost, ...]

    @property
    def planned(self) -> int:
        return sum(labels for _, labels in self.strata.values())

    @property
    def is_complete(self) -> bool:
        return len(self.posts) >= self.planned

    @property
    def matches(self) -> int:
        return sum(size for name, (size, _) in self.strata.items() if name != "near")

    @property
    def near(self) -> int:
        return self.strata["near"][0] if "near" in self.strata else 0

    @property
    def frozen(self) -> FrozenStrata:
        return FrozenStrata(rfc3339(self.since), self.cut, dict(self.strata))

    def divide(self, posts: FramePosts) -> Division:
        stories = self.strata["story"][1] if "story" in self.strata else 0
        return divide(posts, largest_groups(posts, stories), self.cut)

    def planned_of(self, kept: int) -> dict[StratumName, int]:
        """Labels of each stratum, where so many near misses are still there."""
        return {
            name: min(labels, kept) if name == "near" else labels
            for name, (_, labels) in self.strata.items()
        }


def frames_of(labels: Iterable[Label]) -> list[CountFrame]:
    """The frames that labels of an event were drawn from, the newest first."""
    by_frame = defaultdict[str, list[Label]](list)
    for label in labels:
        if label.drawn == "count" and label.count and label.queue:
            by_frame[label.queue.nonce].append(label)
    frames = (_frame(nonce, of_frame) for nonce, of_frame in by_frame.items())
    return sorted(frames, key=lambda frame: (frame.until, frame.nonce), reverse=True)


def _frame(nonce: str, labels: Sequence[Label]) -> CountFrame:
    """Labels that disagree with the first about the frame do not count."""
    first = min(labels, key=lambda label: (milliseconds(utc(label.at)), label.key))
    assert first.queue
    assert first.count
    named = first.queue, first.count.frame
    own = [label for label in labels if label.count and (label.queue, label.count.frame) == named]
    verdicts = agreed_verdicts(own)
    posts = {label.post_id: label for label in own}
    return CountFrame(
        nonce,
        milliseconds(utc(first.count.frame.since)),
        milliseconds(utc(first.queue.until)),
        first.count.frame.cut,
        first.count.frame.strata,
        (first.seed_set or "", first.model or ""),
        tuple(
            CountedPost(label, label.count, verdicts[post_id])
            for post_id, label in posts.items()
            if label.count
        ),
    )


@dataclass(frozen=True, slots=True)
class PeriodCount:
    """The posts on the event in a period, or in all."""

    start: int | None  # milliseconds; None for all
    matches: int
    near: int
    labels: int
    estimate: Estimate
    has_own_labels: bool  # what is said holds even where precision changes


@dataclass(frozen=True, slots=True)
class CountSeries:
    total: PeriodCount
    periods: tuple[PeriodCount, ...]
    stopped: bool  # before all planned labels were given
    missing: int  # labels until an upper end is stated
    chance: float  # that precision which does not change would look like this


def count_series(
    frame: CountFrame, posts: FramePosts, near_hours: Mapping[int, int], step: int
) -> CountSeries:
    """`posts` are the matches of the frame, `near_hours` its near misses by hour.

    A period has `step` milliseconds. The totals are those of the frame, even if posts or near
    misses have been lost since.
    """
    stopped = not frame.is_complete
    division = frame.divide(posts)
    sizes = {
        name: _count_periods(posts.times[division.rows(name)], step) for name in ("upper", "lower")
    } | {"near": _scale(near_hours, frame.near, step)}
    strata = {
        name: StratumTallies.of(
            frame.strata[name][0],
            [post for post in frame.posts if post.draw.stratum == name],
            sizes[name],
            step,
        )
        for name in SAMPLED
        if name in frame.strata
    }
    stories = _CertainGroups(frame, posts, division, step)
    wholes = [stratum.whole for stratum in strata.values()]
    matches, near = _count_periods(posts.times, step), sizes["near"]

    def period(start: int) -> PeriodCount:
        pairs = [(stratum.whole, stratum.parts.get(start, Tally(0))) for stratum in strata.values()]
        parts, known = [part for _, part in pairs], stories.parts(start)
        labels = sum(part.labels for part in parts) + stories.labels[start]
        return PeriodCount(
            start, matches[start], near[start], labels,
            count_in_period(pairs, stopped, known), has_own_labels(parts),
        )  # fmt: skip

    total = PeriodCount(
        None, frame.matches, frame.near, len(frame.posts),
        count_posts([*wholes, *stories.whole], stopped), True,
    )  # fmt: skip
    return CountSeries(
        total,
        tuple(map(period, _starts(matches | near, step))),
        stopped,
        labels_missing(wholes) + stories.missing,
        chance_of_constant_precision([stratum.parts for stratum in strata.values()]),
    )


def _count_periods(times: I64, step: int) -> Counter[int]:
    """Posts by the start of their period."""
    starts, counts = np.unique(times - times % step, return_counts=True)
    return Counter(dict(zip(starts.tolist(), counts.tolist(), strict=True)))


def _scale(near_hours: Mapping[int, int], size: int, step: int) -> Counter[int]:
    """Near misses by period: shares of those that workers count now, of all in the frame."""
    counts = Counter[int]()
    for hour, count in near_hours.items():
        counts[hour - hour % step] += count
    total = counts.total()
    return Counter({start: round(size * count / total) for start, count in counts.items()})


def labels_of(frame: CountFrame, posts: FramePosts) -> dict[int, CountedPost]:
    """By the keys of these matches; a label of a story group is that of all its posts."""
    labels = {
        frame_key(post.label.post_id, frame.nonce): post
        for post in frame.posts
        if post.draw.stratum != "near"
    }
    places = np.flatnonzero(np.isin(posts.keys, np.array(list(labels), np.uint64)))
    of_group = {
        int(posts.groups[place]): label
        for place in places.tolist()
        if (label := labels[int(posts.keys[place])]).draw.stratum == "story"
    }
    for place in np.flatnonzero(np.isin(posts.groups, np.array(list(of_group), np.uint64))):
        labels[int(posts.keys[place])] = of_group[int(posts.groups[place])]
    return labels


def unlabelled_near_misses(
    frame: CountFrame, near_hours: Mapping[int, int], step: int
) -> Counter[int | None]:
    """By the start of their period; None where no worker knows it."""
    times = [post.draw.timestamp for post in frame.posts if post.draw.stratum == "near"]
    labelled = Counter(time - time % step for time in times)
    rest: Counter[int | None] = Counter()
    rest.update(_scale(near_hours, frame.near, step) - labelled)
    largest = max(rest, key=lambda start: rest[start], default=None)
    rest[largest] += frame.near - len(times) - rest.total()  # what rounding has added or lost
    return +rest


def _starts(counts: Mapping[int, int], step: int) -> Iterable[int]:
    """Of all periods from the first with a post to the last."""
    if not counts:
        return ()
    every = range(min(counts), max(counts) + 1, step)
    return every if len(every) <= MAX_PERIODS else sorted(counts)


@dataclass(frozen=True, slots=True)
class StratumTallies:
    """A stratum of which posts were drawn by chance: as a whole, and by period."""

    whole: Tally
    parts: Mapping[int, Tally]

    @classmethod
    def of(
        cls, size: int, drawn: Iterable[CountedPost], sizes: Mapping[int, int], step: int
    ) -> Self:
        labels = defaultdict[int, Tally](partial(Tally, 0))
        for post in drawn:
            labels[post.draw.timestamp - post.draw.timestamp % step] += post.tally()
        whole = sum(labels.values(), Tally(0))
        parts = {
            start: replace(labels[start], size=max(sizes.get(start, 0), labels[start].labels))
            for start in {*sizes, *labels}
        }
        return cls(replace(whole, size=max(size, whole.labels)), parts)


class _CertainGroups:
    """The story groups that are asked for with certainty: answered, or not yet."""

    def __init__(self, frame: CountFrame, posts: FramePosts, division: Division, step: int) -> None:
        answered = [post for post in frame.posts if post.draw.stratum == "story"]
        known = sum((post.tally() for post in answered), Tally(0))
        size, planned = frame.strata.get("story", (0, 0))
        self.whole = known, Tally(max(0, size - known.size))
        self.labels = Counter(post.draw.timestamp - post.draw.timestamp % step for post in answered)
        self.missing = max(0, planned - len(answered))
        rows, labels = division.rows("story"), labels_of(frame, posts)
        found = (labels.get(key) for key in posts.keys[rows].tolist())
        numbers = [VERDICTS.index(label.verdict) + 1 if label else 0 for label in found]
        self._verdicts = np.array(numbers, np.int64)  # [s], 0 while there is none
        self._starts = posts.times[rows] - posts.times[rows] % step

    def parts(self, start: int) -> tuple[Tally, Tally]:
        """In a period."""
        verdicts = self._verdicts[self._starts == start]
        unknown, on, off, unsure = np.bincount(verdicts, minlength=4).tolist()
        return Tally(on + off + unsure, on, off, unsure), Tally(unknown)
