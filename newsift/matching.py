"""`newsift.match`: which posts match which articles; each post and article is checked."""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import encoder
from encoder import Encoder
from encoder.errors import InputError
from encoder.model.config import Side
from encoder.score.exact import pair_scores
from encoder.text.clean import each_of, is_pair
from worker.background_file import read_background
from worker.match.matcher import Matcher
from worker.match.records import shortest, why_tokens
from worker.seeds.background import OwnBackground
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.record import EVENT_BYTES
from worker.seeds.set import SeedSet
from worker.seeds.state import control_state

InputItem: TypeAlias = str | tuple[str, str] | Mapping[str, Any] | list[Any]
ID = "id"


class Post(NamedTuple):
    id: Any
    text: str


def read_posts(posts: Any, text: str, id: str | None) -> Iterator[Post]:
    """From two columns of a table, or from texts or dicts."""
    if hasattr(posts, "columns"):
        texts = _column(posts, text)
        named = id is not None or ID in posts.columns
        pairs = zip(_column(posts, id or ID) if named else texts, texts, strict=True)
        items: Iterable[Any] = ({ID: key if named else None, text: value} for key, value in pairs)
        id = ID
    elif isinstance(posts, Mapping):
        raise InputError("posts: a single dict was given; put it into a list")
    else:
        items = each_of(posts, Side.POST)
    return (_post(item, text, id or ID, number) for number, item in enumerate(items))


def read_articles(articles: Any) -> Iterator[tuple[str, bytes]]:
    """The place of each article in the input, and its record as on the control topic."""
    if not isinstance(articles, Mapping):
        for number, item in enumerate(each_of(articles, Side.ARTICLE)):
            yield _article(item, f"articles[{number}]", None, f"article {number + 1}")
        return
    if isinstance(articles.get("text"), str):
        raise InputError("articles: a single record was given; put it into a list")
    for event, items in articles.items():
        for item in items if isinstance(items, list) else [items]:
            yield _article(item, f"articles[{event!r}]", str(event), "")


def _column(table: Any, name: str) -> Any:
    if name not in table.columns:
        there = ", ".join(map(repr, table.columns))
        raise InputError(f"posts: no column {name!r}; name it by text= or id= ({there} are there)")
    return table[name]


def _post(item: Any, text: str, id: str, number: int) -> Post:
    content, name = (item.get(text), item.get(id)) if isinstance(item, Mapping) else (item, None)
    if not isinstance(content, str):
        kind = "no text" if content is None else type(content).__name__
        raise InputError(f"posts[{number}]: {kind}, expected a str under {text!r}; leave it out")
    if name is None or name != name:  # NaN, which stands for nothing in a table
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"sha256:{digest[:16]}"
    return Post(name, content)


def _article(item: Any, place: str, event: str | None, otherwise: str) -> tuple[str, bytes]:
    if isinstance(item, str):
        item = {"text": item}
    elif is_pair(item):
        item = {"title": item[0], "text": item[1]}
    elif not isinstance(item, Mapping):
        kind = type(item).__name__
        raise InputError(f"{place}: {kind}, expected a text, a (title, text) or a seed record")
    record = dict(item)
    title = str(item.get("title") or "").encode("utf-8", "ignore")[:EVENT_BYTES]
    record["event"] = event or item.get("event") or title.decode("utf-8", "ignore") or otherwise
    try:
        return place, json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except TypeError as error:
        raise InputError(f"{place}: is no seed record ({error})") from error


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
            rows += _result_rows(enc, matcher, block)
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


def _result_rows(enc: Encoder, matcher: Matcher, posts: list[Post]) -> Iterator[dict[str, Any]]:
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
