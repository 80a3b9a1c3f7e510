"""What trains, what tunes and what judges: split by article and by event, by hash alone."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Literal

from train.data.readers import CrisisPost, Pair, Story

Split = Literal["train", "dev", "test"]
DEV, TEST = 0.1, 0.3  # below the first dev, below the second test, the rest trains
TEST_EVENTS, DEV_EVENTS = 0.35, 0.6
MIRRORED = re.compile(r"https?://\S*|\bRT\b:?\s*(?=@)|@\w+:?")
MARKS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Removed:
    """How many pairs stood in two splits and were taken out of the one that trains or tunes."""

    same_post: int
    same_story: int


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


def split_pairs(pairs: Iterable[Pair]) -> tuple[dict[Split, list[Pair]], Removed]:
    """The pairs of each split; what also stands in a later one (test, then dev) is removed."""
    splits: dict[Split, list[Pair]] = {"train": [], "dev": [], "test": []}
    for pair in pairs:
        splits[split_of(story_key(pair.story))].append(pair)
    posts, stories = _keys(splits["test"])
    removed = [0, 0]
    for name in ("dev", "train"):
        kept = []
        for pair in splits[name]:
            twice = bare(pair.post) in posts, bare(pair.story.text) in stories
            removed[0] += twice[0]
            removed[1] += twice[1] and not twice[0]
            if not any(twice):
                kept.append(pair)
        splits[name] = kept
        more_posts, more_stories = _keys(kept)
        posts, stories = posts | more_posts, stories | more_stories
    return splits, Removed(*removed)


def without_copies(posts: Iterable[CrisisPost], seen: Iterable[str] = ()) -> list[CrisisPost]:
    """The posts that copy no earlier one of their event and none of the texts seen elsewhere."""
    known = {bare(text) for text in seen}
    met: set[tuple[str, str]] = set()
    kept = []
    for post in posts:
        key = bare(post.text)
        if key and key not in known and (post.event, key) not in met:
            met.add((post.event, key))
            kept.append(post)
    return kept


def _keys(pairs: Sequence[Pair]) -> tuple[set[str], set[str]]:
    return {bare(pair.post) for pair in pairs}, {bare(pair.story.text) for pair in pairs}
