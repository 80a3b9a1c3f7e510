"""The figure of an event's scores: all that a page draws, and says of any threshold on it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isinf
from typing import Any

import numpy as np

from worker.actions.events.event import IN_FORCE, KnownEvent
from worker.actions.events.promising import lapsed
from worker.desk.scoring.matched import Matched, drawn, marked
from worker.desk.scoring.measure import Measure
from worker.desk.scoring.outside import Near, Stream
from worker.judge.glance import Draws, Mark, counted, glances, score_grid, share_above
from worker.judge.labels import Label
from worker.judge.passing import HOUR, NearBy, passing, window_words

TOLD_IDS = 20  # of seeds that a threshold would be set of


@dataclass(frozen=True, slots=True)
class Scene:
    """What a figure is drawn of."""

    measure: Measure
    found: Matched
    labels: Sequence[Label]
    near: Near
    stream: Stream
    now: int
    rate: float | None = None  # of the last hour's posts, those that match the profile


def figure(scene: Scene) -> dict[str, Any]:
    """The histogram, what would pass above each of its edges, and what labels say."""
    measure, found = scene.measure, scene.found
    near = NearBy.of(scene.near.answers)
    draws, marks = drawn(found, scene.labels), marked(found, scene.labels, measure)
    scores = [own.passed.score for own in found.own]
    judged = [mark.score for mark in marks]
    edges = score_grid(measure.background, scores, near.scores, judged, measure.cuts)
    return {
        **_standing(scene),
        "edges": edges,
        "bins": _bins(edges, scene, near),
        "everyday": [1000 * share for share in share_above(edges, measure.background)],
        "hourly": _hourly(edges, scene, near),
        "floor": _finite(near.floor),
        **_said(marks, draws),
        "told": [*scene.near.told, *filter(None, [scene.stream.why])],
    }


def promise_of(event: KnownEvent, rate: float | None) -> dict[str, Any] | None:
    """What an event's threshold promises, as far as that can be read, and whether it holds."""
    profile = event.profile
    if event.state != IN_FORCE or profile is None or profile.promise is None:
        return None
    said = {name: profile.promise.get(name) for name in ("precision", "confidence")}
    if not all(isinstance(each, float) for each in said.values()):
        return None
    return {**said, "threshold": profile.threshold, "lapsed": lapsed(event, rate)}


def _standing(scene: Scene) -> dict[str, Any]:
    """What the event is compared with, and where its thresholds are."""
    measure = scene.measure
    event, cuts = measure.event, sorted(measure.cuts.tolist())
    return {
        "event": event.name,
        "state": event.state,
        "why": event.why,
        "compared": [each.id for each in measure.compared[:TOLD_IDS]],
        "number": len(measure.compared),
        "thresholds": [cuts[0], cuts[-1]] if cuts else [],
        "is_automatic": measure.is_automatic,
        "automatic": [*measure.automatic[:1], *measure.automatic[-1:]],
        "configured": measure.teacher.config.matching.threshold,
        "promise": promise_of(event, scene.rate),
        "everyday_posts": len(measure.background),
        "matched": sum(own.passed.posts for own in scene.found.own),
        "hours": max(scene.now - _since(scene), 0) / HOUR,
        "window": window_words(_since(scene), scene.now),
    }


def _since(scene: Scene) -> int:
    """Since when matches are counted: not before the first post."""
    return max(scene.found.since, scene.stream.since)


def _bins(edges: Sequence[float], scene: Scene, near: NearBy) -> dict[str, list[float]]:
    """How many lie between the edges; near misses as many as came while the matches did."""
    found = scene.found.own
    hours = max(scene.now - _since(scene), 0) / HOUR
    per_share = scene.stream.hourly * hours
    posts = [own.passed.posts for own in found]
    bins = {
        "everyday": counted(edges, scene.measure.background),
        "matches": counted(edges, [own.passed.score for own in found], posts),
        "near": counted(edges, near.scores, near.shares * per_share),
    }
    return {name: np.round(each, 2).tolist() for name, each in bins.items()}


def _hourly(edges: Sequence[float], scene: Scene, near: NearBy) -> list[float | None]:
    matches = [own.passed for own in scene.found.own]
    top = float(scene.measure.cuts.max(initial=0.0))
    hourly = scene.stream.hourly
    if scene.stream.why:
        near, hourly = NearBy.of([]), 0.0
    return passing(edges, matches, _since(scene), scene.now, top, near, hourly)


def _said(marks: tuple[Mark, ...], draws: Draws) -> dict[str, Any]:
    """The labels, and what they say from each of their scores on."""
    return {
        "marks": [[mark.score, mark.said] for mark in marks],
        "glances": [asdict(each) for each in glances(marks, draws)],
        "reach": _finite(draws.reach),
    }


def _finite(score: float) -> float | None:
    return None if isinf(score) else score
