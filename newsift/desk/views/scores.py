"""An event's scores: the histogram with its threshold, near misses, and a new threshold."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isinf
from typing import Annotated, Any

import msgspec
import numpy as np

from encoder.errors import InputError
from newsift.desk.api import (
    Action,
    EventName,
    EventRequest,
    get_endpoint,
    post_endpoint,
)
from newsift.desk.period import Period
from newsift.desk.post_fields import post_fields
from newsift.desk.scoring import Measure, NearAnswers, ScoredMatches, drawn_labels
from newsift.desk.session import Desk
from newsift.desk.views.events import MAX_LIST_TEXT_CHARS, promise_row, shorten_words
from newsift.operations.cluster_status import StreamRate
from newsift.operations.events import IN_FORCE, lowest_and_highest
from newsift.operations.labels import merge_near_candidates
from newsift.operations.seed_drafts import change_seeds
from newsift.statistics.estimates import (
    LabelledScore,
    bin_counts,
    score_grid,
    score_summaries,
    share_above,
)
from newsift.statistics.labels import Label, Verdict, joint_verdicts
from newsift.statistics.pass_rates import (
    MIN_POSTS_SEEN,
    MatchHistory,
    NearMissSample,
    pass_rates,
)
from worker.match.near import NearAnswer
from worker.posts.compare import compared_text
from worker.posts.outcome import PostId
from worker.posts.times import HOUR_MS, milliseconds, utc

MAX_ROWS = 50
Score = Annotated[float, msgspec.Meta(gt=0, le=1)]


@dataclass(frozen=True, slots=True)
class FigureData:
    measure: Measure
    matches: ScoredMatches
    labels: Sequence[Label]
    labelled_scores: tuple[LabelledScore, ...]
    near: NearAnswers
    stream: StreamRate
    period: Period
    rate: float | None = None  # of the last hour's posts, those that match the profile


def figure_fields(data: FigureData) -> dict[str, Any]:
    """The histogram, what would pass above each edge, and what the labels show."""
    measure, stories = data.measure, data.matches.stories
    event, thresholds = measure.event, sorted(measure.thresholds.tolist())
    near = NearMissSample.from_answers(data.near.answers)
    draws = drawn_labels(data.matches, data.labels)
    edges = score_grid(
        measure.background,
        [story.match.score for story in stories],
        near.scores,
        [post.score for post in data.labelled_scores],
        measure.thresholds,
    )
    since = data.period.rates_since(max(data.matches.since, data.stream.since))
    hours = max(data.period.now() - since, 0) / HOUR_MS
    return {
        "event": event.name,
        "state": event.profile_status,
        "why": event.why,
        "compared": len(measure.seeds),
        "thresholds": lowest_and_highest(thresholds),
        "is_automatic": measure.is_automatic,
        "automatic": lowest_and_highest(measure.automatic),
        "configured": measure.context.config.matching.threshold,
        "promise": promise_row(event, data.rate) if event.profile_status == IN_FORCE else None,
        "background_posts": len(measure.background),
        "matched": sum(story.match.posts for story in stories),
        "hours": hours,
        "window": data.period.describe(since),
        "has_times": bool(data.period.hours),  # else no post of the files has one
        "edges": edges,
        "bins": _bins(edges, data, near, hours),
        "background": [1000 * share for share in share_above(edges, measure.background)],
        "hourly": _hourly_rates(edges, data, near, since),
        "floor": _finite(near.floor),
        "seen": sum(answer.seen for answer in data.near.answers),
        "least_seen": MIN_POSTS_SEEN,
        "labelled_scores": [[post.score, post.verdict] for post in data.labelled_scores],
        "summaries": [asdict(summary) for summary in score_summaries(data.labelled_scores, draws)],
        "lowest_covered": _finite(draws.lowest_covered),
        "messages": [*data.near.messages, *filter(None, [data.stream.why])],
    }


def _bins(
    edges: Sequence[float], data: FigureData, near: NearMissSample, hours: float
) -> dict[str, list[float]]:
    """Near misses are scaled to the time of the matches."""
    posts = data.stream.posts if data.period.is_file else data.stream.hourly * hours
    matches = [story.match for story in data.matches.stories]
    bins = {
        "background": bin_counts(edges, data.measure.background),
        "matches": bin_counts(
            edges, [match.score for match in matches], [match.posts for match in matches]
        ),
        "near": bin_counts(edges, near.scores, near.shares * posts),
    }
    return {name: np.round(counts, 2).tolist() for name, counts in bins.items()}


def _hourly_rates(
    edges: Sequence[float], data: FigureData, near: NearMissSample, since: int
) -> list[float | None]:
    matches = [story.match for story in data.matches.stories]
    top = float(data.measure.thresholds.max(initial=0.0))
    hourly = data.stream.hourly
    if data.stream.why:
        near, hourly = NearMissSample.from_answers([]), 0.0
    return pass_rates(edges, MatchHistory(matches, since, data.period.now(), top), near, hourly)


def _finite(score: float) -> float | None:
    return None if isinf(score) else score


def near_rows(
    measure: Measure, answers: Sequence[NearAnswer], verdict_of: Mapping[PostId, Verdict]
) -> list[dict[str, Any]]:
    """The newest first, with the words that make their scores."""
    posts = merge_near_candidates(answers)
    posts.sort(key=lambda near: (milliseconds(utc(near.post.created_at)), near.score), reverse=True)
    newest = posts[:MAX_ROWS]
    texts = [compared_text(near.post, measure.context.compare) for near in newest]
    words = measure.why(texts) if len(measure.rows) else [[] for _ in newest]
    return [
        post_fields(near.post, MAX_LIST_TEXT_CHARS)
        | {"score": near.score, "why": shorten_words(why), "label": verdict_of.get(near.post_id)}
        for near, why in zip(newest, words, strict=True)
    ]


class ThresholdAction(Action, frozen=True, kw_only=True):
    event: EventName
    threshold: Score | None  # None: automatic


@get_endpoint("/api/scores", EventRequest)
def scores(desk: Desk, request: EventRequest) -> dict[str, Any]:
    if desk.model.context is None:
        return {"error": desk.model.error}
    measure = desk.scores.measure(request.event)
    labels, matches = desk.mirrors.labels.event_labels(request.event), desk.scores.matches(measure)
    data = FigureData(
        measure, matches, labels, desk.scores.labelled_scores(measure, matches, labels),
        desk.stream.near_misses(request.event), desk.stream.stream_rate(), desk.period,
        desk.pass_rate(measure.event.profile),
    )  # fmt: skip
    return {"error": "", **figure_fields(data)}


@get_endpoint("/api/scores/near", EventRequest)
def near(desk: Desk, request: EventRequest) -> dict[str, Any]:
    if desk.model.context is None:
        return {"error": desk.model.error}
    measure, near = desk.scores.measure(request.event), desk.stream.near_misses(request.event)
    verdict_of = joint_verdicts(desk.mirrors.labels.event_labels(request.event))
    rows = near_rows(measure, near.answers, verdict_of)
    return {
        "error": "",
        "near": [r for r in rows if not desk.matches.is_deleted((r["platform"], r["id"]))],
        "count": sum(stratum.count for answer in near.answers for stratum in answer.strata),
        "messages": near.messages,
    }


@post_endpoint("/api/scores/threshold", ThresholdAction, "events.threshold")
def set_threshold(desk: Desk, request: ThresholdAction) -> dict[str, Any]:
    """Sets the threshold of the event's profile and seeds; None makes it automatic."""
    desk.model.wait()
    measure = desk.scores.measure(request.event)
    ids = [seed.id for seed in measure.seeds]
    if not ids:
        raise InputError(f"event {request.event!r}: no seed of it matches; add one or resume it")
    with desk.editor.topic() as topic:
        change_seeds(topic, topic.state(), ids, {"threshold": request.threshold}, desk.config)
    return {"threshold": request.threshold, "compared": len(ids)}
