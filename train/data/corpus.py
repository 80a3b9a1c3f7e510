"""The training texts of a folder: no text of dev or test, nor a near-copy of one."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from train.data.readers import (
    CLAIMS,
    POOL,
    Pair,
    SkippedRows,
    TrainingArticle,
    copy_key,
    crisis_posts,
    files,
    pair_sets,
    read_posts,
    read_stories,
    reports,
    share,
    split_of_event,
    split_pairs,
)

TRAINING_SHARE = 0.4  # of everyday posts; the others are for evaluation
SHORT_TITLE = 3
LEAD = 300  # characters; articles with the same lead are copies
SENTENCE_WORDS = range(6, 46)
SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]*[A-Z0-9])")


@dataclass(frozen=True, slots=True)
class Corpus:
    """The training texts."""

    posts: list[str]
    articles: list[TrainingArticle]
    claims: list[TrainingArticle]
    pairs: list[Pair]
    sentences: list[str] = field(default_factory=list)  # from the articles

    def __len__(self) -> int:
        parts = self.posts, self.articles, self.claims, self.pairs, self.sentences
        return sum(len(part) for part in parts)

    @property
    def pair_posts(self) -> list[str]:
        return [pair.post for pair in self.pairs]

    @property
    def pair_stories(self) -> list[TrainingArticle]:
        return [pair.story for pair in self.pairs]


def read_corpus(data: Path, skips: SkippedRows) -> Corpus:
    """Read all training texts of a folder: posts, articles and pairs."""
    splits = {name: split_pairs(pairs) for name, pairs in pair_sets(data, skips)}
    evaluation = [pair for split in splits.values() for pair in (*split["dev"], *split["test"])]
    held_out = HeldOutKeys(evaluation, *read_held_out_crises(data))
    pairs = {
        name: list(filter(held_out.allows_pair, split["train"])) for name, split in splits.items()
    }
    names = files(data, "pairs")
    stories = [read_articles(data, skips)]
    claims = [read_stories(file, skips) for name, file in names.items() if name.endswith(CLAIMS)]
    for name, own in pairs.items():
        kind = claims if name + CLAIMS in names else stories
        kind.append(pair.story for pair in own)
    articles = held_out.filter_stories(chain(*stories))
    posts = chain(
        filter(is_training, read_tweets(data, skips)),
        read_more_posts(data, skips),
        (post.text for post in crisis_posts(data, skips) if split_of_event(post.event) == "train"),
        (title for title, _ in articles if len(title.split()) > SHORT_TITLE),
    )
    return Corpus(
        list(filter(held_out.allows_post, dict.fromkeys(posts))),
        articles,
        held_out.filter_stories(chain(*claims)),
        list(chain(*pairs.values())),
        list(filter(held_out.allows_post, dict.fromkeys(sentences(articles)))),
    )


def sentences(articles: Iterable[TrainingArticle]) -> Iterator[str]:
    """Split articles into sentences; yield those of 6 to 45 words."""
    for _, text in articles:
        parts = SENTENCE_END.split(" ".join(text.split()))
        yield from (part.strip() for part in parts if len(part.split()) in SENTENCE_WORDS)


class HeldOutKeys:
    """The normalised texts of dev and test, to find near-copies of them."""

    def __init__(
        self, pairs: Iterable[Pair], posts: Iterable[str], stories: Iterable[TrainingArticle]
    ) -> None:
        self._keys = {copy_key(post) for post in posts}
        for pair in pairs:
            self._keys |= {copy_key(pair.post), *story_keys(pair.story)}
        for story in stories:
            self._keys |= story_keys(story)
        self._keys.discard("")

    def allows_post(self, post: str) -> bool:
        return copy_key(post) not in self._keys

    def allows_story(self, story: TrainingArticle) -> bool:
        return not story_keys(story) & self._keys

    def allows_pair(self, pair: Pair) -> bool:
        return self.allows_post(pair.post) and self.allows_story(pair.story)

    def filter_stories(self, stories: Iterable[TrainingArticle]) -> list[TrainingArticle]:
        """Return the distinct articles that may train."""
        return list(filter(self.allows_story, dict.fromkeys(stories)))


def story_keys(story: TrainingArticle) -> set[str]:
    """Return the normalised title, lead and text; a copy shares one of them."""
    return {copy_key(story.title), copy_key(story.text[:LEAD]), copy_key(story.text)} - {""}


def read_articles(data: Path, skips: SkippedRows) -> Iterator[TrainingArticle]:
    """Read the articles without posts: `articles/`, then the pools in `pairs/`."""
    pools = [file for name, file in files(data, "pairs").items() if name.endswith(POOL)]
    for file in (*files(data, "articles").values(), *pools):
        yield from read_stories(file, skips)


def read_more_posts(data: Path, skips: SkippedRows) -> Iterator[str]:
    """Read `posts/`, without near-copies of the everyday posts for evaluation."""
    if paths := files(data, "posts").values():
        held_out = HeldOutKeys([], read_everyday(data, SkippedRows()), [])
        yield from filter(
            held_out.allows_post, chain.from_iterable(read_posts(file, skips) for file in paths)
        )


def read_everyday(data: Path, skips: SkippedRows) -> set[str]:
    """Read the distinct everyday posts for evaluation."""
    return {post for post in read_tweets(data, skips) if not is_training(post)}


def read_tweets(data: Path, skips: SkippedRows) -> Iterator[str]:
    """Read all everyday posts."""
    return chain.from_iterable(read_posts(file, skips) for file in files(data, "tweets").values())


def is_training(post: str) -> bool:
    """Whether an everyday post is used for training."""
    return share(post) < TRAINING_SHARE


def read_held_out_crises(data: Path) -> tuple[list[str], list[TrainingArticle]]:
    """Read the posts and the reports of the events of dev and test."""
    skips = SkippedRows()  # read_corpus reports these rows
    posts = [p.text for p in crisis_posts(data, skips) if split_of_event(p.event) != "train"]
    by_event = reports(data, skips).items()
    seeds = [s for event, some in by_event if split_of_event(event) != "train" for s in some]
    return posts, seeds
