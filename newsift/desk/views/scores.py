"""An event's scores: the figure with its threshold, what lies just below, and setting another."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isinf
from typing import Annotated, Any

import msgspec
import numpy as np

from encoder.errors import InputError
from newsift.desk.api import Act, EventName, OfEvent, acts, reads
from newsift.desk.scoring import Matched, Measure, Near, drawn
from newsift.desk.session import Desk
from newsift.operations.cluster_status import StreamRate
from newsift.operations.events import IN_FORCE, EventState
from newsift.operations.labels import candidates_in
from newsift.operations.messages import notify
from newsift.operations.promises import lapse_reason
from newsift.operations.seed_drafts import change_seeds
from newsift.operations.times import now_ms
from newsift.statistics.estimates import (
    Draws,
    LabelledScore,
    bin_counts,
    joint_verdicts,
    score_grid,
    score_summaries,
    share_above,
)
from newsift.statistics.labels import Label, Verdict
from newsift.statistics.pass_rates import HOUR, NearBy, passing, window_words
from newsift.statistics.queues import Candidate
from worker.match.reservoir import NearAnswer
from worker.posts.outcome import PostId
from worker.posts.times import milliseconds, utc
from worker.text import cut

MOST_IDS = 20  # of seeds that a threshold would be set of
MOST_ROWS = 50
TEXT, NAME, WORD = 600, 200, 60  # characters that are shown
LINK = 1_000
Score = Annotated[float, msgspec.Meta(gt=0, le=1)]


@dataclass(frozen=True, slots=True)
class FigureData:
    """What a figure is drawn of."""

    measure: Measure
    matches: Matched
    labels: Sequence[Label]
    marks: Sequence[LabelledScore]  # of the labels
    near: Near
    stream: StreamRate
    now: int
    rate: float | None = None  # of the last hour's posts, those that match the profile


def figure(scene: FigureData) -> dict[str, Any]:
    """The histogram, what would pass above each of its edges, and what labels say."""
    measure, matches = scene.measure, scene.matches
    near = NearBy.of(scene.near.answers)
    draws, marks = drawn(matches, scene.labels), scene.marks
    scores = [own.passed.score for own in matches.own]
    judged = [mark.score for mark in marks]
    edges = score_grid(measure.background, scores, near.scores, judged, measure.cuts)
    return {
        **_event_fields(scene),
        "edges": edges,
        "bins": _bins(edges, scene, near),
        "everyday": [1000 * share for share in share_above(edges, measure.background)],
        "hourly": _hourly(edges, scene, near),
        "floor": _finite(near.floor),
        **_label_fields(marks, draws),
        "told": [*scene.near.messages, *filter(None, [scene.stream.why])],
    }


def promise_of(event: EventState, rate: float | None) -> dict[str, Any] | None:
    """What an event's threshold promises, as far as that can be read, and whether it holds."""
    profile = event.profile
    if event.state != IN_FORCE or profile is None or profile.promise is None:
        return None
    numbers = {name: profile.promise.get(name) for name in ("precision", "confidence")}
    if not all(isinstance(each, float) for each in numbers.values()):
        return None
    return {**numbers, "threshold": profile.threshold, "lapsed": lapse_reason(event, rate)}


def _event_fields(scene: FigureData) -> dict[str, Any]:
    """What the event is compared with, and where its thresholds are."""
    measure = scene.measure
    event, cuts = measure.event, sorted(measure.cuts.tolist())
    return {
        "event": event.name,
        "state": event.state,
        "why": event.why,
        "compared": [each.id for each in measure.compared[:MOST_IDS]],
        "number": len(measure.compared),
        "thresholds": [cuts[0], cuts[-1]] if cuts else [],
        "is_automatic": measure.is_automatic,
        "automatic": [*measure.automatic[:1], *measure.automatic[-1:]],
        "configured": measure.teacher.config.matching.threshold,
        "promise": promise_of(event, scene.rate),
        "everyday_posts": len(measure.background),
        "matched": sum(own.passed.posts for own in scene.matches.own),
        "hours": max(scene.now - _since(scene), 0) / HOUR,
        "window": window_words(_since(scene), scene.now),
    }


def _since(scene: FigureData) -> int:
    """Since when matches are counted: not before the first post."""
    return max(scene.matches.since, scene.stream.since)


def _bins(edges: Sequence[float], scene: FigureData, near: NearBy) -> dict[str, list[float]]:
    """How many lie between the edges; near misses as many as came while the matches did."""
    own = scene.matches.own
    hours = max(scene.now - _since(scene), 0) / HOUR
    per_share = scene.stream.hourly * hours
    posts = [each.passed.posts for each in own]
    bins = {
        "everyday": bin_counts(edges, scene.measure.background),
        "matches": bin_counts(edges, [each.passed.score for each in own], posts),
        "near": bin_counts(edges, near.scores, near.shares * per_share),
    }
    return {name: np.round(each, 2).tolist() for name, each in bins.items()}


def _hourly(edges: Sequence[float], scene: FigureData, near: NearBy) -> list[float | None]:
    matches = [own.passed for own in scene.matches.own]
    top = float(scene.measure.cuts.max(initial=0.0))
    hourly = scene.stream.hourly
    if scene.stream.why:
        near, hourly = NearBy.of([]), 0.0
    return passing(edges, matches, _since(scene), scene.now, top, near, hourly)


def _label_fields(marks: Sequence[LabelledScore], draws: Draws) -> dict[str, Any]:
    """The labels, and what they say from each of their scores on."""
    return {
        "marks": [[mark.score, mark.verdict] for mark in marks],
        "glances": [asdict(each) for each in score_summaries(marks, draws)],
        "reach": _finite(draws.reach),
    }


def _finite(score: float) -> float | None:
    return None if isinf(score) else score


def missed_rows(
    measure: Measure, answers: Sequence[NearAnswer], verdict_of: Mapping[PostId, Verdict]
) -> list[dict[str, Any]]:
    """The newest of those that are kept."""
    newest = sorted(candidates_in(answers), key=_came, reverse=True)[:MOST_ROWS]
    why = measure.why([each.post.text for each in newest]) if len(measure.rows) else []
    words_of = [*why, *[[] for _ in newest]]
    return [_row(each, words, verdict_of) for each, words in zip(newest, words_of, strict=False)]


def _came(near: Candidate) -> tuple[int, float]:
    """When a post was written; one that does not say comes last."""
    at = utc(near.post.created_at)
    return (milliseconds(at) if at else -1), near.score


def _row(
    near: Candidate, why: Sequence[tuple[str, float]], verdict_of: Mapping[PostId, Verdict]
) -> dict[str, Any]:
    post = near.post
    return {
        "id": post.id,
        "platform": post.platform,
        "text": cut(post.text, TEXT),
        "author": cut(post.author or "", NAME),
        "created_at": utc(post.created_at),
        "url": post.url if len(post.url or "") <= LINK else None,
        "score": near.score,
        "why": [(cut(word, WORD), part) for word, part in why],
        "said": verdict_of.get(near.post_id),
    }


class SetThreshold(Act, frozen=True, kw_only=True):
    """The score from which an event's posts match; None for the automatic one."""

    event: EventName
    threshold: Score | None


@reads("/api/scores", OfEvent)
def scores(desk: Desk, request: OfEvent) -> dict[str, Any]:
    """The figure of an event's scores; while the model is not there, why not."""
    if desk.model.now() is None:
        return {"away": desk.model.away}
    measure = desk.scores.measure(request.event)
    near, stream = desk.outside.near(request.event), desk.outside.stream()
    labels = desk.mirrors.labels.of(request.event)
    rate, now = desk.pass_rate(measure.event.profile), now_ms()
    matches = desk.scores.matches(measure)
    marks = desk.scores.marks(measure, matches, labels)
    scene = FigureData(measure, matches, labels, marks, near, stream, now, rate)
    return {"away": "", **figure(scene)}


@reads("/api/scores/near", OfEvent)
def near(desk: Desk, request: OfEvent) -> dict[str, Any]:
    """The newest near misses that the workers keep, with the words that make their scores."""
    if desk.model.now() is None:
        return {"away": desk.model.away}
    measure, near_misses = desk.scores.measure(request.event), desk.outside.near(request.event)
    verdict_of = joint_verdicts(desk.mirrors.labels.of(request.event))
    rows = missed_rows(measure, near_misses.answers, verdict_of)
    count = sum(stratum.count for each in near_misses.answers for stratum in each.strata)
    return {"away": "", "near": rows, "count": count, "told": near_misses.messages}


@acts("/api/scores/threshold", SetThreshold, "events.threshold")
def set_threshold(desk: Desk, request: SetThreshold) -> dict[str, Any]:
    """Set the threshold of all that an event's posts are compared with, or take it off."""
    desk.model.wait()
    measure = desk.scores.measure(request.event)
    ids = [each.id for each in measure.compared]
    if not ids:
        raise InputError(f"event {request.event!r}: no seed of it matches; add one or resume it")
    promise = promise_of(measure.event, None)
    with desk.seed_editor.topic() as topic:
        change_seeds(topic, topic.state(), ids, {"threshold": request.threshold}, desk.config)
    if promise:
        notify("the promise is given up: it was of another threshold")
    return {"threshold": request.threshold, "compared": len(ids)}


ENDPOINTS = (scores, near, set_threshold)
