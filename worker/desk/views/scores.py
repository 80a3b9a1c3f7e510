"""An event's scores: the figure with its threshold, what lies just below, and setting another."""

import time
from typing import Annotated, Any

import msgspec

from encoder.errors import InputError
from worker.actions.seeds.change import changed_together
from worker.actions.told import say
from worker.desk.desk import Desk
from worker.desk.scoring.figure import Scene, figure, promise_of
from worker.desk.scoring.matched import matched
from worker.desk.scoring.measure import measure_at
from worker.desk.scoring.missed import missed_rows
from worker.desk.server.api import Act, EventName, OfEvent, acts, reads
from worker.judge.glance import said_together

Score = Annotated[float, msgspec.Meta(gt=0, le=1)]


class SetThreshold(Act, frozen=True, kw_only=True):
    """The score from which an event's posts match; None for the automatic one."""

    event: EventName
    threshold: Score | None


@reads("/api/scores", OfEvent)
def scores(desk: Desk, asked: OfEvent) -> dict[str, Any]:
    """The figure of an event's scores; while the model is not there, why not."""
    if desk.model.now() is None:
        return {"away": desk.model.away}
    measure = measure_at(desk.model, asked.event)
    near, stream = desk.outside.near(asked.event), desk.outside.stream()
    labels = desk.known.labels.of(asked.event)
    rate, now = desk.pass_rate(measure.event.profile), int(time.time() * 1000)
    scene = Scene(measure, matched(desk.board, measure), labels, near, stream, now, rate)
    return {"away": "", **figure(scene)}


@reads("/api/scores/near", OfEvent)
def near(desk: Desk, asked: OfEvent) -> dict[str, Any]:
    """The newest near misses that the workers keep, with the words that make their scores."""
    if desk.model.now() is None:
        return {"away": desk.model.away}
    measure, found = measure_at(desk.model, asked.event), desk.outside.near(asked.event)
    said = said_together(desk.known.labels.of(asked.event))
    rows = missed_rows(measure, found.answers, said)
    counted = sum(stratum.count for each in found.answers for stratum in each.strata)
    return {"away": "", "near": rows, "count": counted, "told": found.told}


@acts("/api/scores/threshold", SetThreshold, "events.threshold")
def set_threshold(desk: Desk, asked: SetThreshold) -> dict[str, Any]:
    """Set the threshold of all that an event's posts are compared with, or take it off."""
    desk.model.wait()
    measure = measure_at(desk.model, asked.event)
    ids = [each.id for each in measure.compared]
    if not ids:
        raise InputError(f"event {asked.event!r}: no seed of it matches; add one or resume it")
    given_up = promise_of(measure.event, None)
    with desk.keeping.topic() as topic:
        changed_together(topic, ids, {"threshold": asked.threshold}, desk.config)
    if given_up:
        say("the promise is given up: it was of another threshold")
    return {"threshold": asked.threshold, "compared": len(ids)}


ENDPOINTS = (scores, near, set_threshold)
