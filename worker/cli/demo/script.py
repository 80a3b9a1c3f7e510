"""What the demo sends and when: posts and poison at an even pace, and two changes of the seeds."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from encoder.errors import InputError
from worker.cli.demo.forms import as_message, form_of
from worker.cli.demo.poison import HARMLESS, POISON
from worker.cli.demo.samples import SamplePost
from worker.posts.read import Reason

ADDED, REMOVED = "cable-car-stuck", "clinic-hack"
ADD_AT, REMOVE_AT = 0.3, 0.65  # of the whole time
BEFORE, AFTER = 0.5, 1.5  # seconds around a change in which nothing about its event is sent
SHORTEST = 8.0
ORDER = 7  # the seed of the order, so that every run is the same


@dataclass(frozen=True, slots=True)
class Message:
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
    """All messages in order, and the changes of the seeds between them."""

    messages: tuple[Message, ...]
    changes: tuple[Change, ...]
    seconds: float


def written(posts: Sequence[SamplePost], seconds: float) -> Script:
    """The script that sends these posts, with poison among them, in so many seconds."""
    if seconds < SHORTEST:
        raise InputError(
            f"seconds: {seconds:g} is too short for the demo; use {SHORTEST:g} or more"
        )
    changes = (
        Change(seconds * ADD_AT, ADDED, adds=True),
        Change(seconds * REMOVE_AT, REMOVED, adds=False),
    )
    things: list[SamplePost | bytes | int] = [*posts, *HARMLESS, *range(len(POISON))]
    random.Random(ORDER).shuffle(things)
    step = seconds / len(things)
    messages = []
    for n in range(len(things)):
        at = n * step
        thing = things.pop(_first_fit(things, at, changes))
        messages.append(_message(at, thing, changes))
    return Script(tuple(messages), changes, seconds)


def _first_fit(things: Sequence[object], at: float, changes: Sequence[Change]) -> int:
    """The first thing that may be sent at this moment; at the end, whatever is left."""
    closed = {c.seed for c in changes if c.at - BEFORE <= at <= c.at + AFTER}
    for i, thing in enumerate(things):
        if not (isinstance(thing, SamplePost) and thing.event in closed):
            return i
    return 0


def _message(at: float, thing: object, changes: Sequence[Change]) -> Message:
    if isinstance(thing, SamplePost):
        live = thing.event is not None and all(
            change.adds == (at > change.at) for change in changes if change.seed == thing.event
        )
        return Message(at, as_message(thing, form_of(thing)), post=thing, live=live)
    if isinstance(thing, int):
        reason, value = POISON[thing]
        return Message(at, value, reason=reason)
    assert isinstance(thing, bytes)
    return Message(at, thing)
