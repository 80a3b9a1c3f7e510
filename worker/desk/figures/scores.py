"""The scores of an event's matches beside those of the background, and its threshold."""

from collections.abc import Sequence
from dataclasses import dataclass

from worker.desk.figures.svg import (
    BOTTOM,
    HEIGHT,
    TOP,
    Frame,
    Tick,
    axes,
    bar,
    picture,
    shape,
    steps,
    ticks,
)

BINS = 50
FINE = 0.05  # the largest share below which per mille are told
MOST_CUTS = 5


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many scores fall between two edges each; `edges` has one more than `counts`."""

    edges: Sequence[float]
    counts: Sequence[int]

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(self.counts)

    @property
    def shares(self) -> list[float]:
        """The counts in parts of all."""
        return [count / max(self.total, 1) for count in self.counts]


def scores_figure(
    event: str, matches: Histogram, background: Histogram | None, thresholds: Sequence[float]
) -> str:
    """Bars of the matches, the outline of the background, and a line at each threshold."""
    both = matches.shares + (background.shares if background else [])
    frame = Frame(matches.edges[0], matches.edges[-1], max([*both, 0.01]))
    across: list[Tick] = [(v, f"{v:.1f}") for v in ticks(frame.high, 10) if v >= frame.low]
    share = ".0%" if frame.top >= FINE else ".1%"
    up: list[Tick] = [(v, format(v, share)) for v in ticks(frame.top)]
    drawn = [axes(frame, across, up, "score", "share of the posts")]
    pairs = zip(matches.edges, matches.edges[1:], matches.counts, matches.shares, strict=False)
    drawn += [
        bar(frame, low, high, share, f"{low:.2f} to {high:.2f}: {count:,}")
        for low, high, count, share in pairs if count
    ]  # fmt: skip
    if background:
        drawn.append(steps(frame, background.edges, background.shares))
    drawn += [_cut(frame, threshold) for threshold in thresholds[:MOST_CUTS]]
    said = _said(matches, background, thresholds)
    title = f"Scores of {event}"
    return picture(title, f"{title}: {said}", said, drawn)


def histogram(scores: Sequence[float], low: float = 0.0, high: float = 1.0) -> Histogram:
    """Scores counted between edges of equal width; what lies beyond counts at the end."""
    counts = [0] * BINS
    for score in scores:
        counts[min(max(int((score - low) / (high - low) * BINS), 0), BINS - 1)] += 1
    return Histogram([low + (high - low) * n / BINS for n in range(BINS + 1)], counts)


def _cut(frame: Frame, threshold: float) -> str:
    x = frame.x(min(max(threshold, frame.low), frame.high))
    line = f"M{x} {TOP}V{HEIGHT - BOTTOM}"
    return shape("path", "cut", d=line, stroke_width=2, stroke_dasharray="5 3")


def _said(matches: Histogram, background: Histogram | None, thresholds: Sequence[float]) -> str:
    """What stands for what."""
    told = [f"bars: {matches.total:,} matches"]
    if background:
        told.append(f"outline: {background.total:,} posts of the background")
    cuts = sorted(thresholds)
    if len(cuts) > 1:
        told.append(f"dashed: {len(cuts):,} thresholds from {cuts[0]:.3f} to {cuts[-1]:.3f}")
    elif cuts:
        told.append(f"dashed: threshold {cuts[0]:.3f}")
    return "; ".join(told)
