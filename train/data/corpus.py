"""Which texts of a folder may train; nothing that tunes or judges, nor a near-copy of it, is one.

A folder holds `pairs/`, `articles/`, `tweets/` and `crisis/`, each with files of rows; what is not
there is not read. In `pairs/`, a file NAME_claims or NAME_pool holds further articles.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from train.data.readers import (
    Pair,
    Passed,
    Story,
    read_crisis_posts,
    read_pairs,
    read_stories,
    rows,
)
from train.data.splits import bare, share, split_of_event, split_pairs

KINDS = (".jsonl", ".jsonl.gz", ".csv", ".tsv")
CLAIMS = "_claims"
POOL = (CLAIMS, "_pool")
SEEDS = "seed_articles"
STREAMS_TAUGHT = 0.4  # the share of everyday posts that train; the others are for judging
SHORT_TITLE = 3
LEAD = 300  # characters by which a copy of an article is found whose end is another
SENTENCES_EACH = 8  # of an article
SENTENCE_WORDS = range(6, 46)
SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]*[A-Z0-9])")

Title = tuple[str, str]  # a title and the text under it


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts that train, before they are tokens."""

    posts: list[str]
    articles: list[Title]
    claims: list[Title]
    pairs: list[Pair]
    sentences: list[str] = field(default_factory=list)  # out of the articles


def read_texts(data: Path, passed: Passed) -> Texts:
    """All texts of a folder that may train: public posts and articles, and the pairs' own."""
    split = {stem(file): split_pairs(read_pairs(file, passed))[0] for file in pair_files(data)}
    held = [pair for one in split.values() for name in ("dev", "test") for pair in one[name]]
    away = Away(held, *held_crises(data, passed))
    pairs = {name: list(filter(away.frees_pair, one["train"])) for name, one in split.items()}
    stories, claims = [read_articles(data, passed)], [read_claims(data, passed)]
    pools = {stem(file) for file in pool_files(data)}
    for name, kept in pairs.items():
        kind = claims if name + CLAIMS in pools else stories
        kind.append(pair.story for pair in kept)
    articles = away.free(chain(*stories))
    posts = chain(
        read_streams(data, passed),
        train_crises(data, passed),
        (title for title, _ in articles if len(title.split()) > SHORT_TITLE),
    )
    return Texts(
        list(filter(away.frees, dict.fromkeys(posts))),
        articles,
        away.free(chain(*claims)),
        list(chain(*pairs.values())),
        list(filter(away.frees, dict.fromkeys(sentences(articles)))),
    )


def sentences(articles: Iterable[Title]) -> Iterator[str]:
    """A few sentences of every article, the same ones in every run."""
    for _, text in articles:
        parts = SENTENCE_END.split(" ".join(text.split()))
        found = (part.strip() for part in parts if len(part.split()) in SENTENCE_WORDS)
        yield from sorted(found, key=share)[:SENTENCES_EACH]


class Away:
    """What tunes or judges, by what stays the same between near-copies of it."""

    def __init__(
        self, pairs: Iterable[Pair], posts: Iterable[str], stories: Iterable[Story]
    ) -> None:
        self._keys = {bare(post) for post in posts}
        for pair in pairs:
            self._keys |= {bare(pair.post), *story_keys(pair.story)}
        for story in stories:
            self._keys |= story_keys(story)
        self._keys.discard("")

    def frees(self, post: str) -> bool:
        """Whether a post may train."""
        return bare(post) not in self._keys

    def frees_story(self, story: Story) -> bool:
        """Whether an article may train."""
        return not story_keys(story) & self._keys

    def frees_pair(self, pair: Pair) -> bool:
        """Whether a post and its article may train."""
        return self.frees(pair.post) and self.frees_story(pair.story)

    def free(self, stories: Iterable[Story]) -> list[Title]:
        """The articles that may train, each once."""
        found = dict.fromkeys((story.title, story.text) for story in stories)
        return [one for one in found if self.frees_story(Story("", *one))]


def story_keys(story: Story) -> set[str]:
    """A title, how the text begins, and the text, each without marks; a copy shares one."""
    return {bare(story.title), bare(story.text[:LEAD]), bare(story.text)} - {""}


def pair_files(data: Path) -> list[Path]:
    """The files of pairs in a folder, without the pools of further articles."""
    return [file for file in files(data, "pairs") if not stem(file).endswith(POOL)]


def pool_files(data: Path) -> list[Path]:
    """The files of further articles beside the pairs."""
    return [file for file in files(data, "pairs") if stem(file).endswith(POOL)]


def read_articles(data: Path, passed: Passed) -> Iterator[Story]:
    """The articles without posts."""
    pools = [file for file in pool_files(data) if not stem(file).endswith(CLAIMS)]
    for file in (*files(data, "articles"), *pools):
        yield from read_stories(file, passed)


def read_claims(data: Path, passed: Passed) -> Iterator[Story]:
    """The verified claims beside the pairs, with the keys `vclaim` or `article`."""
    for file in pool_files(data):
        for number, row in rows(file, passed) if stem(file).endswith(CLAIMS) else ():
            title, text = row.get("title") or "", row.get("vclaim") or row.get("article")
            if isinstance(title, str) and isinstance(text, str) and text.strip():
                yield Story("", title, text)
            else:
                passed.add(file, number, "has no claim that is a text")


def read_streams(data: Path, passed: Passed, judging: bool = False) -> Iterator[str]:
    """The everyday posts that train, or those that judge."""
    for file in files(data, "tweets"):
        for _, row in rows(file, passed):
            text = row.get("text")
            if isinstance(text, str) and text.strip() and taught(text) is not judging:
                yield text


def taught(post: str) -> bool:
    """Whether an everyday post is among those that train."""
    return share(post) < STREAMS_TAUGHT


def train_crises(data: Path, passed: Passed) -> Iterator[str]:
    """The posts of the events that train."""
    for file in crisis_files(data):
        found = read_crisis_posts(file, passed)
        yield from (post.text for post in found if split_of_event(post.event) == "train")


def held_crises(data: Path, passed: Passed) -> tuple[list[str], list[Story]]:
    """The posts and the reports of the events that tune or judge."""
    posts = [
        post.text
        for file in crisis_files(data)
        for post in read_crisis_posts(file, passed)
        if split_of_event(post.event) != "train"
    ]
    seeds = []
    for file in files(data, "crisis"):
        for _, row in rows(file, passed) if stem(file) == SEEDS else ():
            event, title, text = (row.get(key) for key in ("event", "title", "article"))
            if split_of_event(str(event)) != "train" and isinstance(text, str):
                seeds.append(Story("", title if isinstance(title, str) else "", text))
    return posts, seeds


def crisis_files(data: Path) -> list[Path]:
    """The files of labelled posts."""
    return [file for file in files(data, "crisis") if stem(file) != SEEDS]


def files(data: Path, part: str) -> Sequence[Path]:
    """The files of rows in one part of a folder, in order; none if it is not there."""
    folder = data / part
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [file for file in found if file.name.endswith(KINDS)]


def stem(file: Path) -> str:
    """A file's name without its endings."""
    return file.name.partition(".")[0]
