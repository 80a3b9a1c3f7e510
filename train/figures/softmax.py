"""Why attention is made sparse: weights on random embeddings, and how fast Σ exp z grows."""

from collections.abc import Sequence
from math import sinh
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import NDArray

from encoder.model.entmax import entmax
from encoder.model.weights import I64
from train.figures.style import BLUE, GREEN, VERMILION, Sheet, page
from train.figures.subject import Subject

F64 = NDArray[np.float64]
ALPHAS = {1.0: "softmax (α = 1)", 1.5: "1.5-entmax", 2.0: "sparsemax (α = 2)"}
LOOKS: dict[float, dict[str, Any]] = {
    1.0: {"facecolor": BLUE, "edgecolor": BLUE},
    1.5: {"facecolor": "white", "edgecolor": VERMILION, "hatch": "////////"},
    2.0: {"facecolor": "white", "edgecolor": GREEN},
}
COUNTS = (5, 25)
DIM = 64
MEAN_EXP = sinh(1)  # E[exp z] for z ~ U(-1, 1): (e - 1/e) / 2
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
DRAWS = 2000
MIDDLE = (2.5, 97.5)


def random_logits(count: int, seed: int = 0) -> F64:
    """The scaled products of a random query with random embeddings, falling: [count]."""
    rng = np.random.default_rng(seed)
    query, keys = rng.standard_normal(DIM), rng.standard_normal((count, DIM))
    return np.sort(keys @ query / np.sqrt(DIM))[::-1].copy()


def attention_weights(logits: F64) -> dict[float, F64]:
    """The weights that each α gives to the embeddings, by α."""
    z = torch.from_numpy(logits)
    return {alpha: entmax(z, alpha).numpy() for alpha in ALPHAS}


def simulate(sizes: Sequence[int] | I64 = SIZES, draws: int = DRAWS) -> tuple[F64, F64, F64]:
    """Σ exp z over draws of so many z ~ U(-1, 1): the mean and the middle 95 %, by size."""
    rng = np.random.default_rng(0)
    sums = np.stack([np.exp(rng.uniform(-1, 1, (draws, size))).sum(1) for size in sizes])
    low, high = np.percentile(sums, MIDDLE, axis=1)
    return sums.mean(1), low, high


def draw_attention(_subject: Subject) -> list[Sheet]:
    """Softmax beside 1.5-entmax and sparsemax, on few and on many embeddings."""
    figure = page(2.7)
    panels = figure.subplots(1, len(COUNTS), width_ratios=(1, 2.4))
    for axes, count in zip(panels, COUNTS, strict=True):
        weights = attention_weights(random_logits(count))
        bars(axes, weights)
        above = ", ".join(str(np.count_nonzero(values)) for values in weights.values())
        axes.set_title(f"{count} random embeddings\nabove 0: {above}")
        axes.set(xlabel="embedding, by falling score", ylabel="attention weight")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(ALPHAS))
    return [Sheet("attention", "Softmax against entmax on random embeddings", figure)]


def bars(axes: Axes, weights: dict[float, F64]) -> None:
    """A group of bars for each embedding, a colour and a hatch for each α."""
    count, thick = len(weights[1.0]), 0.8 / len(weights)
    for i, (alpha, values) in enumerate(weights.items()):
        held = np.flatnonzero(values)  # a bar of no height would still show its edge
        place = held + 1 + (i - (len(weights) - 1) / 2) * thick
        axes.bar(
            place, values[held], thick * 0.8, label=ALPHAS[alpha], linewidth=0.8, **LOOKS[alpha]
        )
    step = 1 if count < 9 else 4
    axes.set(xticks=range(1, count + 1, step), xlim=(0.4, count + 0.6))
    axes.grid(axis="y")


def draw_sums(_subject: Subject) -> list[Sheet]:
    """The appendix: E[Σ exp z] is a straight line in the number of embeddings."""
    mean, low, high = simulate()
    figure = page(3.3, 3.6)
    axes = figure.subplots()
    sizes = np.array(SIZES)
    axes.plot(sizes, MEAN_EXP * sizes, color=VERMILION, label=f"expectation: {MEAN_EXP:.4f} · S")
    axes.errorbar(
        sizes, mean, (mean - low, high - mean), fmt="o", color=BLUE, markersize=4, capsize=3,
        linewidth=1, label=f"simulation: mean and middle 95 % of {DRAWS:,} draws",
    )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="number of embeddings S")
    axes.set_ylabel("Σ exp z over S scores z ~ U(−1, 1)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,g}")  # 10³ takes a formula to set
    axes.minorticks_off()
    figure.legend(loc="outside upper center")
    axes.grid()
    return [Sheet("appendix", "E[Σ exp z] against simulation", figure)]
