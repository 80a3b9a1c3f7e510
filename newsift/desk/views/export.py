"""Export: matches, labels and figures of an event, as files."""

import io
from typing import Any, Literal

from encoder.errors import InputError
from newsift.desk.api import Attachment, OfEvent, reads
from newsift.desk.export import KINDS, Selection, labels_csv
from newsift.desk.figures import Histogram, histogram, hours_figure, line, scores_figure
from newsift.desk.session import Desk
from newsift.statistics.labels import Label
from worker.kafka.reading import connected
from worker.posts.times import rfc3339

SVG = "image/svg+xml"
EVENT_CHARS = 60  # of a file's name


class ExportRequest(OfEvent, frozen=True, kw_only=True):
    since: str = ""
    until: str = ""
    threshold: float | None = None
    by: str = ""

    @property
    def selection(self) -> Selection:
        return Selection.of(self.event, self.since, self.until, self.threshold)


class MatchesFile(ExportRequest, frozen=True, kw_only=True):
    form: Literal["csv", "jsonl", "db", "parquet"] = "csv"


class Figure(ExportRequest, frozen=True, kw_only=True):
    which: Literal["hours", "scores"] = "hours"


@reads("/api/export/matches", MatchesFile)
def matches(desk: Desk, request: MatchesFile) -> Attachment:
    selection, labels = request.selection, _labels(desk, request.event)
    content = desk.exports.matches_file(request.by, selection, request.form, labels)
    return Attachment(_name(request, "matches", request.form), KINDS[request.form], content)


@reads("/api/export/labels", ExportRequest)
def labels(desk: Desk, request: ExportRequest) -> Attachment:
    """All labels of the event, whatever times and score are asked for."""
    content = io.BytesIO(labels_csv(_labels(desk, request.event)))
    return Attachment(_name(request, "labels", "csv"), KINDS["csv"], content)


@reads("/api/export/figure", Figure)
def figure(desk: Desk, request: Figure) -> Attachment:
    counts = desk.exports.counts(request.selection)
    if request.which == "hours":
        svg = hours_figure(request.event, counts.hours, counts.minutes)
    else:
        scores, background = histogram(counts.scores), _background(desk, request.event)
        svg = scores_figure(request.event, scores, background, sorted(counts.thresholds))
    return Attachment(_name(request, request.which, "svg"), SVG, io.BytesIO(svg.encode()))


@reads("/api/export/summary", ExportRequest)
def summary(desk: Desk, request: ExportRequest) -> dict[str, Any]:
    counts = desk.exports.counts(request.selection)
    return {
        "posts": counts.posts,
        "records": counts.records,
        "first": rfc3339(counts.first) if counts.posts else None,
        "last": rfc3339(counts.last) if counts.posts else None,
        "labels": len(_labels(desk, request.event)),
        "model": desk.model.away,
    }


def _labels(desk: Desk, event: str) -> tuple[Label, ...]:
    with connected(desk.config) as cluster:
        desk.mirrors.catch_up(cluster)
    return desk.mirrors.labels.of(event)


def _background(desk: Desk, event: str) -> Histogram | None:
    """The scores of everyday posts with the event; None without a model or such an event."""
    try:
        measure = desk.scores.measure(event)
    except InputError:
        return None
    return histogram(measure.background.tolist()) if measure.compared else None


def _name(request: ExportRequest, what: str, form: str) -> str:
    return f"newsift-{line(request.event, EVENT_CHARS)}-{what}.{form}"
