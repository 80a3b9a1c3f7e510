"""What the demo sends and when: posts and poison at an even pace, and two changes of the seeds."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from worker.cli.demo.messages import HARMLESS, POISON, as_message
from worker.cli.demo.samples import SamplePost
from worker.posts.read import Post, read_post

ADDED, REMOVED = "cable-car-stuck", "clinic-hack"
ADD_AT, REMOVE_AT = 0.3, 0.65  # of the whole time
BEFORE, AFTER = 0.5, 1.5  # seconds around a change in which nothing about its event is sent
SHORTEST = 8.0
ORDER = 7  # the seed of the order, so that every run is the same


@dataclass(frozen=True, slots=True)
class Cue:
    """Something to send at a moment: a post about an event, or what only looks like one."""

    value: bytes | None
    event: str | None = None
    id: str = "no post"
    at: float = 0.0  # seconds from the start
    live: bool = False  # whether there is a seed for the post's event by then


@dataclass(frozen=True, slots=True)
class Change:
    """A seed that is added or removed at a moment."""

    at: float
    seed: str
    adds: bool


@dataclass(frozen=True, slots=True)
class Script:
    """All cues in order, and the changes of the seeds between them."""

    cues: tuple[Cue, ...]
    changes: tuple[Change, ...]
    seconds: float


def script_of(posts: Sequence[SamplePost], seconds: float) -> Script:
    """The script that sends these posts, with poison among them, in so many seconds."""
    changes = Change(seconds * ADD_AT, ADDED, True), Change(seconds * REMOVE_AT, REMOVED, False)
    cues = [*map(_cue, posts), *map(Cue, HARMLESS), *map(Cue, POISON)]
    random.Random(ORDER).shuffle(cues)
    step = seconds / len(cues)
    timed = []
    for n in range(len(cues)):
        cue = cues.pop(_first_fit(cues, n * step, changes))
        timed.append(replace(cue, at=n * step, live=_is_live(cue.event, n * step, changes)))
    return Script(tuple(timed), changes, seconds)


def _cue(post: SamplePost) -> Cue:
    """The post under the id that the worker reads of it."""
    value = as_message(post)
    found = read_post(value)
    return Cue(value, post.event, found.id) if isinstance(found, Post) else Cue(value)


def _first_fit(cues: Sequence[Cue], at: float, changes: Sequence[Change]) -> int:
    """The first that may be sent at this moment; at the end, whatever is left."""
    closed = {c.seed for c in changes if c.at - BEFORE <= at <= c.at + AFTER}
    return next((i for i, cue in enumerate(cues) if cue.event not in closed), 0)


def _is_live(event: str | None, at: float, changes: Sequence[Change]) -> bool:
    own = (change for change in changes if change.seed == event)
    return event is not None and all(change.adds == (at > change.at) for change in own)
