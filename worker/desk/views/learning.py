"""What an event has learned and would learn now: before and after, publishing it, going back."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from encoder.errors import InputError
from worker.actions.events.event import NONE, KnownEvent, the_event
from worker.actions.events.learning import Learning, earlier
from worker.actions.events.rows import proposal_row, row_of
from worker.actions.told import say
from worker.desk.desk import Desk
from worker.desk.lessons import Lesson
from worker.desk.server.api import Act, EventName, OfEvent, acts, reads
from worker.visible import cut

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
def learned(desk: Desk, asked: OfEvent) -> dict[str, Any]:
    """What an event has learned, the versions before, and how a lesson of it stands."""
    if desk.model.now() is None:
        return {"away": desk.model.away}
    event = the_event(desk.model.events(), asked.event)
    busy, lesson = desk.lessons.under_way, desk.lessons.of(asked.event)
    return {
        "away": "",
        **_event_row(event),
        "busy": busy,
        "lesson": _lesson_row(lesson) if lesson else None,
    }


@acts("/api/learned/learn", ToLearn, "events.lesson")
def learn(desk: Desk, asked: ToLearn) -> None:
    """Begin a lesson, which proposes and publishes nothing."""
    if asked.hours not in (0, *HOURS):
        raise InputError(f"hours: {asked.hours} is none of 0, {', '.join(map(str, HOURS))}")
    span = 3600.0 * asked.hours if asked.hours else None
    desk.lessons.begin(Learning(asked.event, span, asked.labels), asked.by)
    desk.pulse.moved("events")


@acts("/api/learned/publish", OfVersion, "events.learn")
def publish(desk: Desk, asked: OfVersion) -> dict[str, Any]:
    """Publish what the last lesson proposed."""
    return _event_row(desk.lessons.publish(asked.event, asked.version))


@acts("/api/learned/forget", OfVersion, "events.forget")
def forget(desk: Desk, asked: OfVersion) -> dict[str, Any]:
    """Go back to the version before; without one the seeds serve again."""
    event = desk.lessons.forget(asked.event, asked.version)
    if event.why:
        say(f"it is {event.state}: {event.why}; the seeds serve")
    return _event_row(event)


def _event_row(event: KnownEvent) -> dict[str, Any]:
    """What an event has learned, bounded: a record may say whatever its writer liked."""
    row, profile = row_of(event), event.profile
    kept = ("event", "profile", "why", "version", "automatic")
    before = profile.before if profile else ()
    back = earlier(profile)
    return {
        **{name: row[name] for name in kept},
        "has_profile": event.state != NONE,
        "seeds": [cut(name, NAME) for name in row["seeds"][:SEEDS]],
        "number": len(row["seeds"]),
        "thresholds": row["thresholds"][:1] + row["thresholds"][-1:],
        "promised": profile is not None and profile.promise is not None,
        "made": made_row(row["made"]),
        "before": [made_row(each.get("made")) for each in before],
        "back_to": back.version if back else None,
    }


def made_row(made: object) -> dict[str, Any]:
    """How a profile was made, as far as its record is what it should be."""
    said: Mapping[str, Any] = made if isinstance(made, dict) else {}
    texts = {name: said.get(name) for name in ("at", "by", "method")}
    numbers = {name: said.get(name) for name in ("beta", "gamma", "cohesion", "labels", "attempts")}
    posts = said.get("posts")
    return {
        **{name: cut(text, NAME) for name, text in texts.items() if isinstance(text, str)},
        **{name: each for name, each in numbers.items() if _is_number(each, 10**6)},
        "posts": [_post_name(each) for each in posts[:POSTS]] if isinstance(posts, list) else [],
        "gained": _words(said.get("gained")),
        "lost": _words(said.get("lost")),
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


def _is_number(said: object, most: int) -> bool:
    return isinstance(said, int | float) and -most <= said <= most


def _post_name(named: object) -> list[str]:
    both = named if isinstance(named, list | tuple) else ()
    return [cut(part, NAME) for part in both[:2] if isinstance(part, str)]


def _lesson_row(lesson: Lesson) -> dict[str, Any]:
    """How a lesson stands: under way, refused, or with what it proposes."""
    asked, proposal = lesson.learning, lesson.proposal
    return {
        "hours": round((asked.span or 0) / 3600),
        "labels": asked.labels,
        "by": cut(lesson.by, NAME),
        "seconds": round(lesson.seconds, 1),
        "ended": lesson.ended is not None,
        "refused": lesson.refused,
        "told": lesson.told,
        "danger": lesson.danger,
        "proposal": _proposal_row(lesson) if proposal else None,
    }


def _proposal_row(lesson: Lesson) -> dict[str, Any]:
    assert lesson.proposal is not None
    row = proposal_row(lesson.proposal, False)
    ends = {name: [*cuts[:1], *cuts[-1:]] for name, cuts in row["threshold"].items()}
    posts = {name: [_short(each) for each in row[name]] for name in ("come", "go")}
    return {
        **row,
        **posts,
        "threshold": ends,
        "made": made_row(row["made"]),
        "is_news": lesson.proposal.is_news,
    }


def _short(post: dict[str, Any]) -> dict[str, Any]:
    return post | {"text": cut(post["text"], TEXT)}


ENDPOINTS = (learned, learn, publish, forget)
