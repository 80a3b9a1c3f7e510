"""The α that each head has learned, in ring and star."""

import numpy as np
from matplotlib.axes import Axes

from encoder.model.weights import F32
from train.figures.style import BLUE, GREY, VERMILION, Sheet, page
from train.figures.subject import MissingDataError, Subject

PARTS = {"ring": (BLUE, "o"), "star": (VERMILION, "*")}
MARKS = {1.0: "softmax", 1.5: "1.5-entmax", 2.0: "sparsemax"}


def draw_alpha(subject: Subject) -> list[Sheet]:
    """A panel for each layer, a dot for each head of ring and star."""
    weights = subject.encoder.model.weights
    if not weights.layers:
        raise MissingDataError("needs a model with a star")
    layers = [{"ring": layer.ring.alpha, "star": layer.star.alpha} for layer in weights.layers]
    figure = page(2.6, 4.6 if len(layers) == 1 else 6.9)
    panels = figure.subplots(1, len(layers), sharey=True, squeeze=False)[0]
    for number, (axes, alphas) in enumerate(zip(panels, layers, strict=True), 1):
        dots(axes, alphas)
        means = ", ".join(f"{part} {values.mean():.2f}" for part, values in alphas.items())
        axes.set_title(f"layer {number}, mean α: {means}")
    panels[0].set_ylabel("learned α")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(PARTS))
    return [Sheet("alpha", "Learned α per head, ring and star", figure)]


def dots(axes: Axes, alphas: dict[str, F32]) -> None:
    """The heads side by side between softmax and sparsemax."""
    for level, name in MARKS.items():
        axes.axhline(level, color=GREY, linewidth=0.6, linestyle=":", zorder=0)
        axes.annotate(
            name, (1, level), xycoords=("axes fraction", "data"), textcoords="offset points",
            xytext=(3, 0), va="center", fontsize=7, color=GREY, annotation_clip=False,
        )  # fmt: skip
    for shift, (part, values) in zip((-0.12, 0.12), alphas.items(), strict=True):
        colour, marker = PARTS[part]
        heads = np.arange(1, len(values) + 1) + shift
        size = 8 if marker == "*" else 5
        axes.plot(heads, values, marker, color=colour, markersize=size, label=part)
    axes.set(xlabel="head", ylim=(0.97, 2.03), xticks=range(1, len(values) + 1))
