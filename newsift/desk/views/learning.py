"""What an event has learned and would learn now: before and after, publishing it, going back."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from encoder.errors import InputError
from newsift.desk.api import Act, EventName, OfEvent, acts, reads
from newsift.desk.lessons import LessonRun
from newsift.desk.session import Desk
from newsift.operations.events import NONE, EventState, require_event
from newsift.operations.messages import notify
from newsift.operations.profile_training import LearnOptions, previous_profile, proposal_row
from newsift.operations.promises import event_row
from worker.text import cut

WORDS, POSTS, SEEDS = 10, 50, 20  # of each that are told
WORD, TEXT, NAME = 40, 300, 200  # characters
HOURS = (1, 6, 24)
Version = Annotated[str, msgspec.Meta(max_length=64)]


class ToLearn(Act, frozen=True, kw_only=True):
    """What an event is to learn from: hours of the stream, 0 for none of it, and labels or not."""

    event: EventName
    hours: int
    labels: bool


class OfVersion(Act, frozen=True, kw_only=True):
    """A profile by its event and version, as the page was told; the version empty for none."""

    event: EventName
    version: Version


@reads("/api/learned", OfEvent)
def learned(desk: Desk, request: OfEvent) -> dict[str, Any]:
    """What an event has learned, the versions before, and how a lesson of it stands."""
    if desk.model.now() is None:
        return {"away": desk.model.away}
    event = require_event(desk.model.events(), request.event)
    busy, lesson = desk.lessons.under_way, desk.lessons.of(request.event)
    return {
        "away": "",
        **_event_row(event),
        "busy": busy,
        "lesson": _lesson_row(lesson) if lesson else None,
    }


@acts("/api/learned/learn", ToLearn, "events.lesson")
def learn(desk: Desk, request: ToLearn) -> None:
    """Begin a lesson, which proposes and publishes nothing."""
    if request.hours not in (0, *HOURS):
        raise InputError(f"hours: {request.hours} is none of 0, {', '.join(map(str, HOURS))}")
    span = 3600.0 * request.hours if request.hours else None
    desk.lessons.begin(LearnOptions(request.event, span, request.labels), request.by)
    desk.pulse.moved("events")


@acts("/api/learned/publish", OfVersion, "events.learn")
def publish(desk: Desk, request: OfVersion) -> dict[str, Any]:
    """Publish what the last lesson proposed."""
    return _event_row(desk.lessons.publish(request.event, request.version))


@acts("/api/learned/forget", OfVersion, "events.forget")
def forget(desk: Desk, request: OfVersion) -> dict[str, Any]:
    """Go back to the version before; without one the seeds serve again."""
    event = desk.lessons.forget(request.event, request.version)
    if event.why:
        notify(f"it is {event.state}: {event.why}; the seeds serve")
    return _event_row(event)


def _event_row(event: EventState) -> dict[str, Any]:
    """What an event has learned, bounded: a record may say whatever its writer liked."""
    row, profile = event_row(event), event.profile
    names = ("event", "profile", "why", "version", "automatic")
    before = profile.before if profile else ()
    back = previous_profile(profile)
    return {
        **{name: row[name] for name in names},
        "has_profile": event.state != NONE,
        "seeds": [cut(name, NAME) for name in row["seeds"][:SEEDS]],
        "number": len(row["seeds"]),
        "thresholds": row["thresholds"][:1] + row["thresholds"][-1:],
        "promised": profile is not None and profile.promise is not None,
        "made": creation_row(row["made"]),
        "before": [creation_row(each.get("made")) for each in before],
        "back_to": back.version if back else None,
    }


def creation_row(made: object) -> dict[str, Any]:
    """How a profile was made, as far as its record is what it should be."""
    fields: Mapping[str, Any] = made if isinstance(made, dict) else {}
    texts = {name: fields.get(name) for name in ("at", "by", "method")}
    numbers = {
        name: fields.get(name) for name in ("beta", "gamma", "cohesion", "labels", "attempts")
    }
    posts = fields.get("posts")
    return {
        **{name: cut(text, NAME) for name, text in texts.items() if isinstance(text, str)},
        **{name: each for name, each in numbers.items() if _is_number(each, 10**6)},
        "posts": [_post_name(each) for each in posts[:POSTS]] if isinstance(posts, list) else [],
        "gained": _words(fields.get("gained")),
        "lost": _words(fields.get("lost")),
    }


def _words(words: object) -> list[tuple[str, float]]:
    """Words with how much they moved."""
    pairs = words[:WORDS] if isinstance(words, list) else []
    sound = [each for each in pairs if isinstance(each, list | tuple) and len(each) == 2]
    return [
        (cut(word, WORD), float(move))
        for word, move in sound
        if isinstance(word, str) and _is_number(move, 2)
    ]


def _is_number(value: object, most: int) -> bool:
    return isinstance(value, int | float) and -most <= value <= most


def _post_name(named: object) -> list[str]:
    both = named if isinstance(named, list | tuple) else ()
    return [cut(part, NAME) for part in both[:2] if isinstance(part, str)]


def _lesson_row(lesson: LessonRun) -> dict[str, Any]:
    """How a lesson stands: under way, refused, or with what it proposes."""
    request, proposal = lesson.learning, lesson.proposal
    return {
        "hours": round((request.span or 0) / 3600),
        "labels": request.labels,
        "by": cut(lesson.by, NAME),
        "seconds": round(lesson.seconds, 1),
        "ended": lesson.ended is not None,
        "refused": lesson.refused,
        "told": lesson.messages,
        "danger": lesson.danger,
        "proposal": _proposal_row(lesson) if proposal else None,
    }


def _proposal_row(lesson: LessonRun) -> dict[str, Any]:
    assert lesson.proposal is not None
    row = proposal_row(lesson.proposal, False)
    ends = {name: [*cuts[:1], *cuts[-1:]] for name, cuts in row["threshold"].items()}
    posts = {name: [_short(each) for each in row[name]] for name in ("come", "go")}
    return {
        **row,
        **posts,
        "threshold": ends,
        "made": creation_row(row["made"]),
        "is_news": lesson.proposal.is_news,
    }


def _short(post: dict[str, Any]) -> dict[str, Any]:
    return post | {"text": cut(post["text"], TEXT)}


ENDPOINTS = (learned, learn, publish, forget)
