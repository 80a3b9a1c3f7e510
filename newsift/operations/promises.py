"""Promises of precision: evidence from labels, setting a promise, and whether it still holds."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from encoder.errors import InputError
from encoder.thresholds import EVERY_POST
from newsift.operations.actor import creation_fields
from newsift.operations.cluster_status import count_processed
from newsift.operations.events import IN_FORCE, EventState, PromiseTarget, events_of, require_event
from newsift.operations.labels import draw_start, read_event_labels, rows_of_draw
from newsift.operations.matches import MatchRow, read_matches
from newsift.operations.messages import notify
from newsift.operations.model_context import ModelContext
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import now_ms
from newsift.statistics.labels import RANDOM_DRAWS, Goal, Label, unanimous_verdicts
from newsift.statistics.promise import LabelPlan, promise_lapses
from newsift.statistics.queues import CertifyQueue, ExactShare, current_queue
from worker.config import Config
from worker.errors import ConflictError
from worker.kafka.reading import TopicReader
from worker.posts.times import HOUR_MS
from worker.seeds.profile import Profile
from worker.seeds.state import ControlState, seed_status
from worker.text import plural

MIN_POSTS_FOR_RATE = 1_000
VERSION_DIGITS = 12


@dataclass(frozen=True, slots=True)
class PromiseEvidence:
    version: str  # of what was weighed: another one may show something else
    target: PromiseTarget
    threshold: float | None
    missing: int  # labels until more is proven, if none is wrong
    more: bool  # whether these matches can prove more
    labels: int
    on: int  # labels on the event
    matches: int
    plan: LabelPlan
    exact: ExactShare | None = None  # of the matches, once all are read
    out_of_reach: str = ""  # why they can prove no more


def weigh_evidence(
    labels: Sequence[Label], rows: Iterable[MatchRow], profile: Profile, goal: Goal,
    is_file: bool = False,
) -> PromiseEvidence:  # fmt: skip
    """Counts the profile's matches of the newest draw, where one label of the post is random.

    Before a draw has a label there is no order of its posts, so other draws' labels show nothing.
    Nobody is asked about a deleted post, so it counts only if it has a label. Of a file, what was
    promised stays proven while its labels prove it: its posts are the same, and those below the
    promised threshold match no more.
    """
    rows = [row for row in rows if row.profile == (profile.id, profile.version)]
    draw = current_queue(labels, {row.post_id for row in rows}, profile.version)
    rows = rows_of_draw(rows, draw)
    target = PromiseTarget.of_draw(draw, profile, labels, goal)
    drawn = {label.post_id for label in labels if draw and label.drawn in RANDOM_DRAWS}
    verdicts = unanimous_verdicts(label for label in labels if label.post_id in drawn)
    candidates = [row for row in rows if not row.is_deleted or row.post_id in verdicts]
    judged = [verdicts[row.post_id] for row in candidates if row.post_id in verdicts]
    proven = target.promised_from(profile) if is_file else None
    queue = CertifyQueue(
        candidates, target.precision, target.test_confidence, draw or UNSET, proven
    )
    progress = queue.progress(verdicts)
    weighed = [
        profile.version, proven, target.precision, target.confidence, target.test, draw,
        [(row.post_id, row.group, row.score, verdicts.get(row.post_id)) for row in candidates],
    ]  # fmt: skip
    return PromiseEvidence(
        version=sha256(msgspec.json.encode(weighed)).hexdigest()[:VERSION_DIGITS],
        target=target,
        threshold=progress.threshold,
        missing=progress.missing,
        more=progress.next_match is not None,
        labels=len(judged),
        on=sum(judged),
        matches=len(rows),
        plan=queue.plan(),
        exact=queue.exact_share(unanimous_verdicts(labels)),
        out_of_reach=queue.out_of_reach(progress),
    )


def read_pass_rates(
    cluster: TopicReader, context: ModelContext
) -> Callable[[Profile], float | None]:
    """The pass rates of the last hour's posts that are processed; None if these are too few.

    A match of the last hour may be of an older post.
    """
    start = now_ms() - HOUR_MS
    posts = count_processed(cluster, context.config, start)
    log = read_matches(cluster, context.config, start)

    def rate(profile: Profile) -> float | None:
        if posts < MIN_POSTS_FOR_RATE:
            return None
        return log.of(profile.event).pass_count(profile.version, now_ms()) / posts

    return rate


def lapse_reason(event: EventState, rate: float | None) -> str:
    """Empty while the promise holds, or where there is none."""
    profile = event.profile
    if profile is None or profile.promise is None:
        return ""
    if event.profile_status != IN_FORCE:
        return f"its profile is {event.profile_status}"
    served = np.array(event.thresholds, np.float32)
    if profile.skim_threshold is not None and not (
        profile.threshold is not None and np.float32(profile.threshold) in served
    ):
        return "matching.reader is skim, and it speaks of posts that are read"
    precision, before = profile.promise.get("precision"), profile.promise.get("rate")
    if not (isinstance(precision, float) and isinstance(before, float)):
        return "its record cannot be read"
    if not (0 < precision < 1 and 0 <= before <= 1):
        return "its record cannot be read"
    if rate is None or not promise_lapses(rate, before, precision):
        return ""
    return (
        f"{1000 * rate:.2g} of 1,000 posts passed in the last hour; "
        f"{1000 * before:.2g} do without the event"
    )


def require_profile(event: EventState) -> Profile:
    """Raises without a profile in force."""
    if event.profile is None or event.why:
        why = f" ({event.why})" if event.why else ""
        is_promised = event.profile is not None and event.profile.promise is not None
        remedy = "undo that, or give its promise up (events forget) and " if is_promised else ""
        raise InputError(
            f"event {event.name!r}: its profile is {event.profile_status}{why}; {remedy}let the "
            "event learn one"
        )
    return event.profile


def read_evidence(
    cluster: TopicReader, config: Config, profile: Profile, goal: Callable[[Sequence[Label]], Goal],
    start: int,
) -> PromiseEvidence:  # fmt: skip
    """Matches since `start`, or since the newest draw began."""
    labels = read_event_labels(cluster, config, profile.event)
    start = min(start, draw_start(labels, profile.version) or start)
    rows = read_matches(cluster, config, start, profile.event).draw_rows(profile.event)
    return weigh_evidence(labels, rows, profile, goal(labels))


def set_promise(
    topic: SeedTopic, state: ControlState, context: ModelContext, profile: Profile,
    evidence: PromiseEvidence,
) -> EventState:  # fmt: skip
    """Publishes the threshold and the promise; returns the event afterwards."""
    assert evidence.threshold is not None
    target = evidence.target
    row = profile.vector.as_row(context.enc.mix, context.enc.digest)
    skim = context.seed_set(state).skim_threshold_of(profile.id)
    both = np.array([[evidence.threshold, EVERY_POST if skim is None else skim]], np.float32)
    promise = {
        "precision": target.precision,
        "confidence": target.confidence,
        "test": target.test,
        "labels": evidence.labels,
        "on": evidence.on,
        "matches": evidence.matches,
        "rate": context.automatic.share_passing(row, both),  # without posts on the event
        **creation_fields(),
    }
    before = profile.before if profile.promise else profile.history()
    result = replace(
        profile, threshold=evidence.threshold, promise=promise, before=before, skim_threshold=skim
    )
    topic.publish({profile.id.encode(): result.value(context.config.limits)}, state)
    latest = topic.state()
    return require_event(events_of(latest, context.seed_set(latest)), profile.event)


def report_promise(event: EventState, rate: float | None) -> None:
    """`rate` is the profile's pass rate."""
    if event.profile is not None:
        why = lapse_reason(event, rate)
        notify(f"lapsed at once: {why}" if why else "set; the list of events says when it lapses")


def require_version(shown: str, evidence: PromiseEvidence) -> None:
    """Raises unless the evidence is what somebody has looked at."""
    if evidence.version != shown:
        now = f"{evidence.threshold:.4f}" if evidence.threshold else "no threshold"
        raise ConflictError(
            f"labels or matches have changed since you looked, and show {now} by now; look at it, "
            "and promise that"
        )


def describe_missing(evidence: PromiseEvidence, is_file: bool = False) -> str:
    """In a file no more matches come."""
    if not evidence.matches:
        if is_file:
            return "no post of the file matches the profile; lower its threshold, or let it learn"
        return "no post has matched this version of the profile in the time that is read; wait"
    if evidence.more:
        return f"{plural(evidence.missing, 'more label')}, if none is off"
    if evidence.exact is not None:
        return str(evidence.exact)
    again = "" if is_file else ", or draw again: that is another test, and takes more labels"
    return f"{evidence.out_of_reach}. These matches can show no more. Let the event learn{again}"


def promise_row(name: str, evidence: PromiseEvidence, is_set: bool) -> dict[str, Any]:
    target = evidence.target
    return {
        "event": name,
        "precision": target.precision,
        "confidence": target.confidence,
        "tested_at": target.test_confidence,
        "test": target.test,
        "threshold": evidence.threshold,
        "missing": evidence.missing if evidence.more else None,
        "labels": evidence.labels,
        "on": evidence.on,
        "matches": evidence.matches,
        "set": is_set,
    }


def event_rows(
    cluster: TopicReader, context: ModelContext, events: Collection[EventState]
) -> list[dict[str, Any]]:
    """Pass rates are read only if an event has a promise."""
    has_promise = any(event.profile and event.profile.promise for event in events)
    rate = read_pass_rates(cluster, context) if has_promise else lambda _: None
    return [
        event_row(event, lapse_reason(event, rate(event.profile) if event.profile else None))
        for event in events
    ]


def event_row(event: EventState, lapse: str = "") -> dict[str, Any]:
    thresholds, profile, now = event.thresholds, event.profile, now_ms()
    return {
        "event": event.name,
        "seeds": [seed.id for seed in event.seeds],
        "expired": [s.id for s in event.seeds if seed_status(s, now).state == "expired"],
        "profile": event.profile_status,
        "why": event.why or None,
        "version": profile.version if profile else None,
        "threshold": thresholds[0] if len(thresholds) == 1 else None,
        "thresholds": list(thresholds),
        "automatic": profile.threshold is None if profile else None,
        "promise": profile.promise if profile else None,
        "lapsed": lapse or None,
        "made": profile.made if profile else {},
    }
