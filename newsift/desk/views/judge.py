"""Judging: questions and answers, who judged what, and the promise that the labels show."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import msgspec

from encoder.errors import InputError
from newsift.desk.api import DONE, Act, EventName, Nothing, OfEvent, acts, reads
from newsift.desk.evidence import DAY_MS, Evidence
from newsift.desk.label_queues import LabelSession, QueueKey, bounded_post
from newsift.desk.session import Desk
from newsift.operations.cluster_status import StreamRate
from newsift.operations.events import NONE, require_event
from newsift.operations.labels import EventMatch, QueueKind
from newsift.operations.promises import (
    PromiseEvidence,
    missing_text,
    require_profile,
    set_promise,
)
from newsift.operations.times import now_ms
from newsift.statistics.estimates import MOST_JUDGES, agreements, labels_by_person
from newsift.statistics.labels import Label, Verdict
from newsift.statistics.pass_rates import an_hour, window_words
from worker.posts.outcome import PostId
from worker.posts.times import milliseconds, utc
from worker.seeds.profile import Profile
from worker.seeds.record import EVENT_BYTES

MOST_PEOPLE = 100  # whose counts are shown, by their names
MOST_APART = 50  # posts that are shown, the newest labels first
Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class QueueRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Whose turn it is, and of which queue."""

    event: str
    by: str
    kind: QueueKind = "certify"


class QueueAction(Act, frozen=True, kw_only=True):
    """Something that is done in a queue, which a page names as it was told."""

    event: str
    kind: QueueKind
    queue: str


class AnswerRequest(QueueAction, frozen=True, kw_only=True):
    """What somebody says of a post."""

    platform: str
    id: str
    verdict: Verdict


class UndoRequest(QueueAction, frozen=True, kw_only=True):
    """The answer to take back, by the number that it was given."""

    step: int


@reads("/api/judge/ask", QueueRequest)
def ask(desk: Desk, request: QueueRequest) -> dict[str, Any]:
    """The question now, frozen with all that may follow; or that it is being frozen."""
    key = _queue_key(request)
    active = desk.label_queues.queue(key)
    if active is None:
        return {"drawing": True}
    return _updated_queue(desk, active.session, key.event).state() | {
        "drawing": False,
        "why": active.why,
    }


def _published(state: dict[str, Any]) -> str:
    """What the audit says of a label: the answer may have stood already, or come too late."""
    if state["published"]:
        return DONE
    return f"not published: {state.get('missed') or 'it stands already'}"


@acts("/api/judge/answer", AnswerRequest, "labels.answer", _published)
def answer(desk: Desk, request: AnswerRequest) -> dict[str, Any]:
    """Publish an answer; `missed` says why one to a question of before is not."""
    queue = _queue(desk, request)
    missed = queue.answer((request.platform, request.id), request.verdict)
    return queue.state() | {"missed": missed or "", "published": missed is None}


@acts("/api/judge/correct", AnswerRequest, "labels.correct", _published)
def correct(desk: Desk, request: AnswerRequest) -> dict[str, Any]:
    """Publish another verdict on a post that was judged before."""
    queue = _queue(desk, request)
    published = queue.correct((request.platform, request.id), request.verdict)
    return queue.state() | {"published": published}


@acts("/api/judge/undo", UndoRequest, "labels.undo", _published)
def undo(desk: Desk, request: UndoRequest) -> dict[str, Any]:
    """Take an answer back."""
    queue = _queue(desk, request)
    published = queue.undo(request.step)
    return queue.state() | {"published": published}


@acts(
    "/api/judge/anew", QueueAction, "labels.draw",
    lambda gone: DONE if gone else "nothing done: the queue has gone before",
)  # fmt: skip
def anew(desk: Desk, request: QueueAction) -> bool:
    """Let the queue go: the next question freezes the matches of then."""
    return desk.label_queues.begin_anew(_queue_key(request), request.queue)


def _queue_key(request: QueueRequest | QueueAction) -> QueueKey:
    """The queue's name, or a refusal."""
    for key, text in (("event", request.event), ("by", request.by)):
        if not 0 < len(text.encode()) <= EVENT_BYTES:
            raise InputError(f"{key}: give a name of 1 to {EVENT_BYTES} bytes")
    return QueueKey(request.event, request.by, request.kind)


def _queue(desk: Desk, request: QueueAction) -> LabelSession:
    return _updated_queue(
        desk, desk.label_queues.of(_queue_key(request), request.queue), request.event
    )


def _updated_queue(desk: Desk, queue: LabelSession, event: str) -> LabelSession:
    """The queue, with what its person has said elsewhere meanwhile."""
    queue.merge(desk.mirrors.labels.of(event))
    return queue


@reads("/api/judge/judges", OfEvent)
def judges(desk: Desk, request: OfEvent) -> dict[str, Any]:
    """Counts by person, κ of each two, and the posts of which they do not say the same."""
    labels = desk.mirrors.labels.of(request.event)
    counts = labels_by_person(labels)
    apart = _apart(labels)
    return {
        "counts": counts[:MOST_PEOPLE],
        "people": len(counts),
        "pairs": [asdict(pair) for pair in agreements(labels)],
        "apart": [_differing(own) for own in apart[:MOST_APART]],
        "apart_in_all": len(apart),
        "away": desk.mirrors.of_labels.away if counts else "",
    }


def _apart(labels: Iterable[Label]) -> list[list[Label]]:
    """The labels of each post on which not all say the same, the newest post first."""
    by_post: defaultdict[PostId, list[Label]] = defaultdict(list)
    for label in labels:
        by_post[label.post_id].append(label)
    apart = [own for own in by_post.values() if len({label.label for label in own}) > 1]
    return sorted(apart, key=_newest, reverse=True)


def _newest(labels: list[Label]) -> tuple[int, PostId]:
    """When the last of them was given; the post decides between two of one moment."""
    return max(milliseconds(utc(label.at)) for label in labels), labels[0].post_id


def _differing(own: list[Label]) -> dict[str, Any]:
    by_name = sorted(own, key=lambda label: label.by)[:MOST_JUDGES]
    return bounded_post(own[0].post) | {
        "score": own[0].score,
        "said": [{"by": label.by, "label": label.label} for label in by_name],
    }


@reads("/api/judge/left-out", Nothing)
def left_out(desk: Desk, _request: Nothing) -> dict[str, int]:
    """How many labels no page shows, of all events: for want of room, and as they are none."""
    labels = desk.mirrors.labels
    return {"left_out": labels.left_out, "refused": len(labels.refused)}


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
def threshold_evidence(desk: Desk, wished: Wished) -> dict[str, Any]:
    """What the labels show by now, what is missing, and what would pass."""
    control = desk.mirrors.control
    profile = control.profiles.get(wished.event)
    if profile is None:
        return {"profile": None, "loading": not control.complete}
    evidence = _evidence(desk, profile, wished.precision, wished.confidence)
    wish, result = evidence.wish, evidence.result
    reason = missing_text(result) if result.threshold is None else ""
    return {
        "profile": profile.version, "loading": False, "threshold": profile.threshold,
        "promise": profile.promise, "version": wish.version, "tested": wish.test_confidence,
        "stale": _stale(desk, wished.event), "shown": result, "says": reason,
        "hourly": _hourly(desk.outside.stream(), evidence.matches.values(), profile, result),
    }  # fmt: skip


@acts("/api/judge/promise", ToPromise, "events.promise")
def promise(desk: Desk, wished: ToPromise) -> dict[str, Any]:
    """Set the threshold that the labels show, if it is the one that was agreed to."""
    teacher = desk.model.wait()
    desk.mirrors.require_current()
    view = desk.model.view()
    event = require_event(view.events, wished.event).require_seeds()
    if event.state == NONE:
        raise InputError("a promise is of a profile: that comes first, see Learned")
    profile = require_profile(event)
    evidence = _evidence(desk, profile, wished.precision, wished.confidence)
    result = evidence.result
    if result.threshold is None:
        raise InputError(missing_text(result))
    if result.threshold != wished.threshold:
        raise InputError(
            f"threshold: the labels show {result.threshold:.4f} by now, and not "
            f"{wished.threshold:.4f}; look at it, and promise that"
        )
    with desk.seed_editor.topic() as topic:
        set_promise(topic, view.state, teacher, profile, evidence.wish, result)
    return {"threshold": result.threshold}


def _evidence(desk: Desk, profile: Profile, precision: float, confidence: float) -> Evidence:
    """What the labels show now: the object that is shown, and that a promise is decided by."""
    matches, labels = desk.recent.of(profile.event), desk.mirrors.labels.of(profile.event)
    return desk.evidence.of(profile, labels, matches, precision, confidence)


def _stale(desk: Desk, name: str) -> str:
    """Why an event's profile is not in force, as far as the model tells by now."""
    event = desk.model.events().get(name) if desk.model.now() else None
    return event.why if event else ""


def _hourly(
    stream: StreamRate, matches: Iterable[EventMatch], profile: Profile, result: PromiseEvidence
) -> dict[str, float | str | None] | None:
    """How many of the profile's matches an hour pass now, and would above what is shown."""
    own = [each for each in matches if each.profile == (profile.id, profile.version)]
    least = -1.0 if profile.threshold is None else profile.threshold
    if not own:
        return None
    now, since_profile = now_ms(), milliseconds(utc(profile.made.get("at")))
    since = max(now - DAY_MS, stream.since, since_profile)
    scores = [each.candidate.score for each in own]
    above = [
        score for score in scores if result.threshold is not None and score >= result.threshold
    ]
    return {
        "now": an_hour(sum(score >= least for score in scores), since, now),
        "then": None if result.threshold is None else an_hour(len(above), since, now),
        "window": window_words(since, now),
    }


ENDPOINTS = (ask, answer, correct, undo, anew, judges, left_out, threshold_evidence, promise)
