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
    EventState,
    PromiseTarget,
    require_event,
)
from newsift.operations.labels import EventMatch, read_event_labels, read_event_matches
from newsift.operations.messages import notify
from newsift.operations.model_context import ModelContext
from newsift.operations.profile_training import creation_fields, read_events
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import now_ms
from newsift.statistics.labels import Label, unanimous_verdicts
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
class PromiseEvidence:
    """What labels show of a profile's matches."""

    threshold: float | None
    missing: int  # labels until more is shown, if none is wrong
    more: bool  # whether more can be shown with these matches
    labels: int
    on: int
    matches: int
    out_of_reach: str = ""  # why no more can


def weigh_labels(
    labels: Sequence[Label],
    matches: Mapping[PostId, EventMatch],
    profile: Profile,
    target: PromiseTarget,
) -> PromiseEvidence:
    """What labels of matches that were drawn at random show of a profile.

    Matches that came after the newest draw was frozen are of another one.
    """
    drawn = [label for label in labels if label.drawn == "certify"]
    name = queue_of(label for label in drawn if label.post_id in matches)
    until = milliseconds(utc(name.until)) if name else None
    own = [each for each in matches.values() if is_by(each, profile) and came_by(each, until)]
    verdicts = unanimous_verdicts(drawn)
    labelled = [
        verdicts[each.candidate.post_id] for each in own if each.candidate.post_id in verdicts
    ]
    candidates = [each.candidate for each in own]
    queue = CertifyQueue(candidates, target.precision, target.test_confidence, name or UNSET)
    look = queue.look(verdicts)
    can, why = look.ask is not None, queue.out_of_reach(look)
    return PromiseEvidence(
        look.threshold, look.missing, can, len(labelled), sum(labelled), len(own), why
    )


def is_by(match: EventMatch, profile: Profile) -> bool:
    """Whether a match was made by this version of a profile."""
    return (match.match.seed_id, match.match.seed_version) == (profile.id, profile.version)


def came_by(match: EventMatch, until: int | None) -> bool:
    """Whether a match was there by this time."""
    return until is None or milliseconds(utc(match.record.processed_at)) <= until


def promised_profile(
    context: ModelContext,
    profile: Profile,
    target: PromiseTarget,
    evidence: PromiseEvidence,
    made: dict[str, Any],
) -> Profile:
    """The profile with the threshold that was shown, and what it promises."""
    assert evidence.threshold is not None
    promise = {
        "precision": target.precision, "confidence": target.confidence, "version": target.version,
        "labels": evidence.labels, "on": evidence.on, "matches": evidence.matches,
        "rate": rate_of(context, profile, evidence.threshold), **made,
    }  # fmt: skip
    before = profile.before if profile.promise else profile.history()
    return replace(profile, threshold=evidence.threshold, promise=promise, before=before)


def rate_of(context: ModelContext, profile: Profile, threshold: float) -> float:
    """The share of the background that passes: about what passes without the event."""
    scores = profile.vector.scores(sides_of(context.background)[1])  # [n]
    return float((scores >= np.float32(threshold)).mean())


class PassRates:
    """How many of the last hour's posts match each profile."""

    def __init__(self, cluster: TopicReader, context: ModelContext, now: int) -> None:
        topics = context.config.topics
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


def lapse_reason(event: EventState, rate: float | None) -> str:
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


def require_profile(event: EventState) -> Profile:
    """The profile of an event, which has to be in force to promise something."""
    if event.profile is None or event.why:
        raise InputError(
            f"event {event.name!r}: its profile is {event.state} ({event.why}); "
            f"let the event learn another"
        )
    return event.profile


def read_evidence(
    cluster: TopicReader, config: Config, profile: Profile, target: PromiseTarget, start: int
) -> PromiseEvidence:
    """What the labels of a profile's matches since then show."""
    matches = read_event_matches(cluster, config, profile.event, start)
    return weigh_labels(read_event_labels(cluster, config, profile.event), matches, profile, target)


def set_promise(
    topic: SeedTopic, state: ControlState, context: ModelContext, profile: Profile,
    target: PromiseTarget, evidence: PromiseEvidence,
) -> None:  # fmt: skip
    """Publish the threshold that was shown of a profile of this state, if it is still the one.

    Whether what was set is in force, and holds, is said.
    """
    made = promised_profile(context, profile, target, evidence, creation_fields())
    topic.publish({profile.id.encode(): made.value(context.config.limits)}, state)
    event = require_event(read_events(topic, context)[0], profile.event)
    if event.profile is None:
        return
    rate = PassRates(topic.cluster, context, now_ms()).of(event.profile)
    why = lapse_reason(event, rate)
    notify(f"lapsed at once: {why}" if why else "set; the list of events says when it lapses")


def missing_text(evidence: PromiseEvidence) -> str:
    """What is missing where nothing can be promised yet."""
    if not evidence.matches:
        return "no post has matched this version of the profile yet, as far as is looked back; wait"
    if evidence.more:
        return f"{evidence.missing} labels are missing, if none is wrong"
    return (
        f"{evidence.out_of_reach}: these matches can show no more; wait for more, or let the "
        "profile learn"
    )


def promise_row(
    name: str, target: PromiseTarget, evidence: PromiseEvidence, set_it: bool
) -> dict[str, Any]:
    """What was shown, as a row of JSON."""
    return {
        "event": name,
        "precision": target.precision,
        "confidence": target.confidence,
        "tested_at": target.test_confidence,
        "version": target.version,
        "threshold": evidence.threshold,
        "missing": evidence.missing if evidence.more else None,
        "labels": evidence.labels,
        "on": evidence.on,
        "matches": evidence.matches,
        "set": set_it,
    }


def event_rows(
    cluster: TopicReader, context: ModelContext, events: Collection[EventState]
) -> list[dict[str, Any]]:
    """Events as rows, those that promise something with whether that still holds."""
    bound = any(event.profile and event.profile.promise for event in events)
    rates = PassRates(cluster, context, now_ms()) if bound else None
    return [
        event_row(
            event, lapse_reason(event, rates.of(event.profile) if rates and event.profile else None)
        )
        for event in events
    ]


def event_row(event: EventState, lapse_reason: str = "") -> dict[str, Any]:
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
        "lapsed": lapse_reason or None,
        "made": made,
    }
