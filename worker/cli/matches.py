"""`newsift matches`: what the workers found, live or from some time on."""

import sys
from collections.abc import Iterator

import click

from worker.cli.options import CSV, RECORDS, kafka_options, since_option
from worker.cli.terminal import say
from worker.cli.view.match import view, when_found
from worker.cli.wanted import Wanted, wanted_options
from worker.config import Config
from worker.files.matches import read_match
from worker.kafka.reading import StoredMessage, TopicReader, connected


@click.command()
@since_option("From this time on: 2h, or in RFC 3339.")
@wanted_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="End after N posts.")
@click.option(
    "--follow/--no-follow", default=None,
    help="Go on with what comes; the default, unless --since is given.",
)  # fmt: skip
@RECORDS
@CSV
@kafka_options
def matches(
    start: int | None, wanted: Wanted, limit: int | None, follow: bool | None, as_json: bool,
    as_csv: bool, config: Config,
) -> None:  # fmt: skip
    """Print the posts that match, as they are found; their words are lit by what they add.

    A = after the score marks a post that says what one before it said.

    With --since, or --no-follow for all that is kept, it ends with the last one that is there.
    """
    live = follow if follow is not None else start is None
    shown = unread = 0
    show = view(as_json, as_csv, when_found)
    with connected(config) as cluster:
        for batch in _batches(cluster, config, start, live):
            for message in sorted(batch, key=lambda message: message.timestamp):
                record = read_match(message.value)
                if record is None or message.value is None:
                    unread += 1
                    continue
                if found := wanted.of(record):
                    show(message.value, record, found)
                    shown += 1
                if shown == limit:
                    return
            sys.stdout.flush()
    if unread:
        say(f"{unread} records are no match records: passed over")
    if not shown:
        say(_none(config.topics.matches, start is not None, wanted.narrowed))


def _none(topic: str, since: bool, narrowed: bool) -> str:
    """What to say where nothing was printed, and where there may be something."""
    if since:
        return f"{topic} has no such match since then; --no-follow without --since prints all"
    if narrowed:
        return f"{topic} has no such match; leave --seed and --event out to see all"
    return f"{topic} is empty: nothing has matched yet; `newsift status` tells what is under way"


def _batches(
    cluster: TopicReader, config: Config, start: int | None, live: bool
) -> Iterator[list[StoredMessage]]:
    topic = config.topics.matches
    offsets = None if start is None else cluster.at(topic, start)
    if not live:
        yield from cluster.read(topic, offsets)
        return
    if sys.stderr.isatty():
        where = config.kafka.bootstrap_servers
        say(
            f"matches of {where} as they come, Ctrl-C ends; --since 1h or --no-follow prints those "
            "that are there"
        )
    yield from cluster.follow(topic, cluster.ends(topic) if offsets is None else offsets)
