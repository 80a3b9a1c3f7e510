"""`newsift backfill`: the posts of the past, filtered again for one seed."""

import sys
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from encoder.errors import InputError
from worker.cli.common import CLEAR, kafka_options, say
from worker.cli.seeds.topic import Latest, SeedTopic, known
from worker.cli.view.table import counted, flush
from worker.cli.view.times import since as moment
from worker.config import Config
from worker.kafka.reading import connected
from worker.kafka.sending import Outbox, sending

if TYPE_CHECKING:
    from worker.cli.view.match import View
    from worker.match.pipeline import Outcome, Pipeline
    from worker.seeds.set import SeedSet

ORIGIN = ("origin", b"backfill")


@dataclass(slots=True)
class Sum:
    """What a backfill read and found."""

    read: int = 0
    matched: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    passed_over: int = 0

    def add(self, outcome: "Outcome") -> None:
        """Count a batch, and show it on a terminal that shows nothing else."""
        self.read += outcome.read
        self.matched += outcome.matched
        self.rejected.update(reason.value for reason in outcome.rejected.elements())
        self.passed_over += outcome.passed_over.total()
        if sys.stderr.isatty() and not sys.stdout.isatty():
            told = f"{self.read:,} posts, {self.matched:,} matched"
            click.echo(f"{CLEAR}{told}", nl=False, err=True)

    def __str__(self) -> str:
        odd = f", no posts: {counted(self.rejected)}" if self.rejected else ""
        over = f", {self.passed_over:,} passed over" if self.passed_over else ""
        return f"{self.read:,} posts read, {self.matched:,} matched{over}{odd}"


@click.command()
@click.argument("seed", metavar="SEED")
@click.option("--since", required=True, metavar="TIME", help="Posts from then on: 2h, or RFC 3339.")
@click.option("--publish", is_flag=True, help="Publish the matches too, marked as backfill.")
@click.option("--json", "as_json", is_flag=True, help="Print the records as they are.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one row a match.")
@kafka_options
def backfill(
    seed: str, since: str, publish: bool, as_json: bool, as_csv: bool, config: Config
) -> None:
    """Filter the posts that are still in the topic by the seed SEED, and print those that match.

    It ends with the last post that was there when it began. The workers and their offsets are
    not touched.
    """
    from worker.cli.view.match import view, written

    start = moment(since)
    printer, total = view(as_json, as_csv, written), Sum()
    topic = config.topics.posts
    with connected(config) as cluster, sending(config) if publish else nullcontext() as outbox:
        latest = SeedTopic(cluster, config).latest()
        known(latest, seed)
        span = cluster.at(topic, start), cluster.ends(topic)
        if publish:
            cluster.partitions(config.topics.matches)
        pipeline, seeds = prepared(seed, latest, config)
        for batch in cluster.read(topic, *span):
            outcome = pipeline.run(batch, seeds, _now)
            total.add(outcome)
            _emit(outcome, printer, outbox, config.topics.matches)
        if outbox:
            outbox.settle()
    sent = f"; published to {config.topics.matches}" if publish else ""
    say(f"{total}{sent}", sys.stderr.isatty())


def prepared(name: str, latest: Latest, config: Config) -> "tuple[Pipeline, SeedSet]":
    """The worker's own pipeline, and a set of this one seed as it is now."""
    import encoder
    from worker.match.assembly import assembled
    from worker.seeds.set import SeedBook

    key = known(latest, name)
    chosen = config.model
    enc = encoder.load(chosen.name, device=chosen.device, threads=chosen.threads)
    book = SeedBook(config.limits)
    book.apply(key, latest[key].value)
    pipeline, embedder = assembled(enc, config)
    made = embedder.make(book)
    for refused in made.refused:
        raise InputError(f"seed {name!r}: is refused: {refused.reason}")
    return pipeline, made


def _emit(outcome: "Outcome", printer: "View", outbox: Outbox | None, topic: str) -> None:
    """Send the matches of a batch, where that is asked for, and print them."""
    from worker.cli.view.match import read_match

    for record in outcome.records:
        if record.kind != "match" or record.value is None:
            continue
        if outbox:
            outbox.send(topic, record.value, record.key, [*record.headers, ORIGIN])
        if seen := read_match(record.value):
            printer.show(record.value, seen, seen.matches)
    flush()


def _now() -> str:
    from worker.posts.times import rfc3339

    return rfc3339(int(time.time() * 1000))
