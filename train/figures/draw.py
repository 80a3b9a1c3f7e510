"""The figures: α, softmax beside entmax, reliability, t-SNE; and the command that draws them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import sinh
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from encoder import Encoder
from encoder.errors import InputError
from encoder.model.entmax import entmax
from encoder.model.weights import F32, I64
from encoder.support.files import write_atomically
from train.data.readers import TrainingArticle
from train.figures.case import draw_case
from train.figures.subject import (
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    MARKERS,
    VERMILION,
    MissingDataError,
    Sheet,
    Subject,
    page,
    paper,
    render,
    shorten,
)
from train.protocol.sets import PREVALENCE, PairSet
from train.protocol.trust import STEP, Bin, by_kind, by_pairs

PARTS = {"ring": (BLUE, "o"), "star": (VERMILION, "*")}
MARKS = {1.0: "softmax", 1.5: "1.5-entmax", 2.0: "sparsemax"}


def draw_alpha(subject: Subject) -> list[Sheet]:
    """Draw α: a panel per layer, a dot per head of ring and star."""
    weights = subject.encoder.model.weights
    if not weights.config.has_star:
        raise MissingDataError("needs a model with a star")
    layers = [
        {part: weights[f"layers.{i}.{part}.alpha"] for part in PARTS}
        for i in range(weights.config.layers)
    ]
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
    """Draw one α per head."""
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


F64 = NDArray[np.float64]
ALPHAS = {1.0: "softmax (α = 1)", 1.5: "1.5-entmax", 2.0: "sparsemax (α = 2)"}
LINES: dict[float, dict[str, Any]] = {
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


def random_logits(count: int) -> F64:
    """The scaled products of a random query with random embeddings, falling: [count]."""
    rng = np.random.default_rng(0)
    query, keys = rng.standard_normal(DIM), rng.standard_normal((count, DIM))
    return np.sort(keys @ query / np.sqrt(DIM))[::-1].copy()


def attention_weights(logits: F64) -> dict[float, F64]:
    """Compute the attention weights for each α."""
    z = torch.from_numpy(logits)
    return {alpha: entmax(z, alpha).numpy() for alpha in ALPHAS}


def simulate(sizes: Sequence[int] | I64 = SIZES, draws: int = DRAWS) -> tuple[F64, F64, F64]:
    """Σ exp z over draws of z ~ U(-1, 1): the mean and the middle 95 %, by the number of z."""
    rng = np.random.default_rng(0)
    sums = np.stack([np.exp(rng.uniform(-1, 1, (draws, size))).sum(1) for size in sizes])
    low, high = np.percentile(sums, MIDDLE, axis=1)
    return sums.mean(1), low, high


def draw_attention(_subject: Subject) -> list[Sheet]:
    """Draw softmax, 1.5-entmax and sparsemax on few and on many embeddings."""
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
    """Draw a group of bars per embedding, one bar per α."""
    count, thick = len(weights[1.0]), 0.8 / len(weights)
    for i, (alpha, values) in enumerate(weights.items()):
        points = np.flatnonzero(values)  # a bar of height 0 would still have an edge
        place = points + 1 + (i - (len(weights) - 1) / 2) * thick
        axes.bar(
            place, values[points], thick * 0.8, label=ALPHAS[alpha], linewidth=0.8, **LINES[alpha]
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
        axis.set_major_formatter("{x:,g}")  # the default 10³ needs math text
    axes.minorticks_off()
    figure.legend(loc="outside upper center")
    axes.grid()
    return [Sheet("appendix", "E[Σ exp z] against simulation", figure)]


ABREAST = 4
KIND_MARKERS = {
    "on topic": ("black", "x"), "off topic": (BLUE, "o"), "background": (VERMILION, "s"),
    "other articles": (GREEN, "^"),
}  # fmt: skip
SPREAD = (5, 50, 95)  # of the thresholds, in percent


class Panel(NamedTuple):
    """One set: its bins for each kind of wrong posts, and the automatic thresholds."""

    name: str
    bins: Mapping[str, Sequence[Bin]]
    thresholds: F32


def draw_reliability(subject: Subject) -> list[Sheet]:
    """Draw each set's precision by score, and below it the number of posts per point."""
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
    handles = {
        label: handle
        for panel in axes.ravel()
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles))
    return [Sheet("reliability", "Precision by score on what never trained", figure)]


def panels_of(subject: Subject) -> list[Panel]:
    """Every set of the split, scored."""
    enc = subject.encoder
    try:
        pair_sets = subject.pair_sets
    except MissingDataError:
        if not subject.crises:
            raise
        pair_sets = []

    def thresholds(stories: Sequence[TrainingArticle]) -> F32:
        return enc.thresholds(enc.articles(stories), subject.rate)

    def score(posts: Sequence[str], stories: Sequence[TrainingArticle]) -> F32:
        return enc.posts(posts).similarity(enc.articles(stories))

    return [
        Panel(
            crisis.name,
            by_kind(score(crisis.posts, crisis.seeds), crisis),
            thresholds(crisis.seeds),
        )
        for crisis in subject.crises
    ] + [
        Panel(
            pairs.name,
            by_pairs(score(pairs.posts, pairs.stories), pairs),
            thresholds(pairs.stories),
        )
        for pairs in pair_sets
    ]


def precision(axes: Axes, panel: Panel) -> None:
    """Draw the precision of each bin with its interval, and the automatic thresholds."""
    low, middle, high = np.percentile(panel.thresholds, SPREAD)
    axes.axvspan(low, high, color=GREY, alpha=0.25, linewidth=0)
    axes.axvline(middle, color=GREY, linewidth=0.8, linestyle="--", label="automatic threshold")
    for kind, bins in panel.bins.items():
        colour, marker = KIND_MARKERS[kind]
        values, low_ends, high_ends = np.array(
            [(each.precision.value, each.precision.low, each.precision.high) for each in bins]
        ).T
        axes.errorbar(
            [each.low + STEP / 2 for each in bins], values,
            np.maximum((values - low_ends, high_ends - values), 0), fmt=f"{marker}-",
            color=colour, markersize=3, linewidth=0.8, elinewidth=0.6,
        )  # fmt: skip
    axes.set(title=shorten(panel.name, 24), ylim=(-0.03, 1.03), xlabel="score")


def counts(axes: Axes, panel: Panel) -> None:
    """Draw the number of posts of each kind per bin."""
    numbers = {"on topic": {each.low: each.on for bins in panel.bins.values() for each in bins}}
    numbers |= {kind: {each.low: each.other for each in bins} for kind, bins in panel.bins.items()}
    for kind, many in numbers.items():
        colour, marker = KIND_MARKERS[kind]
        points = sorted((low + STEP / 2, number) for low, number in many.items() if number)
        axes.plot(
            *np.array(points).reshape(-1, 2).T, f"{marker}:", color=colour, markersize=3,
            linewidth=0.6, label=kind,
        )  # fmt: skip
    axes.set(yscale="log", xlabel="score")
    axes.yaxis.set_major_formatter("{x:,g}")  # the default 10³ needs math text


ARTICLES = 10
MIN_POSTS = 5  # for t-SNE
PERPLEXITY = 30.0
SEED = 0
TITLE_COLUMNS = 52


class SharedArticles(NamedTuple):
    """The most shared articles of a set, and the posts on them."""

    stories: tuple[int, ...]  # by falling number of posts
    posts: I64  # [n]
    group: I64  # [n] which of the stories each post is on


def most_shared(own: I64, count: int = ARTICLES) -> SharedArticles:
    """Select the articles with the most posts; a post on several is assigned to the first."""
    posts_on = np.bincount(own[:, 1])
    order = np.argsort(-posts_on, kind="stable")[:count]
    rank = {int(story): place for place, story in enumerate(order) if posts_on[story]}
    group: dict[int, int] = {}
    for post, story in own.tolist():
        if story in rank:
            group[post] = min(rank[story], group.get(post, len(rank)))
    posts = sorted(group)
    return SharedArticles(
        tuple(rank), np.array(posts, np.int64), np.array([group[p] for p in posts])
    )


def distances(enc: Encoder, texts: list[str]) -> F32:
    """Compute 1 - score for all pairs of posts: [n, n], symmetric, 0 on the diagonal."""
    posts = enc.posts(texts)
    apart = 1 - posts.similarity(posts)
    apart = np.maximum((apart + apart.T) / 2, 0)
    np.fill_diagonal(apart, 0)
    return np.asarray(apart, np.float32)


def layout(apart: F32) -> NDArray[np.float32]:
    """Compute t-SNE coordinates, reproducibly: [n, 2]."""
    perplexity = min(PERPLEXITY, (len(apart) - 1) / 3)
    tsne = TSNE(metric="precomputed", init="random", random_state=SEED, perplexity=perplexity)
    with threadpool_limits(1):  # the order of sums in several threads varies
        # A copy, as fit_transform modifies its input.
        return np.asarray(tsne.fit_transform(apart.copy()), np.float32)


def draw_tsne(subject: Subject) -> list[Sheet]:
    """Draw the pair set with the most posts on ten articles."""
    candidates = [(pairs, most_shared(pairs.own)) for pairs in subject.pair_sets]
    pairs, selection = max(candidates, key=lambda both: len(both[1].posts))
    if len(selection.posts) < MIN_POSTS:
        raise MissingDataError(f"needs {MIN_POSTS} posts on ten articles; {pairs.name} has fewer")
    texts = [pairs.posts[post] for post in selection.posts]
    places = layout(distances(subject.encoder, texts))
    figure = page(3.6)
    axes = figure.subplots()
    scatter(axes, places, selection, pairs)
    articles = f"the {len(selection.stories)} most shared articles of {shorten(pairs.name)}"
    axes.set_title(f"{len(texts)} posts on {articles}")
    figure.legend(loc="outside right center", handletextpad=0.3, labelspacing=0.7)
    return [Sheet("tsne", "t-SNE of posts on the most shared articles", figure)]


def scatter(
    axes: Axes, places: NDArray[np.float32], selection: SharedArticles, pairs: PairSet
) -> None:
    """A colour and a marker for each article."""
    for number, story in enumerate(selection.stories):
        mine = places[selection.group == number]
        about = pairs.stories[story]
        title = shorten(about.title or about.text[:400], TITLE_COLUMNS)
        axes.plot(
            *mine.T, MARKERS[number % len(MARKERS)], color=COLOURS[number % len(COLOURS)],
            markersize=4.5, markeredgecolor="white", markeredgewidth=0.4,
            label=f"{title} ({len(mine)})",
        )  # fmt: skip
    axes.set(xticks=[], yticks=[], xlabel="t-SNE, first axis (no unit)")
    axes.set_ylabel("t-SNE, second axis (no unit)")


FIGURES: dict[str, Callable[[Subject], list[Sheet]]] = {
    "attention": draw_attention,
    "tsne": draw_tsne,
    "alpha": draw_alpha,
    "case": draw_case,
    "appendix": draw_sums,
    "reliability": draw_reliability,
}


def parse_names(only: str) -> list[str]:
    """Parse comma-separated figure names; empty means all."""
    names = [name.strip() for name in only.split(",") if name.strip()]
    for name in names:
        if name not in FIGURES:
            raise InputError(f"--only: no figure {name!r}; there are {', '.join(FIGURES)}")
    return names or list(FIGURES)


def draw(
    subject: Subject, names: list[str], out: Path, say: Callable[[str], None]
) -> Iterator[Path]:
    """Draw and write the figures; one without data is skipped."""
    for name in names:
        try:
            with paper():
                for sheet in FIGURES[name](subject):
                    yield from write(sheet, out)
        except MissingDataError as error:
            say(f"{name}: {error}")


def write(sheet: Sheet, out: Path) -> Iterator[Path]:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: cannot be made ({error.strerror})") from error
    for ending, content in render(sheet).items():
        file = out / f"{sheet.name}.{ending}"
        write_atomically(file, content)
        yield file
