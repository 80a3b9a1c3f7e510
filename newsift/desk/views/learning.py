"""What an event has learned and would learn now; a profile's publication and the way back."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from encoder.errors import InputError
from newsift.desk.api import Action, EventName, EventRequest, get_endpoint, post_endpoint
from newsift.desk.period import FilePeriod
from newsift.desk.session import Desk
from newsift.desk.training import TrainingRun
from newsift.operations.events import NO_PROFILE, EventState, lowest_and_highest, require_event
from newsift.operations.messages import notify
from newsift.operations.profile_training import (
    LearnOptions,
    Proposal,
    previous_profile,
    proposal_row,
    training_posts,
)
from newsift.operations.promises import event_row
from worker.text import shorten

MAX_WORDS, MAX_POSTS, MAX_SEEDS = 10, 50, 20
MAX_WORD_CHARS, MAX_TEXT_CHARS, MAX_NAME_CHARS = 40, 300, 200
STREAM_HOURS = (0, 1, 6, 24)
Version = Annotated[str, msgspec.Meta(max_length=64)]


class LearnAction(Action, frozen=True, kw_only=True):
    event: EventName
    hours: int  # of the stream, 0 for none of it
    labels: bool


class VersionAction(Action, frozen=True, kw_only=True):
    event: EventName
    version: Version  # of the profile on the page, empty without one


@get_endpoint("/api/learned", EventRequest)
def learning_state(desk: Desk, request: EventRequest) -> dict[str, Any]:
    if desk.model.context is None:
        return {"error": desk.model.error}
    event = require_event(desk.model.view().events, request.event)
    run = desk.training.run_of(request.event)
    on, off = training_posts(desk.mirrors.labels.event_labels(request.event))
    return {
        "error": "",
        **_event_row(event),
        "labels": {"on": len(on), "off": len(off)},  # that it can learn from
        "busy": desk.training.busy_event,
        "run": _run_row(run) if run else None,
    }


@post_endpoint("/api/learned/learn", LearnAction, "events.learn")
def learn(desk: Desk, request: LearnAction) -> None:
    """Begins a run, which publishes nothing."""
    if request.hours not in STREAM_HOURS:
        raise InputError(f"hours: {request.hours} is none of {', '.join(map(str, STREAM_HOURS))}")
    desk.require_settled()
    span = 3600.0 * request.hours if request.hours else None
    begin = desk.period.latest.begin if isinstance(desk.period, FilePeriod) else {}
    posts = begin.get(desk.config.topics.posts)  # of a file all posts are read
    desk.training.begin(LearnOptions(request.event, span, request.labels, posts), request.by)
    desk.changes.notify("events")


@post_endpoint("/api/learned/publish", VersionAction, "events.publish")
def publish(desk: Desk, request: VersionAction) -> dict[str, Any]:
    return _event_row(desk.training.publish(request.event, request.version))


@post_endpoint("/api/learned/forget", VersionAction, "events.forget")
def forget(desk: Desk, request: VersionAction) -> dict[str, Any]:
    event = desk.training.forget(request.event, request.version)
    if event.why:
        notify(f"it is {event.profile_status}: {event.why}; the seeds are used")
    return _event_row(event)


def _event_row(event: EventState) -> dict[str, Any]:
    row, profile = event_row(event), event.profile
    names = ("event", "profile", "why", "version", "automatic")
    before = profile.before if profile else ()
    back = previous_profile(profile)
    return {
        **{name: row[name] for name in names},
        "has_profile": event.profile_status != NO_PROFILE,
        "seeds": [shorten(name, MAX_NAME_CHARS) for name in row["seeds"][:MAX_SEEDS]],
        "all_seeds": len(row["seeds"]),
        "thresholds": lowest_and_highest(row["thresholds"]),
        "promised": profile is not None and profile.promise is not None,
        "creation": creation_row(row["made"]),
        "before": [creation_row(version.get("made")) for version in before],
        "back_to": back.version if back else None,
    }


def creation_row(creation: object) -> dict[str, Any]:
    """What is sound of a record that anybody may have written; bounded."""
    fields: Mapping[str, Any] = creation if isinstance(creation, dict) else {}
    texts = {name: fields.get(name) for name in ("at", "by", "method")}
    numbers = {name: fields.get(name) for name in ("beta", "cohesion", "labels")}
    posts = fields.get("posts")
    return {
        **{
            name: shorten(text, MAX_NAME_CHARS)
            for name, text in texts.items()
            if isinstance(text, str)
        },
        **{name: value for name, value in numbers.items() if _is_number(value, 10**6)},
        "posts": [_post_id(value) for value in posts[:MAX_POSTS]]
        if isinstance(posts, list)
        else [],
        "gained": _word_changes(fields.get("gained")),
        "lost": _word_changes(fields.get("lost")),
    }


def _word_changes(words: object) -> list[tuple[str, float]]:
    pairs = words[:MAX_WORDS] if isinstance(words, list) else []
    sound = [pair for pair in pairs if isinstance(pair, list | tuple) and len(pair) == 2]
    return [
        (shorten(word, MAX_WORD_CHARS), float(change))
        for word, change in sound
        if isinstance(word, str) and _is_number(change, 2)
    ]


def _is_number(value: object, most: int) -> bool:
    return isinstance(value, int | float) and -most <= value <= most


def _post_id(name: object) -> list[str]:
    parts = name if isinstance(name, list | tuple) else ()
    return [shorten(part, MAX_NAME_CHARS) for part in parts[:2] if isinstance(part, str)]


def _run_row(run: TrainingRun) -> dict[str, Any]:
    return {
        "hours": round((run.learning.span or 0) / 3600),
        "by": shorten(run.by, MAX_NAME_CHARS),
        "seconds": round(run.seconds, 1),
        "ended": run.end is not None,
        "refusal": run.refusal,
        "messages": run.messages,
        "risk": run.risk,
        "proposal": _proposal_row(run.proposal) if run.proposal else None,
    }


def _proposal_row(proposal: Proposal) -> dict[str, Any]:
    row = proposal_row(proposal, False)
    thresholds, creation = row["threshold"], row.pop("made")
    for name in ("new_matches", "lost_matches"):
        row[name] = [post | {"text": shorten(post["text"], MAX_TEXT_CHARS)} for post in row[name]]
    return row | {
        "threshold": {name: lowest_and_highest(thresholds[name]) for name in thresholds},
        "creation": creation_row(creation),
        "is_news": proposal.is_news,
    }
