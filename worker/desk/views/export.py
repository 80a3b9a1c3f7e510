"""Export: matches, labels, figures and the methods of an event, as files to take away."""

import io
from typing import IO, Any, Literal

from encoder.errors import InputError
from worker.actions.events.event import Values, values_of
from worker.actions.events.labelled import labels_of
from worker.actions.seeds.topic import SeedTopic
from worker.config import Config
from worker.desk.desk import Desk
from worker.desk.export.asked import Asked
from worker.desk.export.facts import Facts, facts_of
from worker.desk.export.files import KINDS, labels_csv, matches_file
from worker.desk.export.methods import markdown, methods, named
from worker.desk.export.tally import span_of
from worker.desk.figures.hours import hours_figure
from worker.desk.figures.scores import Histogram, histogram, scores_figure
from worker.desk.scoring.measure import measure_at
from worker.desk.server.api import OfEvent, reads
from worker.desk.server.attachment import Attachment
from worker.kafka.reading import TopicReader, connected
from worker.kafka.topics import administering
from worker.seeds.set import SeedSet

SVG, TEXT, MARKDOWN = "image/svg+xml", "text/plain; charset=utf-8", "text/markdown; charset=utf-8"
CSV = KINDS["csv"]


class Meant(OfEvent, frozen=True, kw_only=True):
    """The matches of an event, as far as they are meant."""

    since: str = ""
    until: str = ""
    threshold: float | None = None
    by: str = ""

    @property
    def asked(self) -> Asked:
        """The same, understood."""
        return Asked.of(self.event, self.since, self.until, self.threshold)


class MatchesFile(Meant, frozen=True, kw_only=True):
    """A file of matches."""

    form: Literal["csv", "jsonl", "db", "parquet"] = "csv"


class Figure(Meant, frozen=True, kw_only=True):
    """A picture of matches."""

    which: Literal["hours", "scores"] = "hours"


class MethodsFile(Meant, frozen=True, kw_only=True):
    """The methods as a file."""

    form: Literal["txt", "md"] = "txt"


@reads("/api/export/matches", MatchesFile)
def matches(desk: Desk, asked: MatchesFile) -> Attachment:
    """The matches as a file, what people said of them beside."""
    wanted, config = asked.asked, desk.config

    def make() -> IO[bytes]:
        with connected(config) as cluster:
            labels = labels_of(cluster, config, wanted.event)
            return matches_file(cluster, config, wanted, asked.form, labels)

    content = desk.exports.file(asked.by, make)
    return Attachment(_name(asked, "matches", asked.form), KINDS[asked.form], content)


@reads("/api/export/labels", Meant)
def labels(desk: Desk, asked: Meant) -> Attachment:
    """All labels of the event, as CSV."""
    with connected(desk.config) as cluster:
        found = labels_of(cluster, desk.config, asked.event)
    return Attachment(_name(asked, "labels", "csv"), CSV, io.BytesIO(labels_csv(found)))


@reads("/api/export/figure", Figure)
def figure(desk: Desk, asked: Figure) -> Attachment:
    """A picture as SVG that stands alone."""
    with connected(desk.config) as cluster:
        tally = desk.exports.tally(cluster, desk.config, asked.asked)
        if asked.which == "hours":
            drawn = hours_figure(asked.event, tally.hours, tally.minutes)
        else:
            found, everyday = histogram(tally.scores), _everyday(desk, asked.event)
            drawn = scores_figure(asked.event, found, everyday, sorted(tally.thresholds))
    return Attachment(_name(asked, asked.which, "svg"), SVG, io.BytesIO(drawn.encode()))


@reads("/api/export/summary", Meant)
def summary(desk: Desk, asked: Meant) -> dict[str, Any]:
    """How much there is to export, and the methods of it."""
    facts = _facts(desk, asked.asked)
    tally, span = facts.tally, span_of(facts.tally)
    return {
        "posts": tally.posts, "matches": tally.matches, "stories": tally.stories,
        "first": span[0] if span else None, "last": span[1] if span else None,
        "labels": len(facts.labels), "messages": facts.messages, "methods": methods(facts),
        "background": facts.seed_set is not None, "model": desk.model.away,
    }  # fmt: skip


@reads("/api/export/methods", MethodsFile)
def methods_file(desk: Desk, asked: MethodsFile) -> Attachment:
    """The methods as a file."""
    facts = _facts(desk, asked.asked)
    told = markdown(facts) if asked.form == "md" else methods(facts)
    kind = MARKDOWN if asked.form == "md" else TEXT
    content = io.BytesIO(told.encode("utf-8", "replace"))
    return Attachment(_name(asked, "methods", asked.form), kind, content)


def _facts(desk: Desk, asked: Asked) -> Facts:
    config = desk.config
    with connected(config) as cluster, administering(config) as admin:
        tally = desk.exports.tally(cluster, config, asked)
        values = _values(cluster, config)
        seeds = _seed_set(desk)
        said = labels_of(cluster, config, asked.event)
        digest = seeds.digest if seeds else None
        return facts_of(cluster, admin, config, asked, tally, values, said, digest)


def _values(cluster: TopicReader, config: Config) -> Values:
    cluster.partitions(config.topics.seeds)
    return values_of(SeedTopic(cluster, config).latest())


def _seed_set(desk: Desk) -> SeedSet | None:
    """What posts are compared with now, if the model is there to say."""
    try:
        return desk.model.standing().seeds
    except InputError:
        return None


def _everyday(desk: Desk, event: str) -> Histogram | None:
    """The scores of everyday posts with the event now; None where nobody knows."""
    try:
        measure = measure_at(desk.model, event)
    except InputError:
        return None
    return histogram(measure.background.tolist()) if measure.compared else None


def _name(asked: Meant, what: str, form: str) -> str:
    return f"newsift-{named(asked.event, 60)}-{what}.{form}"


ENDPOINTS = (matches, labels, figure, summary, methods_file)
