"""What the demo sends and when: posts and poison at an even pace, and two changes of the seeds."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from encoder.errors import InputError
from worker.cli.demo.messages import HARMLESS, POISON, as_message
from worker.cli.demo.samples import SamplePost
from worker.posts.read import Reason

ADDED, REMOVED = "cable-car-stuck", "clinic-hack"
ADD_AT, REMOVE_AT = 0.3, 0.65  # of the whole time
BEFORE, AFTER = 0.5, 1.5  # seconds around a change in which nothing about its event is sent
SHORTEST = 8.0
ORDER = 7  # the seed of the order, so that every run is the same


@dataclass(frozen=True, slots=True)
class Cue:
    """Something to send at a moment, and what should come of it."""

    at: float  # seconds from the start
    value: bytes | None
    post: SamplePost | None = None
    reason: Reason | None = None
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
    if seconds < SHORTEST:
        raise InputError(
            f"seconds: {seconds:g} is too short for the demo; use {SHORTEST:g} or more"
        )
    changes = Change(seconds * ADD_AT, ADDED, True), Change(seconds * REMOVE_AT, REMOVED, False)
    cues = [Cue(0, as_message(post), post=post) for post in posts]
    cues += [Cue(0, value) for value in HARMLESS]
    cues += [Cue(0, value, reason=reason) for reason, value in POISON]
    random.Random(ORDER).shuffle(cues)
    step = seconds / len(cues)
    timed = []
    for n in range(len(cues)):
        cue = cues.pop(_first_fit(cues, n * step, changes))
        live = _is_live(cue.post, n * step, changes)
        timed.append(Cue(n * step, cue.value, cue.post, cue.reason, live))
    return Script(tuple(timed), changes, seconds)


def _first_fit(cues: Sequence[Cue], at: float, changes: Sequence[Change]) -> int:
    """The first that may be sent at this moment; at the end, whatever is left."""
    closed = {c.seed for c in changes if c.at - BEFORE <= at <= c.at + AFTER}
    for i, cue in enumerate(cues):
        if cue.post is None or cue.post.event not in closed:
            return i
    return 0


def _is_live(post: SamplePost | None, at: float, changes: Sequence[Change]) -> bool:
    if post is None or post.event is None:
        return False
    return all(change.adds == (at > change.at) for change in changes if change.seed == post.event)
