"""`newsift backfill`: the posts of the past, filtered again for one seed."""

import sys
import time
from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from encoder.errors import InputError
from worker.cli.options import CSV, RECORDS, kafka_options, since_option
from worker.cli.seeds.topic import Latest, SeedTopic, known
from worker.cli.terminal import ProgressLine, say
from worker.cli.view.table import tallied
from worker.config import Config
from worker.kafka.reading import connected
from worker.kafka.sending import Outbox, sending
from worker.posts.times import rfc3339

if TYPE_CHECKING:
    from worker.cli.view.match import Show
    from worker.match.pipeline import Outcome, Pipeline
    from worker.seeds.set import SeedSet

ORIGIN = ("origin", b"backfill")


@click.command()
@click.argument("seed", metavar="SEED")
@since_option("Posts from then on: 2h, or RFC 3339.", required=True)
@click.option("--publish", is_flag=True, help="Publish the matches too, marked as backfill.")
@RECORDS
@CSV
@kafka_options
def backfill(
    seed: str, start: int, publish: bool, as_json: bool, as_csv: bool, config: Config
) -> None:
    """Filter the posts that are still in the topic by the seed SEED, and print those that match.

    It ends with the last post that was there when it began. The workers and their offsets are
    not touched.
    """
    from worker.cli.view.match import view, when_written

    show, progress = view(as_json, as_csv, when_written), ProgressLine()
    rejected, matched, passed_over = Counter[str](), 0, 0
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
            matched += outcome.matched
            passed_over += outcome.passed_over.total()
            rejected.update(reason.value for reason in outcome.rejected.elements())
            _emit(outcome, show, outbox, config.topics.matches)
            progress.add(outcome.read, "posts", f", {matched:,} matched", sys.stdout.isatty())
        if outbox:
            outbox.settle()
    over = f", {passed_over:,} passed over" if passed_over else ""
    odd = f", no posts: {tallied(rejected)}" if rejected else ""
    sent = f"; published to {config.topics.matches}" if publish else ""
    say(f"{progress.done:,} posts read, {matched:,} matched{over}{odd}{sent}")


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


def _emit(outcome: "Outcome", show: "Show", outbox: Outbox | None, topic: str) -> None:
    """Send the matches of a batch, where that is asked for, and print them."""
    from worker.files.matches import read_match

    for record in outcome.records:
        if record.kind != "match" or record.value is None:
            continue
        if outbox:
            outbox.send(topic, record.value, record.key, [*record.headers, ORIGIN])
        if seen := read_match(record.value):
            show(record.value, seen, seen.matches)
    sys.stdout.flush()


def _now() -> str:
    return rfc3339(int(time.time() * 1000))
