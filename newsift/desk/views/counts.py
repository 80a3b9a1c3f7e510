"""An event's posts by day or hour, as the labels of a draw correct them."""

from functools import partial
from typing import Any, Literal

from newsift.desk.api import By, Download, EventRequest, get_endpoint
from newsift.desk.session import Desk
from newsift.desk.views.export import file_name
from newsift.operations.count_tables import STEPS, describe, frame_row, period_row

StepName = Literal["day", "hour"]


class CountRequest(EventRequest, frozen=True, kw_only=True):
    step: StepName | None = None  # None: as the time of the posts suggests


class FrameRequest(EventRequest, frozen=True, kw_only=True):
    by: By
    step: StepName = "day"


@get_endpoint("/api/counts", CountRequest)
def counts(desk: Desk, request: CountRequest) -> dict[str, Any]:
    """Without a total where nobody has labelled posts for a count."""
    if not desk.is_settled or (counted := desk.counts.count(request.event)) is None:
        return {"total": None, "loading": not desk.is_settled}
    count, messages = counted
    name = request.step or count.suggested_step
    series = count.series(STEPS[name])
    notes, warnings = describe(count.frame, series)
    periods = (*series.periods, series.total)
    *rows, total = [period_row(request.event, each, series, STEPS[name]) for each in periods]
    return frame_row(count.frame, series) | {
        "step": name, "periods": rows, "total": total, "notes": [*notes, *messages],
        "warnings": warnings, "has_times": any(period.start for period in series.periods),
    }  # fmt: skip


@get_endpoint("/api/counts/frame", FrameRequest)
def frame(desk: Desk, request: FrameRequest) -> Download:
    """The file of `newsift estimate --csv --all`."""
    desk.require_settled()
    write = partial(desk.counts.write_frame, request.event, STEPS[request.step])
    content = desk.exports.file(request.by, write)
    return Download(file_name(request.event, "posts"), "text/csv; charset=utf-8", content)
