"""The posts on the ten most shared articles, laid out by the model's own distances."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from encoder import Encoder
from encoder.model.weights import F32, I64
from train.figures.style import COLOURS, MARKERS, Sheet, page, shown
from train.figures.subject import MissingDataError, Subject
from train.protocol.sets import PairSet

ARTICLES = 10
FEWEST = 5  # posts; below, nothing can be laid out
PERPLEXITY = 30.0
SEED = 0
TITLE_COLUMNS = 52


class Chosen(NamedTuple):
    """The most shared articles of a set, and the posts on them."""

    stories: tuple[int, ...]  # by falling number of posts
    posts: I64  # [n]
    group: I64  # [n] which of the stories each post is on


def most_shared(own: I64, count: int = ARTICLES) -> Chosen:
    """The articles with the most posts; a post on several of them counts for the most shared."""
    posts_on = np.bincount(own[:, 1])
    order = np.argsort(-posts_on, kind="stable")[:count]
    rank = {int(story): place for place, story in enumerate(order) if posts_on[story]}
    group: dict[int, int] = {}
    for post, story in own.tolist():
        if story in rank:
            group[post] = min(rank[story], group.get(post, len(rank)))
    posts = sorted(group)
    return Chosen(tuple(rank), np.array(posts, np.int64), np.array([group[p] for p in posts]))


def distances(enc: Encoder, texts: list[str]) -> F32:
    """One less the score of every two posts: [n, n], symmetric, 0 on the diagonal."""
    posts = enc.posts(texts)
    apart = 1 - posts.similarity(posts)
    apart = np.maximum((apart + apart.T) / 2, 0)
    np.fill_diagonal(apart, 0)
    return np.asarray(apart, np.float32)


def layout(apart: F32) -> NDArray[np.float32]:
    """Places in the plane by t-SNE, the same each time: [n, 2]."""
    perplexity = min(PERPLEXITY, (len(apart) - 1) / 3)
    tsne = TSNE(metric="precomputed", init="random", random_state=SEED, perplexity=perplexity)
    with threadpool_limits(1):  # sums of several threads end in another order each time
        return np.asarray(tsne.fit_transform(apart.copy()), np.float32)  # squares what it is given


def draw_tsne(subject: Subject) -> list[Sheet]:
    """The set of pairs that has the most posts on ten articles."""
    found = [(one, most_shared(one.own)) for one in subject.pair_sets]
    pairs, chosen = max(found, key=lambda both: len(both[1].posts))
    if len(chosen.posts) < FEWEST:
        raise MissingDataError(f"needs {FEWEST} posts on ten articles; {pairs.name} has fewer")
    texts = [pairs.posts[post] for post in chosen.posts]
    places = layout(distances(subject.encoder, texts))
    figure = page(3.6)
    axes = figure.subplots()
    scatter(axes, places, chosen, pairs)
    articles = f"the {len(chosen.stories)} most shared articles of {shown(pairs.name)}"
    axes.set_title(f"{len(texts)} posts on {articles}")
    figure.legend(loc="outside right center", handletextpad=0.3, labelspacing=0.7)
    return [Sheet("tsne", "t-SNE of posts on the most shared articles", figure)]


def scatter(axes: Axes, places: NDArray[np.float32], chosen: Chosen, pairs: PairSet) -> None:
    """A colour and a marker for each article."""
    for number, story in enumerate(chosen.stories):
        mine = places[chosen.group == number]
        about = pairs.stories[story]
        title = shown(about.title or about.text[:400], TITLE_COLUMNS)
        axes.plot(
            *mine.T, MARKERS[number % len(MARKERS)], color=COLOURS[number % len(COLOURS)],
            markersize=4.5, markeredgecolor="white", markeredgewidth=0.4,
            label=f"{title} ({len(mine)})",
        )  # fmt: skip
    axes.set(xticks=[], yticks=[], xlabel="t-SNE, first axis (no unit)")
    axes.set_ylabel("t-SNE, second axis (no unit)")
