"""What the labels of an event show of its threshold, and setting it with a promise."""

import time
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from encoder.errors import InputError
from worker.actions.events.event import NONE, the_event
from worker.actions.events.learning import read_events
from worker.actions.events.promising import (
    Shown,
    Wish,
    is_by,
    missing,
    profile_now,
    promisable,
    promise_shown,
    set_promise,
    shown_by,
)
from worker.actions.labels.candidates import Found
from worker.actions.post_stream import Stream
from worker.actions.seeds.topic import SeedTopic
from worker.desk.desk import Desk
from worker.desk.judging.profiles import profile_in
from worker.desk.judging.recent import DAY_MS
from worker.desk.server.api import Act, EventName, OfEvent, acts, reads
from worker.judge.passing import an_hour, window_words
from worker.kafka.reading import connected
from worker.posts.times import milliseconds, utc
from worker.seeds.profile import Profile

Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class Wished(OfEvent, frozen=True, kw_only=True):
    """What somebody would have promised of an event."""

    precision: Share = 0.8
    confidence: Share = 0.9


class ToPromise(Act, frozen=True, kw_only=True):
    """A promise to set, with the threshold that was shown to whoever sets it."""

    event: EventName
    precision: Share
    confidence: Share
    threshold: float


@reads("/api/judge/shown", Wished)
def shown(desk: Desk, wished: Wished) -> dict[str, Any]:
    """What the labels show by now, what is missing, and what would pass."""
    profile = profile_in(desk.known.control.values, wished.event, desk.config.limits)
    if profile is None:
        return {"profile": None, "loading": not desk.known.of_seeds.ready.is_set()}
    wish = Wish.of(profile, wished.precision, wished.confidence)
    found = desk.recent.of(wished.event)
    seen = shown_by(desk.known.labels.of(wished.event), found, profile, wish)
    said = missing(seen) if seen.threshold is None else ""
    return {
        "profile": profile.version, "loading": False, "threshold": profile.threshold,
        "promise": profile.promise, "version": wish.version, "tested": wish.tested,
        "stale": _stale(desk, wished.event), "shown": seen, "says": said,
        "hourly": _hourly(desk.outside.stream(), found.values(), profile, seen),
    }  # fmt: skip


@acts("/api/judge/promise", ToPromise, "events.promise")
def promise(desk: Desk, wished: ToPromise) -> dict[str, Any]:
    """Set the threshold that the labels show, if it is the one that was agreed to."""
    teacher = desk.model.wait()
    with connected(desk.config) as cluster:
        topic = SeedTopic(cluster, desk.config)
        event = the_event(read_events(topic, teacher)[0], wished.event).taught()
        if event.state == NONE:
            raise InputError("a promise is of a profile: that comes first, see Learned")
        profile = promisable(event)
        wish = Wish.of(profile, wished.precision, wished.confidence)
        seen = promise_shown(cluster, desk.config, profile, wish, _present() - DAY_MS)
    if seen.threshold is None:
        raise InputError(missing(seen))
    if seen.threshold != wished.threshold:
        raise InputError(
            f"threshold: the labels show {seen.threshold:.4f} by now, and not "
            f"{wished.threshold:.4f}; look at it, and promise that"
        )
    with desk.keeping.topic() as topic:
        if profile_now(topic.cluster, desk.config, wished.event) != profile:
            raise InputError(f"event {wished.event!r}: its profile has changed since; look again")
        set_promise(topic, teacher, profile, wish, seen)
    return {"threshold": seen.threshold}


def _stale(desk: Desk, name: str) -> str:
    """Why an event's profile is not in force, as far as the model tells by now."""
    event = desk.model.events().get(name) if desk.model.now() else None
    return event.why if event else ""


def _hourly(
    stream: Stream, found: Iterable[Found], profile: Profile, seen: Shown
) -> dict[str, float | str | None] | None:
    """How many of the profile's matches an hour pass now, and would above what is shown."""
    own = [each for each in found if is_by(each, profile)]
    least = -1.0 if profile.threshold is None else profile.threshold
    if not own:
        return None
    now, made = _present(), milliseconds(utc(profile.made.get("at")))
    since = max(now - DAY_MS, stream.since, made)
    scores = [each.candidate.score for each in own]
    above = [score for score in scores if seen.threshold is not None and score >= seen.threshold]
    return {
        "now": an_hour(sum(score >= least for score in scores), since, now),
        "then": None if seen.threshold is None else an_hour(len(above), since, now),
        "window": window_words(since, now),
    }


def _present() -> int:
    return int(time.time() * 1000)


ENDPOINTS = (shown, promise)
