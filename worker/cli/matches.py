"""`newsift matches`: what the workers found, live or from some time on."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from worker.cli.options import kafka_options, since_option
from worker.cli.terminal import ProgressLine, say
from worker.cli.view.match import when_found
from worker.cli.view.output import Output, output_options
from worker.cli.wanted import Wanted, wanted_options
from worker.config import Config
from worker.files.matches import read_match
from worker.files.out.rows import IN_TOPIC, Finding
from worker.kafka.reading import StoredMessage, TopicReader, connected, records_between


@click.command()
@since_option("From this time on: 2h, or in RFC 3339.")
@wanted_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="End after N posts.")
@click.option(
    "--follow/--no-follow", default=None,
    help="Go on with what comes; the default, unless --since is given.",
)  # fmt: skip
@output_options
@kafka_options
def matches(
    start: int | None, wanted: Wanted, limit: int | None, follow: bool | None, output: Output,
    config: Config,
) -> None:  # fmt: skip
    """Print the posts that match, as they are found; their words are lit by what they add.

    A = after the score marks a post that says what one before it said.

    With --since, or --no-follow for all that is kept, it ends with the last one that is there.
    """
    live = follow if follow is not None else start is None
    output.check()
    shown = Selection(wanted, limit)
    try:
        with connected(config) as cluster, output.open(IN_TOPIC, when_found) as show:
            for batch in _batches(cluster, config, start, live, quiet=output.is_seen):
                show(shown.of(batch))
                if shown.posts == limit:
                    break
    except KeyboardInterrupt:
        output.tell(shown.posts)
        raise
    output.tell(shown.posts)
    if shown.unread:
        say(f"passed over as no match records: {shown.unread:,}")
    if not shown.posts:
        say(_none(config.topics.matches, start is not None, wanted.narrowed))


@dataclass(slots=True)
class Selection:
    """Which posts are shown, how many were, and how many records could not be read."""

    wanted: Wanted
    limit: int | None
    posts: int = 0
    unread: int = 0

    def of(self, batch: Sequence[StoredMessage]) -> list[Finding]:
        """Those of a batch, up to the limit."""
        found = []
        for message in batch:
            record = read_match(message.value)
            if record is None or message.value is None:
                self.unread += 1
            elif matches := self.wanted.of(record):
                found.append(Finding(message.value, record, matches))
        found = found if self.limit is None else found[: self.limit - self.posts]
        self.posts += len(found)
        return found


def _none(topic: str, since: bool, narrowed: bool) -> str:
    """What to say where nothing was printed, and where there may be something."""
    if since:
        return f"{topic} has no such match since then; --no-follow without --since prints all"
    if narrowed:
        return f"{topic} has no such match; leave --seed and --event out to see all"
    return f"{topic} is empty: nothing has matched yet; `newsift status` tells what is under way"


def _batches(
    cluster: TopicReader, config: Config, start: int | None, live: bool, quiet: bool
) -> Iterator[list[StoredMessage]]:
    """What is in the topic, and what comes, batch by batch, each by its time."""
    topic, ends = config.topics.matches, cluster.ends(config.topics.matches)
    offsets = None if start is None else cluster.at(topic, start)
    if live:
        _tell_live(config)
        batches = cluster.follow(topic, ends if offsets is None else offsets)
    else:
        batches = cluster.read(topic, offsets, ends)
    expected = 0 if live else records_between(offsets or cluster.beginnings(topic), ends)
    progress = ProgressLine(lambda done: done / max(expected, 1))
    for batch in batches:
        yield sorted(batch, key=lambda message: message.timestamp)
        progress.add(len(batch), "records", quiet=quiet or live)


def _tell_live(config: Config) -> None:
    """Say what is waited for, should somebody sit there."""
    if sys.stderr.isatty():
        where = config.kafka.bootstrap_servers
        say(
            f"matches of {where} as they come, Ctrl-C ends; --since 1h or --no-follow prints those "
            "that are there"
        )
