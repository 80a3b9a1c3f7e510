"""A promise of an event's threshold: what labels show of it, setting it, and whether it holds."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from msgspec import UNSET

from encoder.errors import InputError
from newsift.files.rows import read_match
from newsift.operations.events import (
    IN_FORCE,
    KnownEvent,
    Wish,
    the_event,
)
from newsift.operations.labels import Found, labels_of, matches_of
from newsift.operations.messages import say
from newsift.operations.model_context import Teacher
from newsift.operations.profile_training import made_now, read_events
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import now_ms
from newsift.statistics.labels import Label, verdicts
from newsift.statistics.promise import lapses
from newsift.statistics.queues import CertifyQueue, queue_of
from worker.config import Config
from worker.kafka.reading import TopicReader
from worker.posts.outcome import PostId
from worker.posts.times import milliseconds, utc
from worker.seeds.background import sides_of
from worker.seeds.profile import Profile
from worker.seeds.state import ControlState

HOUR = 3_600_000
ENOUGH = 1_000  # posts of the last hour; fewer tell no rate


@dataclass(frozen=True, slots=True)
class Shown:
    """What labels show of a profile's matches."""

    threshold: float | None
    missing: int  # labels until more is shown, if none is wrong
    more: bool  # whether more can be shown with these matches
    labels: int
    on: int
    matches: int
    out_of_reach: str = ""  # why no more can


def shown_by(
    labels: Sequence[Label], found: Mapping[PostId, Found], profile: Profile, wish: Wish
) -> Shown:
    """What labels of matches that were drawn at random show of a profile.

    Matches that came after the newest draw was frozen are of another one.
    """
    drawn = [label for label in labels if label.drawn == "certify"]
    name = queue_of(label for label in drawn if label.post_id in found)
    until = milliseconds(utc(name.until)) if name else None
    own = [each for each in found.values() if is_by(each, profile) and came_by(each, until)]
    said = verdicts(drawn)
    known = [said[each.candidate.post_id] for each in own if each.candidate.post_id in said]
    candidates = [each.candidate for each in own]
    queue = CertifyQueue(candidates, wish.precision, wish.tested, name or UNSET)
    look = queue.look(said)
    can, why = look.ask is not None, queue.out_of_reach(look)
    return Shown(look.threshold, look.missing, can, len(known), sum(known), len(own), why)


def is_by(found: Found, profile: Profile) -> bool:
    """Whether a match was made by this version of a profile."""
    return (found.match.seed_id, found.match.seed_version) == (profile.id, profile.version)


def came_by(found: Found, until: int | None) -> bool:
    """Whether a match was there by this time."""
    return until is None or milliseconds(utc(found.record.processed_at)) <= until


def promised_profile(
    teacher: Teacher, profile: Profile, wish: Wish, shown: Shown, made: dict[str, Any]
) -> Profile:
    """The profile with the threshold that was shown, and what it promises."""
    assert shown.threshold is not None
    promise = {
        "precision": wish.precision, "confidence": wish.confidence, "version": wish.version,
        "labels": shown.labels, "on": shown.on, "matches": shown.matches,
        "rate": rate_of(teacher, profile, shown.threshold), **made,
    }  # fmt: skip
    before = profile.before if profile.promise else profile.history()
    return replace(profile, threshold=shown.threshold, promise=promise, before=before)


def rate_of(teacher: Teacher, profile: Profile, threshold: float) -> float:
    """The share of the background that passes: about what passes without the event."""
    scores = profile.vector.scores(sides_of(teacher.background)[1])  # [n]
    return float((scores >= np.float32(threshold)).mean())


class PassRates:
    """How many of the last hour's posts match each profile."""

    def __init__(self, cluster: TopicReader, teacher: Teacher, now: int) -> None:
        topics = teacher.config.topics
        since = cluster.at(topics.posts, now - HOUR)
        self._posts = sum(end - since[part] for part, end in cluster.ends(topics.posts).items())
        self._matched: Counter[tuple[str, str]] = Counter()
        for batch in cluster.read(topics.matches, cluster.at(topics.matches, now - HOUR)):
            self._count(message.value for message in batch)

    def of(self, profile: Profile) -> float | None:
        """The share of posts that match a profile; None where too few came."""
        if self._posts < ENOUGH:
            return None
        return self._matched[profile.id, profile.version] / self._posts

    def _count(self, values: Iterable[bytes | None]) -> None:
        for record in filter(None, map(read_match, values)):
            self._matched.update({(match.seed_id, match.seed_version) for match in record.matches})


def lapsed(event: KnownEvent, rate: float | None) -> str:
    """Why an event's promise holds no longer; empty while it does, or where there is none."""
    profile = event.profile
    if profile is None or profile.promise is None:
        return ""
    if event.state != IN_FORCE:
        return f"its profile is {event.state}"
    precision, before = profile.promise.get("precision"), profile.promise.get("rate")
    if not (isinstance(precision, float) and isinstance(before, float)):
        return "its record cannot be read"
    if not (0 < precision < 1 and 0 <= before <= 1):
        return "its record cannot be read"
    if rate is None or not lapses(rate, before, precision):
        return ""
    return (
        f"{1000 * rate:.2g} of 1,000 posts passed in the last hour; "
        f"{1000 * before:.2g} do without the event"
    )


def promisable(event: KnownEvent) -> Profile:
    """The profile of an event, which has to be in force to promise something."""
    if event.profile is None or event.why:
        raise InputError(
            f"event {event.name!r}: its profile is {event.state} ({event.why}); "
            f"let the event learn another"
        )
    return event.profile


def promise_shown(
    cluster: TopicReader, config: Config, profile: Profile, wish: Wish, start: int
) -> Shown:
    """What the labels of a profile's matches since then show."""
    found = matches_of(cluster, config, profile.event, start)
    return shown_by(labels_of(cluster, config, profile.event), found, profile, wish)


def set_promise(
    topic: SeedTopic, state: ControlState, teacher: Teacher, profile: Profile, wish: Wish,
    shown: Shown,
) -> None:  # fmt: skip
    """Publish the threshold that was shown of a profile of this state, if it is still the one.

    Whether what was set is in force, and holds, is said.
    """
    made = promised_profile(teacher, profile, wish, shown, made_now())
    topic.publish({profile.id.encode(): made.value(teacher.config.limits)}, state)
    event = the_event(read_events(topic, teacher)[0], profile.event)
    if event.profile is None:
        return
    rate = PassRates(topic.cluster, teacher, now_ms()).of(event.profile)
    why = lapsed(event, rate)
    say(f"lapsed at once: {why}" if why else "set; the list of events says when it lapses")


def missing(shown: Shown) -> str:
    """What is missing where nothing can be promised yet."""
    if not shown.matches:
        return "no post has matched this version of the profile yet, as far as is looked back; wait"
    if shown.more:
        return f"{shown.missing} labels are missing, if none is wrong"
    return (
        f"{shown.out_of_reach}: these matches can show no more; wait for more, or let the profile "
        "learn"
    )


def promise_row(name: str, wish: Wish, shown: Shown, set_it: bool) -> dict[str, Any]:
    """What was shown, as a row of JSON."""
    return {
        "event": name,
        "precision": wish.precision,
        "confidence": wish.confidence,
        "tested_at": wish.tested,
        "version": wish.version,
        "threshold": shown.threshold,
        "missing": shown.missing if shown.more else None,
        "labels": shown.labels,
        "on": shown.on,
        "matches": shown.matches,
        "set": set_it,
    }


def event_rows(
    cluster: TopicReader, teacher: Teacher, found: Collection[KnownEvent]
) -> list[dict[str, Any]]:
    """Events as rows, those that promise something with whether that still holds."""
    bound = any(event.profile and event.profile.promise for event in found)
    rates = PassRates(cluster, teacher, now_ms()) if bound else None
    return [
        row_of(event, lapsed(event, rates.of(event.profile) if rates and event.profile else None))
        for event in found
    ]


def row_of(event: KnownEvent, lapsed: str = "") -> dict[str, Any]:
    """An event as a row of JSON."""
    made = event.profile.made if event.profile else {}
    cuts = event.thresholds
    return {
        "event": event.name,
        "seeds": [seed.id for seed in event.seeds],
        "profile": event.state,
        "why": event.why or None,
        "version": event.profile.version if event.profile else None,
        "threshold": cuts[0] if len(cuts) == 1 else None,
        "thresholds": list(cuts),
        "automatic": event.profile.threshold is None if event.profile else None,
        "promise": event.profile.promise if event.profile else None,
        "lapsed": lapsed or None,
        "made": made,
    }
