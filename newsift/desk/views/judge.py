"""Judging: questions and answers, judges and their agreement, and promises."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import msgspec

from encoder.errors import InputError
from newsift.desk.api import (
    DONE_OUTCOME,
    Action,
    By,
    EmptyRequest,
    EventName,
    EventRequest,
    get_endpoint,
    post_endpoint,
)
from newsift.desk.labelling import LabelSession, QueueKey
from newsift.desk.post_fields import post_fields
from newsift.desk.session import Desk
from newsift.operations.deletions import without_content
from newsift.operations.events import NO_PROFILE, require_event
from newsift.operations.labels import QueueKind
from newsift.operations.matches import MatchRow
from newsift.operations.promises import (
    PromiseEvidence,
    describe_missing,
    report_promise,
    require_profile,
    require_version,
    set_promise,
    weigh_evidence,
)
from newsift.operations.times import now_text
from newsift.statistics.count_draw import DEFAULT_COUNT_LABELS, MIN_COUNT_LABELS
from newsift.statistics.estimates import MAX_JUDGES, agreements, count_labels
from newsift.statistics.labels import (
    MAX_NOTE_CHARS,
    Goal,
    Label,
    Level,
    Note,
    Verdict,
    check_names,
    parse_note,
)
from newsift.statistics.pass_rates import hourly_rate
from newsift.statistics.queues import chosen_goal
from worker.posts.outcome import PostId
from worker.posts.times import DAY_MS, milliseconds, utc
from worker.seeds.profile import Profile

MAX_PEOPLE = 100
MAX_DISPUTED = 50
MAX_COUNT_LABELS, MAX_COUNT_DAYS = 10_000, 31
Version = Annotated[str, msgspec.Meta(max_length=64)]
CountLabels = Annotated[int, msgspec.Meta(ge=MIN_COUNT_LABELS, le=MAX_COUNT_LABELS)]


class GoalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Without both: what the newest labels were to prove."""

    precision: Level | None = None
    confidence: Level | None = None

    @property
    def goal(self) -> Goal | None:
        if self.precision is None or self.confidence is None:
            return None
        return self.precision, self.confidence


class QueueRequest(GoalRequest, frozen=True, kw_only=True):
    event: str
    by: str
    kind: QueueKind = "certify"
    labels: CountLabels = DEFAULT_COUNT_LABELS
    days: Annotated[int, msgspec.Meta(ge=1, le=MAX_COUNT_DAYS)] = 1

    @property
    def key(self) -> QueueKey:
        check_names(event=self.event, by=self.by)
        return QueueKey(self.event, self.by, self.kind, self.goal, self.labels, self.days)


class QueueAction(QueueRequest, frozen=True, kw_only=True):
    by: By
    queue: str  # token


class LabelRequest(Action, frozen=True, kw_only=True):
    event: str
    platform: str
    id: str
    verdict: Verdict


class AnswerRequest(QueueAction, frozen=True, kw_only=True):
    platform: str
    id: str
    verdict: Verdict


class UndoRequest(QueueAction, frozen=True, kw_only=True):
    step: int  # of the answer


@get_endpoint("/api/judge/question", QueueRequest)
def question(desk: Desk, request: QueueRequest) -> dict[str, Any]:
    """The state of the queue, or that it is being drawn."""
    session = desk.queues.queue(request.key)
    if session is None:
        return {"drawing": True}
    return session.state() | {"drawing": False, "why": session.origin.replaced_because}


def _outcome(state: dict[str, Any]) -> str:
    if state["published"]:
        return DONE_OUTCOME
    return f"not published: {state.get('problem') or 'the same label exists'}"


@post_endpoint("/api/judge/answer", AnswerRequest, "labels.answer", _outcome)
def answer(desk: Desk, request: AnswerRequest) -> dict[str, Any]:
    """`problem` is the reason if the answer was not published; `other` a different answer."""
    queue = _session(desk, request)
    outcome = queue.answer((request.platform, request.id), request.verdict)
    return queue.state() | outcome._asdict()


@post_endpoint("/api/judge/correct", AnswerRequest, "labels.correct", _outcome)
def correct(desk: Desk, request: AnswerRequest) -> dict[str, Any]:
    queue = _session(desk, request)
    is_new = queue.correct((request.platform, request.id), request.verdict)
    return queue.state() | {"published": is_new}


@post_endpoint("/api/judge/undo", UndoRequest, "labels.undo", _outcome)
def undo(desk: Desk, request: UndoRequest) -> dict[str, Any]:
    queue = _session(desk, request)
    return {"published": queue.undo(request.step)} | queue.state()


@post_endpoint(
    "/api/judge/redraw", QueueAction, "labels.redraw",
    lambda is_ended: DONE_OUTCOME if is_ended else "nothing done: the queue no longer exists",
)  # fmt: skip
def redraw(desk: Desk, request: QueueAction) -> bool:
    return desk.queues.discard(request.key, request.queue)


@post_endpoint("/api/judge/label", LabelRequest, "labels.add")
def label_match(desk: Desk, request: LabelRequest) -> bool:
    """Label a match of the list: as given, or drawn as this judge's label was before.

    False if the judge has this label already.
    """
    check_names(event=request.event, by=request.by)
    desk.mirrors.require_current()  # a label that was drawn stays one
    post_id = request.platform, request.id
    labels = desk.mirrors.labels.event_labels(request.event)
    own = (label for label in labels if (label.by, label.post_id) == (request.by, post_id))
    current, row = next(own, None), desk.matches.row(request.event, post_id)
    if current is not None and current.label == request.verdict:
        return False
    if current is not None:
        label = msgspec.structs.replace(current, label=request.verdict, at=now_text())
    elif row is not None:
        label = Label(
            label=request.verdict, event=request.event, post=row.post, by=request.by,
            at=now_text(), drawn="given", score=row.score, seed_set=row.scored_by[0],
            model=row.scored_by[1],
        )  # fmt: skip
    else:
        raise InputError("the post is not among the newest matches any more; judge another")
    desk.queues.labels.publish(label.key, label.value)
    return True


def _session(desk: Desk, request: QueueAction) -> LabelSession:
    return desk.queues.session(request.key, request.queue)


@get_endpoint("/api/judge/judges", EventRequest)
def judges(desk: Desk, request: EventRequest) -> dict[str, Any]:
    labels = desk.mirrors.labels.event_labels(request.event)
    counts, disputes = count_labels(labels), _find_disputes(labels)

    def card(label: Label) -> dict[str, Any]:
        post_id, row = label.post_id, desk.matches.row(request.event, label.post_id)
        is_deleted = desk.matches.is_deleted(post_id)
        return post_fields(without_content(label.post) if is_deleted else label.post) | {
            "score": label.score,
            "threshold": row.threshold if row else None,  # None: unknown
            "is_deleted": is_deleted,
        }

    return {
        "counts": counts[:MAX_PEOPLE],
        "people": len(counts),
        "pairs": [asdict(pair) for pair in agreements(labels)],
        "disputed": [
            card(first) | {"labels": _labels([first, *others])}
            for first, *others in disputes[:MAX_DISPUTED]
        ],
        "all_disputed": len(disputes),
        "error": desk.mirrors.labels_follower.error if counts else "",
    }


def _labels(labels: Iterable[Label]) -> list[dict[str, str]]:
    by_name = sorted(labels, key=lambda label: label.by)
    return [{"by": label.by, "label": label.label} for label in by_name[:MAX_JUDGES]]


def _find_disputes(labels: Iterable[Label]) -> list[list[Label]]:
    """Labels of each post on which judges differ, the newest first."""
    by_post: defaultdict[PostId, list[Label]] = defaultdict(list)
    for label in labels:
        by_post[label.post_id].append(label)

    def newest(post_labels: list[Label]) -> tuple[int, PostId]:
        return max(milliseconds(utc(label.at)) for label in post_labels), post_labels[0].post_id

    disputes = (group for group in by_post.values() if len({label.label for label in group}) > 1)
    return sorted(disputes, key=newest, reverse=True)


class NoteAction(Action, frozen=True, kw_only=True):
    event: EventName
    note: Annotated[str, msgspec.Meta(max_length=MAX_NOTE_CHARS)]  # empty: there is to be none
    seen: str = ""  # when the note was written that the page showed


@post_endpoint("/api/judge/note", NoteAction, "labels.note")
def write_note(desk: Desk, request: NoteAction) -> None:
    """What counts as on the event, for everybody who judges it."""
    last = desk.mirrors.labels.note(request.event)
    if request.seen != (last.at if last else ""):
        raise InputError("note: somebody has changed it since you began; look at it again")
    if text := request.note.strip():
        note = Note(text, request.event, request.by, now_text())
        note = parse_note(note.value, desk.config.limits)
        desk.queues.labels.publish(note.key, note.value)
    elif last is not None:
        desk.queues.labels.publish(last.key, None)


@get_endpoint("/api/judge/left-out", EmptyRequest)
def left_out(desk: Desk, _request: EmptyRequest) -> dict[str, int]:
    """Labels that were left out, of all events."""
    labels = desk.mirrors.labels
    return {"left_out": labels.left_out, "refused": len(labels.refused)}


class PromiseRequest(GoalRequest, frozen=True, kw_only=True):
    event: EventName


class PromiseAction(Action, frozen=True, kw_only=True):
    event: EventName
    precision: Level
    confidence: Level
    evidence: Version  # of what the page showed


@get_endpoint("/api/judge/promise-test", PromiseRequest)
def promise_test(desk: Desk, request: PromiseRequest) -> dict[str, Any]:
    control = desk.mirrors.control
    profile = control.profiles.get(request.event)
    is_read = desk.is_settled and desk.mirrors.has_matches()
    if profile is None or not is_read:
        return {"profile": None, "loading": not (control.complete and is_read)}
    goal = request.goal or chosen_goal(desk.mirrors.labels.event_labels(request.event))
    rows = desk.matches.draw_rows(request.event)
    result = _weigh_evidence(desk, rows, profile, goal)
    event = desk.model.view().events.get(request.event) if desk.model.context else None
    return {
        "profile": profile.version,
        "loading": False,
        "precision": result.target.precision,
        "confidence": result.target.confidence,
        "threshold": profile.threshold,
        "promise": profile.promise,
        "stale": event.why if event else "",
        "result": result,
        "missing": describe_missing(result, desk.period.is_file)
        if result.threshold is None
        else "",
        "hourly": _hourly(desk, rows, profile, result.threshold),
    }


@post_endpoint("/api/judge/promise", PromiseAction, "events.promise")
def promise(desk: Desk, request: PromiseAction) -> dict[str, Any]:
    """Sets the threshold that the labels show, if the page showed the same evidence."""
    context = desk.model.wait()
    desk.require_settled()
    if not desk.mirrors.has_matches():
        raise InputError("the matches are still being read; wait until they are")
    with desk.editor.topic() as topic:
        desk.mirrors.catch_up(topic.cluster)
        view = desk.model.view()
        event = require_event(view.events, request.event).require_seeds()
        if event.profile_status == NO_PROFILE:
            raise InputError("a promise needs a profile; make one under Learned")
        profile = require_profile(event)
        rows = desk.matches.draw_rows(request.event)
        result = _weigh_evidence(desk, rows, profile, (request.precision, request.confidence))
        if result.threshold is None:
            raise InputError(describe_missing(result, desk.period.is_file))
        require_version(request.evidence, result)
        event = set_promise(topic, view.state, context, profile, result)
    report_promise(event, desk.pass_rate(event.profile))
    return {"threshold": result.threshold}


def _weigh_evidence(
    desk: Desk, rows: Sequence[MatchRow], profile: Profile, goal: Goal
) -> PromiseEvidence:
    labels = desk.mirrors.labels.event_labels(profile.event)
    return weigh_evidence(labels, rows, profile, goal, desk.period.is_file)


def _hourly(
    desk: Desk, rows: Iterable[MatchRow], profile: Profile, threshold: float | None
) -> dict[str, float | str | None] | None:
    """Matches an hour now, and above the threshold that the labels show."""
    scores = [row.score for row in rows if row.profile == (profile.id, profile.version)]
    if not scores:
        return None
    present = -1.0 if profile.threshold is None else profile.threshold
    period, since = desk.period, desk.stream.stream_rate().since
    if not period.is_file:  # a profile meets all posts of a file, whenever it was made
        trained_at = milliseconds(utc(profile.made.get("at")))
        since = max(period.now() - DAY_MS, since, trained_at)
    since = period.rates_since(since)

    def hourly(threshold: float) -> float | None:
        return hourly_rate(sum(score >= threshold for score in scores), since, period.now())

    then = None if threshold is None else hourly(threshold)
    return {"now": hourly(present), "then": then, "window": period.describe(since)}
