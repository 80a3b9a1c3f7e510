"""What a model is judged on: sets of pairs, and crises with their seeds and background."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from encoder.model.weights import I64
from train.data.folder import CLAIMS, POOL, crisis_posts, files, pair_sets, pool, reports
from train.data.readers import Pair, Passed, Story, read_posts
from train.data.splits import Split, share, split_pairs, story_key, without_copies
from train.protocol.ranking import Bool

UNTAUGHT = 0.9  # posts of the streams above this share are never trained on
BACKGROUND = 6_000


class PairSet(NamedTuple):
    """Posts, articles, and which belong together."""

    name: str
    posts: tuple[str, ...]
    stories: tuple[Story, ...]
    own: I64  # [pairs, 2]: post, story
    years: tuple[int | None, ...] = ()  # of the posts, where they are known

    @property
    def label(self) -> Bool:
        """Which post and which article belong together: [posts, articles]."""
        label = np.zeros((len(self.posts), len(self.stories)), np.bool_)
        label[self.own[:, 0], self.own[:, 1]] = True
        return label


class CrisisSet(NamedTuple):
    """The reports on one event, posts gathered for it on and off topic, and posts of other days."""

    name: str
    seeds: tuple[Story, ...]
    on: tuple[str, ...]
    off: tuple[str, ...]
    background: tuple[str, ...]

    @property
    def posts(self) -> tuple[str, ...]:
        """All its posts, in the order in which they are scored."""
        return (*self.on, *self.off, *self.background)


def pair_set(name: str, pairs: Sequence[Pair], further: Sequence[Story] = ()) -> PairSet:
    """Every post and every article once, and further articles that no post talks about."""
    posts = {text: i for i, text in enumerate(dict.fromkeys(pair.post for pair in pairs))}
    keyed: dict[str, Story] = {}
    for story in (*(pair.story for pair in pairs), *further):
        keyed.setdefault(story_key(story), story)
    place = {key: j for j, key in enumerate(keyed)}
    own = {(posts[pair.post], place[story_key(pair.story)]) for pair in pairs}
    index = np.array(sorted(own), dtype=np.int64).reshape(-1, 2)
    years = {pair.post: pair.year for pair in reversed(pairs)}  # the first of a text counts
    return PairSet(name, tuple(posts), tuple(keyed.values()), index, tuple(map(years.get, posts)))


def read_pair_sets(data: Path, split: Split | None, passed: Passed) -> list[PairSet]:
    """The pairs of every file in `pairs/`, of one split or, with None, all of them."""
    sets = []
    for name, pairs in pair_sets(data, passed):
        further: list[Story] = []
        if split is None:
            further = [story for kind in (CLAIMS, POOL) for story in pool(data, name, kind, passed)]
        if kept := pairs if split is None else split_pairs(pairs)[split]:
            sets.append(pair_set(name, kept, further))
    return sets


def read_crises(data: Path, passed: Passed) -> list[CrisisSet]:
    """The events of `crisis/` that have at least one report and posts of both kinds."""
    seeds = reports(data, passed)
    posts = without_copies(crisis_posts(data, passed)) if seeds else []
    background = tuple(read_background(data, passed)) if posts else ()
    found = []
    for event, stories in seeds.items():
        on, off = (
            tuple(post.text for post in posts if post.event == event and post.on_topic is kind)
            for kind in (True, False)
        )
        if on and off:
            found.append(CrisisSet(event, tuple(stories), on, off, background))
    return found


def read_background(data: Path, passed: Passed) -> Iterator[str]:
    """Everyday posts that never train, so many of each file."""
    for file in files(data, "tweets").values():
        kept = dict.fromkeys(text for text in read_posts(file, passed) if share(text) >= UNTAUGHT)
        yield from sorted(kept, key=share)[:BACKGROUND]
