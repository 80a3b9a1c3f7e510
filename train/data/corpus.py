"""Which texts of a folder may train: none that tunes or judges, nor a near-copy of one."""

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
    bare,
    crisis_posts,
    files,
    pair_sets,
    read_by_language,
    read_stories,
    reports,
    share,
    split_of_event,
    split_pairs,
)

STREAMS_TAUGHT = 0.4  # the share of everyday posts that train; the others are for judging
SHORT_TITLE = 3
LEAD = 300  # characters by which a copy of an article is found whose end is another
SENTENCE_WORDS = range(6, 46)
SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]*[A-Z0-9])")


@dataclass(frozen=True, slots=True)
class Corpus:
    """The texts that train, before they are tokens."""

    posts: list[str]
    articles: list[TrainingArticle]
    claims: list[TrainingArticle]
    pairs: list[Pair]
    sentences: list[str] = field(default_factory=list)  # out of the articles
    languages: dict[str, list[str]] = field(default_factory=dict)  # everyday posts that name theirs

    @property
    def pair_posts(self) -> list[str]:
        return [pair.post for pair in self.pairs]

    @property
    def pair_stories(self) -> list[TrainingArticle]:
        """The articles of the pairs, one for each."""
        return [pair.story for pair in self.pairs]


def read_corpus(data: Path, passed: SkippedRows) -> Corpus:
    """All texts of a folder that may train: public posts and articles, and the pairs' own."""
    splits = {name: split_pairs(pairs) for name, pairs in pair_sets(data, passed)}
    held = [pair for split in splits.values() for pair in (*split["dev"], *split["test"])]
    held_out = HeldOutKeys(held, *held_crises(data))
    pairs = {
        name: list(filter(held_out.frees_pair, split["train"])) for name, split in splits.items()
    }
    names = files(data, "pairs")
    stories = [read_articles(data, passed)]
    claims = [read_stories(file, passed) for name, file in names.items() if name.endswith(CLAIMS)]
    for name, own in pairs.items():
        kind = claims if name + CLAIMS in names else stories
        kind.append(pair.story for pair in own)
    articles = held_out.free(chain(*stories))
    streams = read_streams(data, passed)
    posts = chain(
        *streams.values(),
        (post.text for post in crisis_posts(data, passed) if split_of_event(post.event) == "train"),
        (title for title, _ in articles if len(title.split()) > SHORT_TITLE),
    )
    return Corpus(
        list(filter(held_out.frees, dict.fromkeys(posts))),
        articles,
        held_out.free(chain(*claims)),
        list(chain(*pairs.values())),
        list(filter(held_out.frees, dict.fromkeys(sentences(articles)))),
        {
            language: list(filter(held_out.frees, some))
            for language, some in streams.items()
            if language
        },
    )


def sentences(articles: Iterable[TrainingArticle]) -> Iterator[str]:
    """The sentences of every article that are neither very short nor very long."""
    for _, text in articles:
        parts = SENTENCE_END.split(" ".join(text.split()))
        yield from (part.strip() for part in parts if len(part.split()) in SENTENCE_WORDS)


class HeldOutKeys:
    """What tunes or judges, by what stays the same between near-copies of it."""

    def __init__(
        self, pairs: Iterable[Pair], posts: Iterable[str], stories: Iterable[TrainingArticle]
    ) -> None:
        self._keys = {bare(post) for post in posts}
        for pair in pairs:
            self._keys |= {bare(pair.post), *story_keys(pair.story)}
        for story in stories:
            self._keys |= story_keys(story)
        self._keys.discard("")

    def frees(self, post: str) -> bool:
        return bare(post) not in self._keys

    def frees_story(self, story: TrainingArticle) -> bool:
        return not story_keys(story) & self._keys

    def frees_pair(self, pair: Pair) -> bool:
        """Whether a post and its article may train."""
        return self.frees(pair.post) and self.frees_story(pair.story)

    def free(self, stories: Iterable[TrainingArticle]) -> list[TrainingArticle]:
        """The articles that may train, each once."""
        return list(filter(self.frees_story, dict.fromkeys(stories)))


def story_keys(story: TrainingArticle) -> set[str]:
    """A title, how the text begins, and the text, each without marks; a copy shares one."""
    return {bare(story.title), bare(story.text[:LEAD]), bare(story.text)} - {""}


def read_articles(data: Path, passed: SkippedRows) -> Iterator[TrainingArticle]:
    """The articles without posts: those of a part of their own, then those beside the pairs."""
    pools = [file for name, file in files(data, "pairs").items() if name.endswith(POOL)]
    for file in (*files(data, "articles").values(), *pools):
        yield from read_stories(file, passed)


def read_streams(data: Path, passed: SkippedRows) -> dict[str, list[str]]:
    """The everyday posts that train, by the languages that their rows tell."""
    streams: dict[str, list[str]] = {}
    for text, language in read_tweets(data, passed):
        if taught(text):
            streams.setdefault(language, []).append(text)
    return streams


def read_everyday(data: Path, passed: SkippedRows) -> dict[str, set[str]]:
    """The everyday posts that judge, each once, likewise."""
    posts: dict[str, set[str]] = {}
    for text, language in read_tweets(data, passed):
        if not taught(text):
            posts.setdefault(language, set()).add(text)
    return posts


def read_tweets(data: Path, passed: SkippedRows) -> Iterator[tuple[str, str]]:
    """All everyday posts with their languages."""
    return chain.from_iterable(
        read_by_language(file, passed) for file in files(data, "tweets").values()
    )


def taught(post: str) -> bool:
    """Whether an everyday post is among those that train."""
    return share(post) < STREAMS_TAUGHT


def held_crises(data: Path) -> tuple[list[str], list[TrainingArticle]]:
    """The posts and the reports of the events that tune or judge."""
    unseen = SkippedRows()  # rows skipped here are reported where the rest is read
    posts = [p.text for p in crisis_posts(data, unseen) if split_of_event(p.event) != "train"]
    by_event = reports(data, unseen).items()
    seeds = [s for event, some in by_event if split_of_event(event) != "train" for s in some]
    return posts, seeds
