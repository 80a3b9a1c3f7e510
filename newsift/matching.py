"""`newsift.match`: which posts match which articles."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import encoder
from encoder import Encoder
from encoder.errors import InputError
from encoder.score.exact import pair_scores
from newsift.inputs import InputItem, Post, read_articles, read_posts
from worker.background_file import read_background
from worker.match.matcher import Matcher
from worker.match.records import shortest, why_tokens
from worker.seeds.background import OwnBackground
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedSet
from worker.seeds.state import control_state

BLOCK = 4096  # posts
COLUMNS = ("id", "score", "threshold", "matched", "event", "why")


def match(
    posts: Iterable[Any],
    articles: Iterable[InputItem] | Mapping[str, InputItem],
    *,
    text: str = "text",
    id: str | None = None,
    model: str | Path | Encoder = "default",
    rate: float = 0.001,
    threshold: float | None = None,
    background: str | Path | None = None,
) -> Any:
    """Say of every post which article it comes closest to, and whether that is a match.

    `posts` are texts, dicts or a table, whose text stands under the name `text` and whose id under
    `id` ("id" if there is one); without an id it is a digest of the text. `articles` are texts,
    (title, text) pairs or seed records such as {"text", "title", "event", "threshold"}, in a list
    or by their events: {event: article or list of articles}.

    The result has a row for every post, in order: id, score, threshold, matched, event, and why,
    the words that made the score; the latter two for matches alone. It is a DataFrame with the
    index of the posts where they came as one of pandas, else a list of dicts. A post that matches
    several articles is told with the best. `threshold` is the score that is a match; without it
    each article has the score that this `rate` of everyday posts would reach, or of the posts in
    the file `background`, which `newsift background build` made.
    """
    with nullcontext(model) if isinstance(model, Encoder) else encoder.load(model) as enc:
        own = read_background(background, enc, rate) if background else None
        seeds = _seeds(enc, articles, rate, threshold, own)
        matcher, read = Matcher(seeds, enc.threads, most=1), read_posts(posts, text, id)
        rows: list[dict[str, Any]] = []
        while block := list(islice(read, BLOCK)):
            rows += _judged(enc, matcher, block)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(posts, pandas.DataFrame):
        return pandas.DataFrame(rows, index=posts.index, columns=COLUMNS)
    return rows


def _seeds(
    enc: Encoder, articles: Iterable[InputItem], rate: float, threshold: float | None,
    own: OwnBackground | None,
) -> SeedSet:  # fmt: skip
    """What the worker would refuse is refused."""
    if threshold is None and own is None:
        enc.thresholds(enc.articles([]), rate)  # refuses a rate that cannot be
    if threshold is not None and not 0 < threshold <= 1:
        raise InputError(f"threshold: {threshold} is not above 0 and at most 1")
    read = list(read_articles(articles))
    names = [name for name, _ in read]
    state = control_state({b"%09d" % at: record for at, (_, record) in enumerate(read)})
    seeds = SeedEmbedder(enc, rate, threshold, own).make(state)
    for refused in seeds.refused:
        raise InputError(f"{names[int(refused.id)]}: {refused.reason}")
    if not len(seeds):
        raise InputError("articles: there is none to compare with; give one that is not paused")
    return seeds


def _judged(enc: Encoder, matcher: Matcher, posts: list[Post]) -> Iterator[dict[str, Any]]:
    """A row for each post: its best match, else the article with the highest score."""
    seeds, texts = matcher.seeds, [post.text for post in posts]
    P, A = enc.posts(texts), seeds.embeddings
    matched = matcher.match(P, np.zeros(len(P), np.int64))
    closest = P.search(A, 1)[1][:, 0]  # [n]
    closest[matched.posts] = matched.seeds
    pairs = np.stack([np.arange(len(P)), closest], axis=1)  # [n, 2]
    scores = pair_scores((P.dense, P.lexical), (A.dense, A.lexical), P.mix, pairs)
    matches = matched.posts.tolist()
    parts = enc.contributions(texts, A, list(zip(matches, matched.seeds.tolist(), strict=True)))
    why = dict(zip(matches, map(why_tokens, parts), strict=True))
    for at, (post, seed) in enumerate(zip(posts, closest.tolist(), strict=True)):
        yield {
            "id": post.id,
            "score": shortest(scores[at]),
            "threshold": shortest(seeds.thresholds[seed]),
            "matched": at in why,
            "event": seeds.seeds[seed].event if at in why else None,
            "why": why.get(at, []),
        }
