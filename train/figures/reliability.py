"""How far a score can be believed: its precision on sets that never trained, and on how much."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from encoder.model.weights import F32
from train.data.readers import Story
from train.figures.style import BLUE, GREEN, GREY, VERMILION, Sheet, page, shown
from train.figures.subject import Subject
from train.protocol.judge import PREVALENCE
from train.protocol.reliability import STEP, Bin
from train.protocol.trust import by_kind, by_pairs

ABREAST = 4
LOOKS = {
    "on topic": ("black", "x"), "off topic": (BLUE, "o"), "background": (VERMILION, "s"),
    "other articles": (GREEN, "^"),
}  # fmt: skip
SPREAD = (5, 50, 95)  # of the thresholds, in percent


class Panel(NamedTuple):
    """One set: its bins for each kind of wrong posts, and the automatic thresholds."""

    name: str
    bins: Mapping[str, Sequence[Bin]]
    cuts: F32


def draw_reliability(subject: Subject) -> list[Sheet]:
    """For each set its precision by score, and under it how many posts stand behind each point."""
    panels = panels_of(subject)
    lines = -(-len(panels) // ABREAST)
    figure = page(3.4 * lines + 0.3)
    axes = figure.subplots(
        2 * lines, min(len(panels), ABREAST), sharex=True, squeeze=False,
        height_ratios=[2, 1] * lines,
    )  # fmt: skip
    for place, panel in enumerate(panels):
        line, column = divmod(place, ABREAST)
        precision(axes[2 * line, column], panel)
        counts(axes[2 * line + 1, column], panel)
    for empty in axes[-2:, (len(panels) - 1) % ABREAST + 1 :].ravel():
        empty.set_axis_off()
    for line in range(lines):
        axes[2 * line, 0].set_ylabel(f"precision where one in {1 / PREVALENCE:.0f} is on topic")
        axes[2 * line + 1, 0].set_ylabel("number")
    named = {
        label: handle
        for one in axes.ravel()
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True)
    }
    figure.legend(named.values(), named.keys(), loc="outside upper center", ncols=len(named))
    return [Sheet("reliability", "Precision by score on what never trained", figure)]


def panels_of(subject: Subject) -> list[Panel]:
    """Every set of the split, scored."""
    enc = subject.encoder

    def cuts(stories: Sequence[Story]) -> F32:
        return enc.thresholds(enc.articles(stories), subject.rate)

    def score(posts: Sequence[str], stories: Sequence[Story]) -> F32:
        return enc.posts(posts).similarity(enc.articles(stories))

    return [
        Panel(one.name, by_kind(score(one.posts, one.seeds), one), cuts(one.seeds))
        for one in subject.crises
    ] + [
        Panel(one.name, by_pairs(score(one.posts, one.stories), one), cuts(one.stories))
        for one in subject.pair_sets
    ]


def precision(axes: Axes, panel: Panel) -> None:
    """A dot with its interval for each bin, and where the automatic thresholds lie."""
    low, middle, high = np.percentile(panel.cuts, SPREAD)
    axes.axvspan(low, high, color=GREY, alpha=0.25, linewidth=0)
    axes.axvline(middle, color=GREY, linewidth=0.8, linestyle="--", label="automatic threshold")
    for kind, bins in panel.bins.items():
        colour, marker = LOOKS[kind]
        values, low_ends, high_ends = np.array(
            [(one.precision.value, one.precision.low, one.precision.high) for one in bins]
        ).T
        axes.errorbar(
            [one.low + STEP / 2 for one in bins], values,
            np.maximum((values - low_ends, high_ends - values), 0), fmt=f"{marker}-",
            color=colour, markersize=3, linewidth=0.8, elinewidth=0.6,
        )  # fmt: skip
    axes.set(title=shown(panel.name, 24), ylim=(-0.03, 1.03), xlabel="score")


def counts(axes: Axes, panel: Panel) -> None:
    """How many on topic, and of each other kind, stand behind each dot."""
    numbers = {"on topic": {one.low: one.on for bins in panel.bins.values() for one in bins}}
    numbers |= {kind: {one.low: one.other for one in bins} for kind, bins in panel.bins.items()}
    for kind, many in numbers.items():
        colour, marker = LOOKS[kind]
        held = sorted((low + STEP / 2, number) for low, number in many.items() if number)
        axes.plot(
            *np.array(held).reshape(-1, 2).T, f"{marker}:", color=colour, markersize=3,
            linewidth=0.6, label=kind,
        )  # fmt: skip
    axes.set(yscale="log", xlabel="score")
    axes.yaxis.set_major_formatter("{x:,g}")  # 10³ takes a formula to set
