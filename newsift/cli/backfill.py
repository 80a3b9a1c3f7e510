"""`newsift backfill`: match past posts with one seed."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import click

from encoder.errors import InputError
from newsift.cli.options import kafka_options, since_option
from newsift.cli.output import Output, output_options, post_time
from newsift.files.articles import Article
from newsift.files.rows import TOPIC_SOURCE, OutputRecord, parse_match_record
from newsift.operations.deletions import DeletedPosts, read_deletions
from newsift.operations.messages import format_counts, notify
from newsift.operations.offline_pipeline import Totals, describe_idle_profiles, load_pipeline
from newsift.operations.seed_topic import SeedTopic, find_key
from newsift.operations.times import now_text
from worker.config import Config
from worker.kafka.reading import connected, records_between
from worker.kafka.sending import Outbox, sending
from worker.match.pipeline import Outcome
from worker.match.records import Record
from worker.seeds.record import RefusedSeed, Seed
from worker.text import plural

MAX_DRAIN_S = 2.0  # for acknowledgements after Ctrl-C
ORIGIN_HEADER = ("origin", b"backfill")


@click.command()
@click.argument("seed", metavar="SEED")
@since_option("Posts from then on: 2h, or RFC 3339.", required=True)
@click.option("--publish", is_flag=True, help="Publish the matches too, marked as backfill.")
@click.option(
    "--force", is_flag=True, help="Accept an article of < 40 words, or in another language."
)
@output_options
@kafka_options
def backfill(
    seed: str, start: int, publish: bool, force: bool, output: Output, config: Config
) -> None:
    """Match the posts that are still in the topic with the seed SEED, and print the matches.

    SEED may be a profile in force, such as 'profile|flood'. Posts that arrive after the start are
    not read, and deleted posts are left out. The workers and their offsets are not affected.
    """
    output.check()
    topic = config.topics.posts
    with connected(config) as cluster, sending(config) if publish else nullcontext() as outbox:
        state = SeedTopic(cluster, config).state()
        content = state.content(find_key(state, seed))
        if content is None or isinstance(content, RefusedSeed):
            raise InputError(f"seed {seed!r}: is refused: {content.reason if content else ''}")
        span = cluster.offsets_at(topic, start), cluster.ends(topic)
        if publish:
            cluster.partitions(config.topics.matches)
        deleted = read_deletions(cluster, config, start)
        pipeline, seeds = load_pipeline(state.of_one(content), config, state)
        for reason in describe_idle_profiles(seeds):
            raise InputError(f"seed {reason}")
        if not force and isinstance(content, Seed):
            article = Article(content.title, content.text)
            article.require_seed(f"seed {seed!r}", config.model.name, ", or give --force")
        total_records = max(records_between(*span), 1)
        total = Totals(lambda count: count / total_records)
        try:
            with output.open(TOPIC_SOURCE, post_time) as show:
                for batch in cluster.read(topic, *span):
                    outcome = pipeline.run(batch, seeds, now_text)
                    records = list(_undeleted(outcome, deleted))
                    if outbox:
                        _publish(outbox, config.topics.matches, [record for record, _ in records])
                    if records:
                        show([shown for _, shown in records])
                    total.add(outcome, quiet=output.to_terminal)
                if outbox:
                    outbox.settle()
        except KeyboardInterrupt:
            _report(total, outbox, config.topics.matches)
            raise
        _report(total, outbox, config.topics.matches)


def _report(total: Totals, outbox: Outbox | None, topic: str) -> None:
    sent_text = f"; {outbox.drain(MAX_DRAIN_S):,} published to {topic}" if outbox else ""
    passed_over = f", {total.passed_over.total():,} passed over" if total.passed_over else ""
    rejected = f", no posts: {format_counts(total.rejected)}" if total.rejected else ""
    notify(
        f"{plural(total.progress.count, 'post')} read, {total.matched:,} matched"
        f"{passed_over}{rejected}{sent_text}"
    )


def _publish(outbox: Outbox, topic: str, records: Sequence[Record]) -> None:
    for record in records:
        outbox.send(topic, record.value, record.key, [*record.headers, ORIGIN_HEADER])


def _undeleted(outcome: Outcome, deleted: DeletedPosts) -> Iterator[tuple[Record, OutputRecord]]:
    """The matches, as they are published and as they are shown."""
    for record in outcome.records:
        match = parse_match_record(record.value) if record.kind == "match" else None
        if match is not None and match.post.post_id not in deleted:
            yield record, OutputRecord(record.value or b"", match, match.matches)
