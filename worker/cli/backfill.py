"""`newsift backfill`: the posts of the past, filtered again for one seed."""

from contextlib import nullcontext

import click

from encoder.errors import InputError
from worker.actions.events.event import Values, book_of, values_of, with_its_seeds
from worker.actions.offline import Sum, idle_profiles, prepared, present
from worker.actions.seeds.topic import SeedTopic, known
from worker.actions.told import tallied
from worker.cli.options import kafka_options, since_option
from worker.cli.terminal import say
from worker.cli.view.match import when_written
from worker.cli.view.output import Output, output_options
from worker.config import Config
from worker.files.articles.article import Article
from worker.files.matches import read_match
from worker.files.out.rows import IN_TOPIC, Add, Finding
from worker.kafka.reading import connected, records_between
from worker.kafka.sending import Outbox, sending
from worker.match.pipeline import Outcome
from worker.seeds.profile import read_record
from worker.seeds.record import Seed

GRACE_S = 2.0  # for what is being published when Ctrl-C ends it
ORIGIN = ("origin", b"backfill")


@click.command()
@click.argument("seed", metavar="SEED")
@since_option("Posts from then on: 2h, or RFC 3339.", required=True)
@click.option("--publish", is_flag=True, help="Publish the matches too, marked as backfill.")
@click.option("--force", is_flag=True, help="Take an article of fewer than 40 words.")
@output_options
@kafka_options
def backfill(
    seed: str, start: int, publish: bool, force: bool, output: Output, config: Config
) -> None:
    """Filter the posts that are still in the topic by the seed SEED, and print those that match.

    SEED may be a profile that is in force, such as 'profile|flood'. It ends with the last post
    that was there when it began. The workers and their offsets are not touched.
    """
    output.check()
    topic = config.topics.posts
    with connected(config) as cluster, sending(config) if publish else nullcontext() as outbox:
        latest = SeedTopic(cluster, config).latest()
        key, values = known(latest, seed), values_of(latest)
        records = with_its_seeds(key, values, config.limits)
        span = cluster.at(topic, start), cluster.ends(topic)
        if publish:
            cluster.partitions(config.topics.matches)
        pipeline, seeds = prepared(book_of(records, config.limits), config)
        for idle in idle_profiles(seeds):
            raise InputError(f"seed {idle}")
        if not force:
            _require_article(key, values, config)
        expected = max(records_between(*span), 1)
        total = Sum(lambda done: done / expected)
        try:
            with output.open(IN_TOPIC, when_written) as show:
                for batch in cluster.read(topic, *span):
                    outcome = pipeline.run(batch, seeds, present)
                    _emit(outcome, show, outbox, config.topics.matches)
                    total.add(outcome, quiet=output.is_seen)
                if outbox:
                    outbox.settle()
        except KeyboardInterrupt:
            _conclude(total, _published(outbox, config.topics.matches))
            raise
    _conclude(total, _published(outbox, config.topics.matches))


def _require_article(key: bytes, values: Values, config: Config) -> None:
    found = read_record(key, values[key], config.limits)
    if isinstance(found, Seed):
        Article(found.title, found.text).require_seed(f"seed {found.id!r}", ", or give --force")


def _published(outbox: Outbox | None, topic: str) -> str:
    """How many were published, where that is asked for."""
    return f"; {outbox.drained(GRACE_S):,} published to {topic}" if outbox else ""


def _conclude(total: Sum, sent: str) -> None:
    """Tell the sum."""
    over = f", {total.passed_over.total():,} passed over" if total.passed_over else ""
    odd = f", no posts: {tallied(total.rejected)}" if total.rejected else ""
    say(f"{total.progress.done:,} posts read, {total.matched:,} matched{over}{odd}{sent}")


def _emit(outcome: Outcome, show: Add, outbox: Outbox | None, topic: str) -> None:
    """Send the matches of a batch, where that is asked for, and print or keep them."""
    found = []
    for record in outcome.records:
        if record.kind != "match" or record.value is None:
            continue
        if outbox:
            outbox.send(topic, record.value, record.key, [*record.headers, ORIGIN])
        if seen := read_match(record.value):
            found.append(Finding(record.value, seen, seen.matches))
    if found:
        show(found)
