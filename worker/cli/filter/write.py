"""What `newsift filter` writes: matches as JSON lines or CSV, dead letters, and what it counted."""

import sys
import time
from collections import Counter
from collections.abc import Sequence

import click
import msgspec

from encoder.errors import InputError
from worker.cli.common import CLEAR, say
from worker.cli.filter.read import Line
from worker.cli.view.cells import csv_row
from worker.match.pipeline import Outcome
from worker.match.records import MatchRecord

COLUMNS = (
    "match_id", "score", "threshold", "event", "seed_id", "seed_version", "title", "platform",
    "post_id", "author", "created_at", "lang", "url", "text", "why", "source", "line", "matched",
    "seed_set", "model", "processed_at",
)  # fmt: skip
MOST_TOLD = 100  # dead letters; the rest is counted
MOST_EVENTS = 10
DECODER = msgspec.json.Decoder(MatchRecord)


def as_csv(value: bytes, terminal: bool) -> bytes:
    """A match record as rows of CSV, one for each match that it names."""
    record = DECODER.decode(value)
    post, source = record.post, record.source
    table = []
    for match in record.matches:
        why = " ".join(f"{word}[{part:.2f}]" for word, part in match.why)
        cells = (
            match.match_id, match.score, match.threshold, match.event, match.seed_id,
            match.seed_version, match.title, post.platform, post.id, post.author, post.created_at,
            post.lang, post.url, post.text, why, source.topic, source.offset + 1, record.matched,
            record.seed_set, record.model, record.processed_at,
        )  # fmt: skip
        table.append(csv_row(cells, terminal))
    return "".join(table).encode()


class Report:
    """What is told on standard error: dead letters, progress on a terminal, and the sum."""

    def __init__(self) -> None:
        self.read = self.matched = 0
        self.rejected: Counter[str] = Counter()
        self._passed_over: Counter[str] = Counter()
        self._events: Counter[str] = Counter()
        self._live = sys.stderr.isatty()
        self._start = time.monotonic()

    def add(self, lines: Sequence[Line], outcome: Outcome) -> None:
        """Count a batch, and tell of its dead letters and how far we are."""
        for record in outcome.records:
            if record.kind == "rejected":
                headers = {name: value.decode() for name, value in record.headers}
                self._refuse(lines[record.source], headers["reason"], headers["detail"])
        self.read += outcome.read
        self.matched += outcome.matched
        self._passed_over.update(outcome.passed_over)
        self._events.update(outcome.events)
        if self._live:
            told = f"{self.read:,} posts, {self.matched:,} matched, {self._rate():,.0f}/s"
            click.echo(f"{CLEAR}{told}", nl=False, err=True)

    def _refuse(self, line: Line, reason: str, detail: str) -> None:
        self.rejected[reason] += 1
        count = self.rejected.total()
        told = f"{line.topic} line {line.offset + 1}: {reason} ({detail})"
        if count > MOST_TOLD:
            told = "more lines are rejected; from here on they are only counted"
        if count <= MOST_TOLD + 1:
            say(f"rejected: {told}", self._live)

    def conclude(self, seeds: int) -> None:
        """Tell the sum."""
        if self.rejected.total() == self.read > 0:
            raise InputError("no line could be read as a post; name what they are with --form")
        say(
            f"{self.read:,} posts read, {self.matched:,} matched"
            f"{_listed('passed over', self._passed_over)}{_listed('rejected', self.rejected)}; "
            f"{seeds:,} {'seed' if seeds == 1 else 'seeds'}, {self._rate():,.0f} posts/s",
            self._live,
        )
        for event, count in self._events.most_common(MOST_EVENTS):
            say(f"{count:>7,}  {event}")

    def _rate(self) -> float:
        return self.read / max(time.monotonic() - self._start, 1e-9)


def _listed(name: str, counts: Counter[str]) -> str:
    parts = ", ".join(f"{count:,} {key}" for key, count in sorted(counts.items()))
    return f", {counts.total():,} {name} ({parts})" if counts else ""
