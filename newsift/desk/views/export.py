"""Export: matches, labels, figures and the methods of an event, as files to take away."""

import io
from typing import IO, Any, Literal

from encoder.errors import InputError
from newsift.desk.api import Attachment, OfEvent, reads
from newsift.desk.export import KINDS, Selection, labels_csv, matches_file, span_of
from newsift.desk.figures import Histogram, histogram, hours_figure, scores_figure
from newsift.desk.methods import Facts, facts_of, markdown, methods, named
from newsift.desk.session import Desk
from worker.kafka.reading import connected
from worker.kafka.topics import administering
from worker.seeds.set import SeedSet

SVG, TEXT, MARKDOWN = "image/svg+xml", "text/plain; charset=utf-8", "text/markdown; charset=utf-8"
CSV = KINDS["csv"]


class ExportRequest(OfEvent, frozen=True, kw_only=True):
    """The matches of an event, as far as they are meant."""

    since: str = ""
    until: str = ""
    threshold: float | None = None
    by: str = ""

    @property
    def selection(self) -> Selection:
        """The same, understood."""
        return Selection.of(self.event, self.since, self.until, self.threshold)


class MatchesFile(ExportRequest, frozen=True, kw_only=True):
    """A file of matches."""

    form: Literal["csv", "jsonl", "db", "parquet"] = "csv"


class Figure(ExportRequest, frozen=True, kw_only=True):
    """A picture of matches."""

    which: Literal["hours", "scores"] = "hours"


class MethodsFile(ExportRequest, frozen=True, kw_only=True):
    """The methods as a file."""

    form: Literal["txt", "md"] = "txt"


@reads("/api/export/matches", MatchesFile)
def matches(desk: Desk, request: MatchesFile) -> Attachment:
    """The matches as a file, what people said of them beside."""
    selection, config = request.selection, desk.config

    def make() -> IO[bytes]:
        with connected(config) as cluster:
            desk.mirrors.catch_up(cluster)
            labels = desk.mirrors.labels.of(selection.event)
            return matches_file(cluster, config, selection, request.form, labels)

    content = desk.exports.file(request.by, make)
    return Attachment(_name(request, "matches", request.form), KINDS[request.form], content)


@reads("/api/export/labels", ExportRequest)
def labels(desk: Desk, request: ExportRequest) -> Attachment:
    """All labels of the event, as CSV."""
    with connected(desk.config) as cluster:
        desk.mirrors.catch_up(cluster)
    labels_of_event = desk.mirrors.labels.of(request.event)
    return Attachment(_name(request, "labels", "csv"), CSV, io.BytesIO(labels_csv(labels_of_event)))


@reads("/api/export/figure", Figure)
def figure(desk: Desk, request: Figure) -> Attachment:
    """A picture as SVG that stands alone."""
    with connected(desk.config) as cluster:
        tally = desk.exports.tally(cluster, desk.config, request.selection)
        if request.which == "hours":
            drawn = hours_figure(request.event, tally.hours, tally.minutes)
        else:
            scores, everyday = histogram(tally.scores), _everyday(desk, request.event)
            drawn = scores_figure(request.event, scores, everyday, sorted(tally.thresholds))
    return Attachment(_name(request, request.which, "svg"), SVG, io.BytesIO(drawn.encode()))


@reads("/api/export/summary", ExportRequest)
def summary(desk: Desk, request: ExportRequest) -> dict[str, Any]:
    """How much there is to export, and the methods of it."""
    facts = _facts(desk, request.selection)
    tally, span = facts.tally, span_of(facts.tally)
    return {
        "posts": tally.posts, "matches": tally.matches, "stories": tally.stories,
        "first": span[0] if span else None, "last": span[1] if span else None,
        "labels": len(facts.labels), "messages": facts.messages, "methods": methods(facts),
        "background": facts.seed_set is not None, "model": desk.model.away,
    }  # fmt: skip


@reads("/api/export/methods", MethodsFile)
def methods_file(desk: Desk, request: MethodsFile) -> Attachment:
    """The methods as a file."""
    facts = _facts(desk, request.selection)
    text = markdown(facts) if request.form == "md" else methods(facts)
    kind = MARKDOWN if request.form == "md" else TEXT
    content = io.BytesIO(text.encode("utf-8", "replace"))
    return Attachment(_name(request, "methods", request.form), kind, content)


def _facts(desk: Desk, selection: Selection) -> Facts:
    config = desk.config
    with connected(config) as cluster, administering(config) as admin:
        tally = desk.exports.tally(cluster, config, selection)
        desk.mirrors.catch_up(cluster)
        state, labels_of_event = desk.mirrors.control, desk.mirrors.labels.of(selection.event)
        seeds = _seed_set(desk)
        digest = seeds.digest if seeds else None
        return facts_of(cluster, admin, config, selection, tally, state, labels_of_event, digest)


def _seed_set(desk: Desk) -> SeedSet | None:
    """What posts are compared with now, if the model is there to say."""
    try:
        return desk.model.view().seeds
    except InputError:
        return None


def _everyday(desk: Desk, event: str) -> Histogram | None:
    """The scores of everyday posts with the event now; None where nobody knows."""
    try:
        measure = desk.scores.measure(event)
    except InputError:
        return None
    return histogram(measure.background.tolist()) if measure.compared else None


def _name(request: ExportRequest, what: str, form: str) -> str:
    return f"newsift-{named(request.event, 60)}-{what}.{form}"


ENDPOINTS = (matches, labels, figure, summary, methods_file)
