"""What trains, what tunes and what judges: split by article and by event, by hash alone."""

import hashlib
import re
from collections.abc import Iterable
from html import unescape
from typing import Literal

from train.data.readers import CrisisPost, Pair, Story

Split = Literal["train", "dev", "test"]
DEV, TEST = 0.1, 0.3  # below the first dev, below the second test, the rest trains
TEST_EVENTS, DEV_EVENTS = 0.35, 0.6
MIRRORED = re.compile(r"https?://\S*|\bRT\b:?\s*(?=@)|@\w+:?")
MARKS = re.compile(r"[\W_]+")


def share(text: str) -> float:
    """A number in [0, 1) that depends on the text alone, to draw samples that never change."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48


def bare(text: str) -> str:
    """A text by which near-duplicates are found: no links, retweet signs, mentions or marks."""
    return MARKS.sub(" ", MIRRORED.sub(" ", unescape(text))).strip().casefold()


def story_key(story: Story) -> str:
    """What stays the same between copies of an article: its title, else how it begins."""
    return bare(story.title) or bare(story.text[:400])


def split_of(key: str) -> Split:
    """The split of an article or event by its key, the same on every machine for ever."""
    place = share(f"split {key}")
    return "dev" if place < DEV else "test" if place < TEST else "train"


def split_of_event(event: str) -> Split:
    """The split of a crisis: a third judges, a quarter tunes, the rest trains."""
    place = share(f"event {event}")
    return "test" if place < TEST_EVENTS else "dev" if place < DEV_EVENTS else "train"


def split_pairs(pairs: Iterable[Pair]) -> dict[Split, list[Pair]]:
    """The pairs of each split; what also stands in a later one (test, then dev) is removed."""
    splits: dict[Split, list[Pair]] = {"train": [], "dev": [], "test": []}
    for pair in pairs:
        splits[split_of(story_key(pair.story))].append(pair)
    posts: set[str] = set()
    texts: set[str] = set()
    for name in ("test", "dev", "train"):
        keyed = [(bare(pair.post), bare(pair.story.text), pair) for pair in splits[name]]
        kept = [one for one in keyed if one[0] not in posts and one[1] not in texts]
        posts.update(post for post, _, _ in kept)
        texts.update(text for _, text, _ in kept)
        splits[name] = [pair for _, _, pair in kept]
    return splits


def without_copies(posts: Iterable[CrisisPost]) -> list[CrisisPost]:
    """The posts that have words and copy no earlier one of their event."""
    first: dict[tuple[str, str], CrisisPost] = {}
    for post in posts:
        first.setdefault((post.event, bare(post.text)), post)
    return [post for (_, key), post in first.items() if key]
