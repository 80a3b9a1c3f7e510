"""Which matches of an event are meant: from when to when, and from which score on."""

from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Self

from encoder.errors import InputError
from worker.config import Config
from worker.files.matches import read_match
from worker.files.out.rows import Finding
from worker.kafka.reading import Offsets, TopicReader
from worker.match.records import Match, MatchRecord
from worker.posts.times import milliseconds, utc

PATIENCE_S = 300.0  # that the topic of matches is read for


@dataclass(frozen=True, slots=True)
class Asked:
    """An event, a span of Kafka's time in milliseconds, and the least score."""

    event: str
    since: int | None = None
    until: int | None = None
    threshold: float | None = None

    @classmethod
    def of(cls, event: str, since: str, until: str, threshold: float | None) -> Self:
        """What somebody asked for in words; an empty time bounds nothing."""
        span = _time("since", since), _time("until", until)
        if None not in span and span[0] >= span[1]:  # type: ignore[operator]
            raise InputError(f"until: {until} is not after since, {since}; give a later time")
        return cls(event, *span, threshold)

    def matches(self, record: MatchRecord) -> list[Match]:
        """Those of a record's matches that are meant."""
        least = -1.0 if self.threshold is None else self.threshold
        return [m for m in record.matches if m.event == self.event and m.score >= least]

    def span(self, cluster: TopicReader, topic: str) -> tuple[Offsets, Offsets]:
        """From where to where a topic holds what came in that time."""
        start = cluster.beginnings(topic) if self.since is None else cluster.at(topic, self.since)
        end = cluster.ends(topic) if self.until is None else cluster.at(topic, self.until)
        return start, end

    def found(self, cluster: TopicReader, config: Config) -> Iterator[list[Finding]]:
        """The records with such matches, batch by batch; refused where that takes too long."""
        topic, until = config.topics.matches, monotonic() + PATIENCE_S
        cluster.partitions(topic)
        for batch in cluster.read(topic, *self.span(cluster, topic), until):
            rows = ((each, read_match(each.value)) for each in batch)
            yield [
                Finding(each.value or b"", record, own) for each, record in rows
                if record is not None and (own := self.matches(record))
            ]  # fmt: skip
        if monotonic() >= until:
            raise InputError(
                f"since: {topic} cannot be read within {PATIENCE_S:g} s; give a later time"
            )


def _time(name: str, given: str) -> int | None:
    if not given:
        return None
    if (told := utc(given)) is None:
        raise InputError(f"{name}: {given[:40]!r} is no time; write 2026-11-22T09:30:00Z")
    return milliseconds(told)
