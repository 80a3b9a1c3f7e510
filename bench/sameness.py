"""`newsift bench sameness`: scores as this machine reads them beside those in float64.

Posts are those that some seed has read: no other pair can match.
"""

from pathlib import Path

import numpy as np
import torch

import encoder
from bench.measure import Report, ResultTable, describe
from bench.texts import read_articles, read_posts
from bench.topics import FEW, POSTS
from encoder.encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32
from encoder.model_directory import read_model
from encoder.readers.choose import Readers, open_backend
from encoder.readers.star_torch import StarTorch
from encoder.support.named import model_directory

AT_ONCE = 32  # posts
RATE = 0.001  # of the background
NEAR = 0.02  # from a threshold: pairs that show how dense scores are there
WORDS = 200  # of an article
HEADER = (
    "pairs", "largest difference", "mean", "may be, by enc.error", "decide otherwise",
    "expected in a million",
)  # fmt: skip
REMARKS = (
    "Pairs of posts that some seed has read with all seeds. Expected: the mean difference times",
    f"the share of pairs in a unit of score, as counted within {NEAR:g} of the thresholds.",
)


def measure_sameness(
    data: Path | None, articles: Path | None, posts: int, model: str, report: Report,
    rate: float = RATE,
) -> list[ResultTable]:  # fmt: skip
    texts, source = read_posts(data, POSTS)
    stories = [
        " ".join(f"{title}. {text}".split()[:WORDS]) for title, text in read_articles(articles, FEW)
    ]
    with encoder.load(model, device="cpu") as enc, in_float64(model) as exact:
        seeds, exact_seeds = enc.articles(stories), exact.articles(stories)
        limits, skim_limits = enc.match_thresholds(seeds, rate)
        may_match = (enc.skim(texts).similarity(seeds) >= skim_limits).any(axis=1)
        read = [texts[row] for row in np.flatnonzero(may_match)[:posts].tolist()]
        if not read:
            raise InputError(
                f"--data: no seed would have a post of {source} read; give other posts"
            )
        own = enc.posts(read).similarity(seeds)
        scores = np.zeros_like(own)
        for start in range(0, len(read), AT_ONCE):
            report(f"{start:,} of {len(read):,} posts in float64")
            part = slice(start, start + AT_ONCE)
            scores[part] = exact.posts(read[part]).similarity(exact_seeds)
        rows = [compare(own, scores, limits, enc.error)]
    where = describe() | {"posts": f"{len(read):,} of {source}", "path": enc.path}
    title = "Scores here and in float64"
    return [ResultTable.where(where), ResultTable("sameness", title, HEADER, rows, REMARKS)]


def in_float64(model: str) -> Encoder:
    """The same model, whose star is computed in float64."""
    stored = read_model(model_directory(model))
    if stored.star is None:
        raise InputError(f"--model: {model} has no star; its vectors are the same everywhere")
    skim, _ = open_backend(stored, "cpu", None)
    star = StarTorch(stored.star.weights, "cpu", torch.float64)
    return Encoder(stored, Readers(skim, star, "torch-cpu", 0.0))


def compare(own: F32, exact: F32, limits: F32, error: float) -> list[float]:
    """The cells of HEADER, of scores [n, k]."""
    gap = np.abs(own - exact)
    otherwise = (own >= limits) != (exact >= limits)
    density = float((np.abs(exact - limits) < NEAR).mean()) / (2 * NEAR)
    mean = float(gap.mean())
    return [own.size, float(gap.max()), mean, error, int(otherwise.sum()), 1e6 * mean * density]
