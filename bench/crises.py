"""A crisis among news: the posts that a bench trains with, and those that it judges with."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32, I64
from encoder.thresholds import thresholds
from newsift.statistics.feedback import learn
from newsift.statistics.promise import F64
from train.data.readers import SkippedRows, copy_key, files, read_posts
from train.protocol.metrics import auc_of
from train.protocol.sets import read_crises
from worker.seeds.automatic import Reader, calibrating_rows
from worker.seeds.profile import EventVector

NEWS = "canadian_news_2017"
RECALL = 0.8


@dataclass(frozen=True, slots=True, eq=False)
class CrisisPosts:
    """The seeds of an event, and posts: the news, then posts on the event, then posts off it."""

    name: str
    seeds: Embeddings
    background: Embeddings  # read, to learn from
    calibrating: Embeddings  # rows of the background that do not train, by the posts' reader
    posts: Embeddings  # [n]
    news: int
    on: int

    def profile_scores(self, rates: Iterable[float]) -> tuple[F64, F64, list[float]]:
        """The scores of posts on the event and of the news, by a profile without a stream.

        And the thresholds of that profile at these rates.
        """
        vector = learn(self.seeds, self.background).vector
        scores = vector.scores(self.posts).astype(np.float64)
        news, on, _ = np.split(scores, [self.news, self.news + self.on])
        return on, news, [profile_threshold(vector, self.calibrating, rate) for rate in rates]

    def draw(self, one_in: int, seed: int) -> "CrisisDraw":
        """A stream of half the news, with one post in `one_in` on the event; 0 for none."""
        rng = np.random.default_rng(seed)
        news = rng.permutation(self.news)
        on = self.news + rng.permutation(self.on)
        half = self.news // 2
        count = round(half / (one_in - 1)) if one_in else 0
        if count > self.on // 2:
            raise InputError(f"{self.name}: {self.on} posts, {2 * count} are needed")
        stream = np.concatenate([news[:half], on[:count]])
        return CrisisDraw(self, rng.permutation(stream), news[half:], on[count:])


@dataclass(frozen=True, slots=True, eq=False)
class CrisisDraw:
    """Indices into the posts of a crisis."""

    crisis: CrisisPosts
    stream: I64  # posts to train with, in random order
    news: I64  # the others judge
    on: I64

    def is_on(self, places: I64) -> NDArray[np.bool_]:
        """Which of these posts are on the event."""
        first = self.crisis.news
        return (places >= first) & (places < first + self.crisis.on)

    def precision(self, scores: F32, one_in: int) -> float:
        """The precision at 80 % recall if one post in `one_in` is on the event."""
        threshold = np.sort(scores[self.on])[::-1][int(np.ceil(RECALL * len(self.on))) - 1]
        hits, alarms = (float((scores[x] >= threshold).mean()) for x in (self.on, self.news))
        return hits / (hits + (one_in - 1) * alarms)

    def off_topic(self, scores: F32) -> float:
        """The AUC of posts on the event against posts off it that were gathered with them."""
        return auc_of(scores[self.on], scores[self.crisis.news + self.crisis.on :])


def crises_among_news(enc: Encoder, data: Path, reader: Reader = "read") -> Iterator[CrisisPosts]:
    """Every crisis of a folder among news; without duplicates and the model's background."""
    skips, everyday, read = SkippedRows(), enc.background, enc.background.read
    embed, rows = (enc.posts, read) if reader == "read" else (enc.skim, everyday.skim)
    calibrating = rows[calibrating_rows(read)]
    if NEWS not in (names := files(data, "tweets")):
        raise InputError(f"--data: {data}/tweets holds no {NEWS}; give the folder of the data")
    by_text = {copy_key(text): text for text in read_posts(names[NEWS], skips)}
    news = exclude_background(embed(text for key, text in by_text.items() if key), read)
    for crisis in read_crises(data, skips):
        about = embed((*crisis.on, *crisis.off))
        posts = Embeddings.concat([news, about])
        seeds = enc.articles(crisis.seeds)
        yield CrisisPosts(
            crisis.name, seeds, read, calibrating, posts, news=len(news), on=len(crisis.on)
        )


def exclude_background(posts: Embeddings, background: Embeddings) -> Embeddings:
    """The posts without the texts of the background, which profiles are trained with."""
    background_words = set(words_of(background))
    return posts[np.flatnonzero([words not in background_words for words in words_of(posts)])]


def words_of(posts: Embeddings) -> Sequence[bytes]:
    slots, ends = posts.lexical.slots, posts.lexical.indptr
    return [slots[a:b].tobytes() for a, b in pairwise(ends)]


def profile_threshold(vector: EventVector, calibrating: Embeddings, rate: float) -> float:
    """The score that this share reaches of the background posts that do not train."""
    row = vector.as_row(calibrating.mix, calibrating.digest)
    return float(thresholds(calibrating, row, rate)[0])
