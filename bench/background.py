"""`newsift bench background`: the posts that pass thresholds of a background of one's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import encoder
from bench.crises import CrisisDraw, CrisisPosts, crises_among_news
from bench.measure import Cell, Report, ResultTable
from encoder.embeddings import Embeddings, thresholds
from train.data.readers import SkippedRows, files, read_stories

POSTS, ARTICLES = 20_000, 200  # in a background, and of each source
RATE = 0.001
HIGH_SHARE = 0.1  # A high score is one that a tenth of the background reaches.
RARE = (0, 500, 200, 50)  # one post in this many is on the event
FACTORS = (1.1, 1.2, 1.3)  # times the automatic threshold, from which posts are left out

HEADER = ("articles", "background", "threshold", "passes", "10 %", "90 %", "high", "most")
REMARKS = (
    f"Posts of 1,000 that reach a threshold where {1000 * RATE:g} is promised: mean, and 10th to",
    "90th percentile of the articles, on news that neither background holds. High: the share that",
    f"scores as {HIGH_SHARE:.0%} of the background do, mean and most of the articles.",
)
EVENT_REMARKS = (
    "Posts of 1,000 news that reach a seed's threshold · the share of the event's posts that reach",
    "any: means of the crises, where the background is drawn from a stream that holds the event.",
)


class Passes(NamedTuple):
    """The posts that pass the thresholds of articles on one background."""

    articles: str
    background: str
    threshold: float
    mean: float
    tenth: float
    ninetieth: float
    high: float
    most: float


def measure_background(model: str, data: Path, draws: int, report: Report) -> list[ResultTable]:
    """Two tables: articles on news, and events that are in the background."""
    with encoder.load(model, device="cpu") as enc:
        report("news and crises are embedded")
        crises = list(crises_among_news(enc, data))
        news = crises[0].posts[: crises[0].news]
        order = np.random.default_rng(0).permutation(len(news))
        background_rows, judging = np.split(order, [len(news) // 2])
        backgrounds = {"the model's": enc.background, "own": news[background_rows[:POSTS]]}
        passes = []
        for source, articles in sources(enc, data, crises):
            report(source)
            for name, background in backgrounds.items():
                passes.append(passes_of(source, name, articles, background, news[judging]))
    parts = [
        ResultTable("passes", f"Thresholds at {RATE:g}, model {model}", HEADER, passes, REMARKS)
    ]
    return [*parts, event_part(crises, draws, report)]


def sources(
    enc: encoder.Encoder, data: Path, crises: list[CrisisPosts]
) -> Iterator[tuple[str, Embeddings]]:
    yield "reports on the crises", Embeddings.concat([crisis.seeds for crisis in crises])
    for name, file in files(data, "articles").items():
        stories = list(read_stories(file, SkippedRows()))
        order = np.random.default_rng(0).permutation(len(stories))[:ARTICLES]
        yield name, enc.articles([stories[at] for at in order])


def passes_of(
    source: str, name: str, articles: Embeddings, background: Embeddings, news: Embeddings
) -> Passes:
    """How many of the news each article's threshold lets pass."""
    scores, limits = news.similarity(articles), thresholds(background, articles, RATE)
    passes = 1000 * (scores >= limits).mean(axis=0)
    high = (scores >= thresholds(background, articles, HIGH_SHARE)).mean(axis=0)
    figures = (
        limits.mean(),
        passes.mean(),
        *np.percentile(passes, (10, 90)),
        high.mean(),
        high.max(),
    )
    return Passes(source, name, *map(float, figures))


def event_part(crises: list[CrisisPosts], draws: int, report: Report) -> ResultTable:
    """The cost of an event in its own background, with and without its best posts."""
    rows: list[list[Cell]] = []
    for rare in RARE:
        report(f"one post in {rare} on the event")
        all_draws = [crisis.draw(rare, seed) for crisis in crises for seed in range(draws)]
        outcomes = [[outcome(draw, some) for some in backgrounds(draw)] for draw in all_draws]
        cells: list[Cell] = [f"{news:.2f} · {on:.2f}" for news, on in np.mean(outcomes, axis=0)]
        rows.append([f"1 in {rare}" if rare else "none", *cells])
    names = ["the model's", "all kept", *(f"from {factor}" for factor in FACTORS)]
    title = f"An event in its own background, means of {draws} draws"
    return ResultTable("event", title, ("on topic", *names), rows, EVENT_REMARKS)


def backgrounds(draw: CrisisDraw) -> Iterator[Embeddings]:
    """The model's background, the whole stream, and the stream without posts that score high."""
    crisis = draw.crisis
    yield crisis.background
    yield (stream := crisis.posts[draw.stream[:POSTS]])
    score, limits = (
        stream.similarity(crisis.seeds),
        thresholds(crisis.background, crisis.seeds, RATE),
    )
    for factor in FACTORS:
        yield stream[np.flatnonzero((score < np.float32(factor) * limits).all(axis=1))]


def outcome(draw: CrisisDraw, background: Embeddings) -> tuple[float, float]:
    """Of 1,000 news how many reach a seed's threshold; the share of the event's posts that do."""
    seeds, posts = draw.crisis.seeds, draw.crisis.posts
    limits = thresholds(background, seeds, RATE)
    news, on = (posts[places].similarity(seeds) >= limits for places in (draw.news, draw.on))
    return 1000 * float(news.mean()), float(on.any(axis=1).mean())
