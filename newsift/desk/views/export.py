"""Export: matches, labels and figures of an event, as files."""

import io
from typing import Any, Literal

from encoder.errors import InputError
from newsift.desk.api import Attachment, EventRequest, get_endpoint
from newsift.desk.export import MEDIA_TYPES, Selection, labels_csv
from newsift.desk.figures import (
    Histogram,
    hours_figure,
    printable_line,
    score_histogram,
    scores_figure,
)
from newsift.desk.session import Desk
from newsift.statistics.labels import Label
from worker.kafka.reading import connected
from worker.posts.times import rfc3339

SVG = "image/svg+xml"
MAX_EVENT_CHARS = 60


class ExportRequest(EventRequest, frozen=True, kw_only=True):
    since: str = ""
    until: str = ""
    threshold: float | None = None
    by: str = ""

    @property
    def selection(self) -> Selection:
        return Selection.parse(self.event, self.since, self.until, self.threshold)


class MatchesFile(ExportRequest, frozen=True, kw_only=True):
    form: Literal["csv", "jsonl", "db", "parquet"] = "csv"


class Figure(ExportRequest, frozen=True, kw_only=True):
    which: Literal["hours", "scores"] = "hours"


@get_endpoint("/api/export/matches", MatchesFile)
def matches(desk: Desk, request: MatchesFile) -> Attachment:
    selection, labels = request.selection, _labels(desk, request.event)
    content = desk.exports.matches_file(request.by, selection, request.form, labels)
    return Attachment(
        _file_name(request, "matches", request.form), MEDIA_TYPES[request.form], content
    )


@get_endpoint("/api/export/labels", ExportRequest)
def labels(desk: Desk, request: ExportRequest) -> Attachment:
    """All labels of the event, whatever the filters."""
    content = io.BytesIO(labels_csv(_labels(desk, request.event)))
    return Attachment(_file_name(request, "labels", "csv"), MEDIA_TYPES["csv"], content)


@get_endpoint("/api/export/figure", Figure)
def figure(desk: Desk, request: Figure) -> Attachment:
    counts = desk.exports.counts(request.selection)
    if request.which == "hours":
        svg = hours_figure(request.event, counts.hours, counts.minutes)
    else:
        scores, background = score_histogram(counts.scores), _background(desk, request.event)
        svg = scores_figure(request.event, scores, background, sorted(counts.thresholds))
    return Attachment(_file_name(request, request.which, "svg"), SVG, io.BytesIO(svg.encode()))


@get_endpoint("/api/export/summary", ExportRequest)
def summary(desk: Desk, request: ExportRequest) -> dict[str, Any]:
    counts = desk.exports.counts(request.selection)
    return {
        "posts": counts.posts,
        "records": counts.records,
        "first": rfc3339(counts.first) if counts.posts else None,
        "last": rfc3339(counts.last) if counts.posts else None,
        "labels": len(_labels(desk, request.event)),
        "model": desk.model.error,
    }


def _labels(desk: Desk, event: str) -> tuple[Label, ...]:
    with connected(desk.config) as cluster:
        desk.mirrors.catch_up(cluster)
    return desk.mirrors.labels.event_labels(event)


def _background(desk: Desk, event: str) -> Histogram | None:
    """None without a model, or without such an event."""
    try:
        measure = desk.scores.measure(event)
    except InputError:
        return None
    return score_histogram(measure.background.tolist()) if measure.seeds else None


def _file_name(request: ExportRequest, what: str, form: str) -> str:
    return f"newsift-{printable_line(request.event, MAX_EVENT_CHARS)}-{what}.{form}"
