"""What a model is judged on: sets of pairs, and crises with their seeds and background."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from encoder.errors import InputError
from encoder.model.weights import I64
from train.data.corpus import KINDS, POOL
from train.data.readers import CrisisPost, Pair, Passed, Story, read_crisis_posts, read_pairs
from train.data.readers import rows as read_rows
from train.data.splits import Split, share, split_pairs, story_key, without_copies

UNTAUGHT = 0.9  # posts of the streams above this share are never trained on
BACKGROUND = 6_000


@dataclass(frozen=True, slots=True, eq=False)
class PairSet:
    """Posts, articles, and which belong together."""

    name: str
    posts: tuple[str, ...]
    stories: tuple[Story, ...]
    own: I64  # [pairs, 2]: post, story


@dataclass(frozen=True, slots=True)
class CrisisSet:
    """The reports on one event, posts gathered for it on and off topic, and posts of other days."""

    name: str
    seeds: tuple[Story, ...]
    on: tuple[str, ...]
    off: tuple[str, ...]
    background: tuple[str, ...]


def pair_set(name: str, pairs: Sequence[Pair], pool: Sequence[Story] = ()) -> PairSet:
    """Every post and every article once, and further articles that no post talks about."""
    posts = {text: i for i, text in enumerate(dict.fromkeys(pair.post for pair in pairs))}
    keyed: dict[str, Story] = {}
    for story in (*(pair.story for pair in pairs), *pool):
        keyed.setdefault(story_key(story), story)
    place = {key: j for j, key in enumerate(keyed)}
    own = {(posts[pair.post], place[story_key(pair.story)]) for pair in pairs}
    index = np.array(sorted(own), dtype=np.int64).reshape(-1, 2)
    return PairSet(name, tuple(posts), tuple(keyed.values()), index)


def read_pair_sets(data: Path, split: Split | None, passed: Passed) -> list[PairSet]:
    """The pairs of every file in `pairs/`, of one split or, with None, all of them."""
    sets = []
    for name, file in _files(data / "pairs"):
        if name.endswith(POOL):
            continue
        pairs = list(read_pairs(file, passed))
        kept = pairs if split is None else split_pairs(pairs)[0][split]
        if kept:
            pool = list(_pool(data / "pairs", name, passed)) if split is None else []
            sets.append(pair_set(name, kept, pool))
    return sets


def read_crises(data: Path, passed: Passed) -> list[CrisisSet]:
    """The events of `crisis/` that have at least one report and posts of both kinds."""
    folder = data / "crisis"
    files = dict(_files(folder)) if folder.is_dir() else {}
    seeds = dict(_seeds(files.pop("seed_articles"), passed)) if "seed_articles" in files else {}
    labelled = [post for file in files.values() for post in read_crisis_posts(file, passed)]
    posts = without_copies(labelled)
    background = tuple(_background(data, passed))
    made = (_crisis(event, stories, posts, background) for event, stories in seeds.items())
    return [crisis for crisis in made if crisis.on and crisis.off]


def _crisis(
    event: str, seeds: list[Story], posts: list[CrisisPost], background: tuple[str, ...]
) -> CrisisSet:
    mine = [post for post in posts if post.event == event]
    on = tuple(post.text for post in mine if post.on_topic)
    off = tuple(post.text for post in mine if not post.on_topic)
    return CrisisSet(event, tuple(seeds), on, off, background)


def _seeds(file: Path, passed: Passed) -> Iterator[tuple[str, list[Story]]]:
    grouped: dict[str, list[Story]] = {}
    for number, row in read_rows(file, passed):
        title, text, event = row.get("title") or "", row.get("article"), row.get("event")
        if isinstance(text, str) and isinstance(event, str) and isinstance(title, str):
            grouped.setdefault(event, []).append(Story(f"{event}-{number}", title, text))
        else:
            passed.add(file, number, "has no event, title and article that are texts")
    yield from grouped.items()


def _background(data: Path, passed: Passed) -> Iterator[str]:
    folder = data / "tweets"
    for _, file in _files(folder) if folder.is_dir() else ():
        texts = (row.get("text") for _, row in read_rows(file, passed))
        kept = dict.fromkeys(t for t in texts if isinstance(t, str) and share(t) >= UNTAUGHT)
        yield from sorted(kept, key=share)[:BACKGROUND]


def _pool(folder: Path, name: str, passed: Passed) -> Iterator[Story]:
    for other, file in _files(folder):
        if other in {name + ending for ending in POOL}:
            for number, row in read_rows(file, passed):
                text, title = row.get("vclaim") or row.get("article"), row.get("title") or ""
                if isinstance(text, str) and isinstance(title, str):
                    yield Story(f"{other}-{number}", title, text)
                else:
                    passed.add(file, number, "has no article that is a text")


def _files(folder: Path) -> list[tuple[str, Path]]:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; --data names one that holds pairs/ or crisis/")
    named = ((file.name.partition(".")[0], file) for file in folder.iterdir())
    return sorted((name, file) for name, file in named if file.name.endswith(KINDS))
