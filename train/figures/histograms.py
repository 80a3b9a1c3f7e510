"""How scores are spread: pairs that belong together and others, posts on topic and others."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from encoder.model.weights import F32, I64
from train.data.readers import Story
from train.figures.style import BLACK, BLUE, GREEN, HATCHES, VERMILION, grid, page, shown
from train.figures.subject import MissingDataError, Sheet, Subject
from train.protocol.judge import Scores, blocks
from train.protocol.peers import pair
from train.protocol.ranking import Block

F64 = NDArray[np.float64]
BIN = 0.02
EDGES = np.linspace(-1, 1, round(2 / BIN) + 1)
COLUMNS = 3
PANEL_HEIGHT = 2.3


@dataclass(frozen=True, slots=True)
class Look:
    """How one kind of scores is drawn."""

    colour: str
    dash: str
    hatch: str


LOOKS = (
    Look(BLUE, "-", HATCHES[1]),
    Look(VERMILION, "--", HATCHES[0]),
    Look(GREEN, ":", HATCHES[0]),
)


def counts(scores: F32) -> I64:
    """How many scores lie in each bin; the last one holds its upper edge."""
    return np.histogram(scores, EDGES)[0].astype(np.int64)


def counted_pairs(scored: Iterable[Block]) -> tuple[I64, I64]:
    """How many of the pairs that belong together, and of the others, lie in each bin."""
    own, others = np.zeros((2, len(EDGES) - 1), np.int64)
    for score, label in scored:
        mine = counts(score[label])
        own += mine
        others += counts(score) - mine
    return own, others


def percent(count: I64) -> F64:
    """The counts as shares of their sum, in percent; zeros where there is nothing."""
    return np.asarray(100 * count / max(count.sum(), 1), np.float64)


def draw_histograms(subject: Subject) -> list[Sheet]:
    """A sheet for the pairs and one for the crises, each where there are any."""
    sheets, missing = [], []
    for draw in (draw_pairs, draw_crises):
        try:
            sheets.append(draw(subject))
        except MissingDataError as error:
            missing.append(error)
    if not sheets:
        raise missing[0]
    return sheets


def draw_pairs(subject: Subject) -> Sheet:
    """A panel for each set of pairs."""
    sets = subject.pair_sets
    figure, panels = _panels(len(sets))
    for axes, pairs in zip(panels, sets, strict=True):
        ready = subject.scorer.prepare(pairs.posts, pairs.stories)
        own, others = counted_pairs(blocks(ready, pairs))
        shares(axes, {"pairs that belong together": own, "other pairs": others})
        mark(axes, thresholds(subject, pairs.stories))
        axes.set_title(f"{shown(pairs.name, 34)}\n{own.sum():,} and {others.sum():,} pairs")
    _finish(figure, panels, "pairs")
    return Sheet("scores-pairs", "Scores of pairs, with the automatic threshold", figure)


def draw_crises(subject: Subject) -> Sheet:
    """A panel for each crisis; a post's score is the maximum over the event's articles."""
    crises = subject.crises
    figure, panels = _panels(len(crises))
    for axes, crisis in zip(panels, crises, strict=True):
        scores = Scores.of(subject.scorer, crisis)
        kinds = {"on topic": scores.on, "off topic": scores.off, "background": scores.background}
        shares(axes, {name: counts(x) for name, x in kinds.items() if len(x)})
        mark(axes, thresholds(subject, crisis.seeds))
        sizes = " / ".join(f"{len(x):,}" for x in kinds.values() if len(x))
        axes.set_title(f"{shown(crisis.name.replace('_', ' '), 34)}\n{sizes} posts")
    _finish(figure, panels, "posts")
    return Sheet("scores-crises", "Scores of posts, with the automatic threshold", figure)


def thresholds(subject: Subject, stories: Iterable[Story]) -> F32:
    """The automatic threshold of each article."""
    enc = subject.encoder
    return enc.thresholds(enc.articles([pair(story) for story in stories]), subject.rate)


def shares(axes: Axes, kinds: Mapping[str, I64]) -> None:
    """The share of each kind in each bin as a stepped line, the first one hatched."""
    for look, (name, count) in zip(LOOKS, kinds.items(), strict=False):
        share = percent(count)
        axes.stairs(share, EDGES, color=look.colour, linestyle=look.dash, label=name, linewidth=1.2)
        if look.hatch:
            axes.stairs(
                share, EDGES, fill=True, facecolor="none", edgecolor=look.colour,
                hatch=look.hatch, linewidth=0, alpha=0.5,
            )  # fmt: skip
    held = np.flatnonzero(sum(kinds.values()))
    low, high = EDGES[held[0]], EDGES[held[-1] + 1]
    axes.set(yscale="log", ylim=(0.01, 100), xlim=(low - BIN, high + BIN))
    axes.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
    grid(axes)


def mark(axes: Axes, cuts: F32) -> None:
    """The thresholds of the articles: each if they are few, else their middle half and median."""
    style: dict[str, Any] = {"color": BLACK, "linewidth": 0.9, "linestyle": (0, (4, 1, 1, 1))}
    if len(cuts) <= 4:
        for number, cut in enumerate(cuts.tolist()):
            axes.axvline(
                cut, label="automatic threshold of each article" if number == 0 else None, **style
            )
        return
    low, middle, high = np.percentile(cuts, (25, 50, 75))
    axes.axvspan(low, high, color="#BBBBBB", alpha=0.5, linewidth=0)
    axes.axvline(float(middle), label="automatic threshold (grey: half of the articles)", **style)


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    figure = page(PANEL_HEIGHT * rows + 0.3, max(3.6, 2.3 * columns))
    panels = list(figure.subplots(rows, columns, squeeze=False, sharey=True).flat)
    for unused in panels[count:]:
        unused.remove()
    return figure, panels[:count]


def _finish(figure: Figure, panels: list[Axes], what: str) -> None:
    for axes in panels:
        axes.set_xlabel("score (cosine)")
        if axes.get_subplotspec().is_first_col():  # type: ignore[union-attr]
            axes.set_ylabel(f"% of the {what} of a kind,\nper {BIN:g} of score")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
