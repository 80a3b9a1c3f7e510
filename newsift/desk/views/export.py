"""Export: the matches of an event with what people have said of its posts."""

from newsift.desk.api import Download, EventRequest, get_endpoint
from newsift.desk.export import Judgements, ProjectFiles
from newsift.desk.session import Desk
from worker.kafka.reading import connected
from worker.text import one_line, shorten

MAX_EVENT_CHARS = 60


class ExportRequest(EventRequest, frozen=True, kw_only=True):
    by: str


@get_endpoint("/api/export", ExportRequest)
def matches(desk: Desk, request: ExportRequest) -> Download:
    with connected(desk.config) as cluster:
        desk.mirrors.catch_up(cluster)
    labels = desk.mirrors.labels
    note = labels.note(request.event)
    judged = Judgements(request.by, labels.event_labels(request.event), note.note if note else "")
    desk.require_settled()
    files = None
    if desk.files:
        begin = desk.files.period.matched_file(desk.config.topics.matches).begin
        files = ProjectFiles(desk.files.reopened(), begin)
    content = desk.exports.matches_file(request.event, judged, files)
    return Download(file_name(request.event, "matches"), "text/csv; charset=utf-8", content)


def file_name(event: str, what: str) -> str:
    return f"newsift-{shorten(one_line(event), MAX_EVENT_CHARS)}-{what}.csv"
