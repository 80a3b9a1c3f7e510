"""`newsift matches`: print matches as they arrive, or from a given time."""

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import click
from aiokafka.errors import KafkaError

from encoder.errors import InputError
from newsift.cli.options import kafka_options, option_group, since_option
from newsift.cli.output import Output, match_time, output_options
from newsift.cli.post_matches import MatchPoster
from newsift.cli.services import run_services
from newsift.files.rows import TOPIC_SOURCE, MatchFilter, OutputRecord
from newsift.operations.deletions import DeletedPosts, add_deletions, parse_visible, read_deletions
from newsift.operations.messages import ProgressLine, notify
from newsift.web.addresses import parse_address
from worker import log
from worker.config import Config
from worker.errors import BrokerError
from worker.kafka.reading import (
    Offsets,
    StoredMessage,
    TopicReader,
    connected,
    records_between,
)
from worker.kafka.settings import broker_error

RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Reading:
    """Which records of the topic are read."""

    start: int | None
    limit: int | None
    follow: bool | None
    wait: bool

    @property
    def is_live(self) -> bool:
        return self.follow if self.follow is not None else self.start is None


@click.command()
@option_group(
    "reading",
    Reading,
    since_option("From this time on: 2h, or in RFC 3339."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="End after N posts."),
    click.option("--follow/--no-follow", default=None,
                 help="Wait for new matches; the default, unless --since is given."),
    click.option("--wait/--no-wait", default=True,
                 help="Where it waits for matches: also wait for a broker that is away."),
)  # fmt: skip
@option_group(
    "filters",
    MatchFilter,
    click.option("--seed", "seeds", multiple=True, metavar="ID",
                 help="Only matches with this seed."),
    click.option("--event", "events", multiple=True, metavar="NAME", help="Only of this event."),
    click.option("--new", is_flag=True, help="Only the first of the matches that repeat one text."),
)  # fmt: skip
@click.option(
    "--post-to", metavar="URL",
    help="POST each match to this address as JSON instead, and go on from there after a restart.",
)  # fmt: skip
@output_options
@kafka_options
def matches(
    reading: Reading, filters: MatchFilter, post_to: str | None, output: Output, config: Config
) -> None:
    """Print matching posts as they arrive; words are highlighted by what they add to the score.

    A = after the score marks a post that repeats an earlier one. Of a deleted post neither text,
    author nor link is shown (see newsift prune).

    With --since, or with --no-follow for all stored matches, it ends after the last one. While it
    follows, it waits for a broker that goes away, and goes on where it was; --no-wait ends instead.

    --post-to runs until it is ended, and posts deletion records too. A match for which the receiver
    answers 401, 404, 429 or 5xx, or does not answer, is posted again; after another answer than 2xx
    it is set aside and named.
    """
    if post_to is not None:
        is_narrow = (reading.limit, reading.follow) != (None, None)
        if is_narrow or output != Output(None, False, False, None):
            raise click.UsageError("--post-to: leave --limit, --follow and other outputs out")
        post_matches(config, post_to, filters, reading.start)
        return
    limit = reading.limit
    output.check()
    posts = unreadable = 0
    deleted = DeletedPosts()
    try:
        if reading.start is not None or not reading.is_live:
            with connected(config) as cluster:
                deleted = read_deletions(cluster, config, reading.start)
        with output.open(TOPIC_SOURCE, match_time) as add_records:
            for batch in _batches(config, reading, output.to_terminal):
                deletions = add_deletions(batch, deleted)
                pairs = [parse_visible(message, deleted) for message in batch]
                unreadable += sum(record is None for _, record in pairs) - deletions
                records = [
                    OutputRecord(value, record, selection) for value, record in pairs
                    if record is not None and (selection := filters.select(record))
                ]  # fmt: skip
                records = records if limit is None else records[: limit - posts]
                posts += len(records)
                add_records(records)
                if posts == limit:
                    break
    except KeyboardInterrupt:
        output.report(posts)
        raise
    output.report(posts)
    if unreadable:
        notify(f"passed over as no match records: {unreadable:,}")
    if not posts:
        is_narrow = filters != MatchFilter()
        notify(_empty_message(config.topics.matches, reading.start is not None, is_narrow))


def post_matches(config: Config, address: str, filters: MatchFilter, start: int | None) -> None:
    if (url := parse_address(address, "http", "https")) is None:
        raise InputError("--post-to: is not an address; give one as https://newsroom.example/in")
    topic = config.topics.matches
    with connected(config) as cluster:  # a missing broker or topic is an error at once
        offsets = cluster.ends(topic) if start is None else cluster.offsets_at(topic, start)
    log.configure_logging(config.log, None)
    poster = MatchPoster(config, url, filters, offsets)
    notify(f"matches are posted to {url.host} by the group {poster.group}; Ctrl-C ends it")
    try:
        if (failure := asyncio.run(run_services([poster]))) is not None:
            raise failure
    except KafkaError as error:
        raise broker_error(error, config) from error


def _empty_message(topic: str, since: bool, with_filter: bool) -> str:
    if since:
        return f"{topic} has no such match since then; --no-follow without --since prints all"
    if with_filter:
        return f"{topic} has no such match; leave --seed, --event and --new out to see all"
    return f"{topic} is empty: nothing has matched yet; `newsift status` shows the workers"


def _batches(config: Config, reading: Reading, quiet: bool) -> Iterator[list[StoredMessage]]:
    """Each batch is sorted by time. A broker that is away is waited for, if it may be."""
    where, is_waiting = config.kafka.bootstrap_servers, False
    reached: Offsets | None = None  # of the next records, once it was connected
    while True:
        try:
            with connected(config) as cluster:
                if is_waiting and not cluster.exists(config.topics.matches):
                    raise BrokerError("a broker in memory starts without topics")
                start, ends = read_span(cluster, config.topics.matches, reading, reached)
                if is_waiting:
                    notify(f"the broker at {where} answers again")
                elif reading.is_live and sys.stderr.isatty():
                    notify(
                        f"matches of {where} as they arrive; Ctrl-C ends; --since 1h or "
                        "--no-follow prints stored ones"
                    )
                is_waiting, reached, topic = False, start, config.topics.matches
                if not reading.is_live:
                    yield from _stored(cluster.read(topic, start, ends), start, ends, quiet)
                    return
                for batch in cluster.follow(topic, start):
                    yield sorted(batch, key=lambda message: message.timestamp)
                    reached |= {message.partition: message.offset + 1 for message in batch}
        except BrokerError:
            if not (reading.is_live and reading.wait):
                raise
            if not is_waiting:
                notify(f"waiting for the broker at {where}; Ctrl-C ends, --no-wait does not wait")
            is_waiting = True
            time.sleep(RETRY_S)


def read_span(
    cluster: TopicReader, topic: str, reading: Reading, reached: Offsets | None
) -> tuple[Offsets, Offsets]:
    """From where to read, and the present end. What was reached counts if the topic has it."""
    first, ends = cluster.beginnings(topic), cluster.ends(topic)
    if reached is not None:
        positions = {part: reached.get(part, 0) for part in ends}
        return {
            part: offset if first[part] <= offset <= ends[part] else first[part]
            for part, offset in positions.items()
        }, ends
    if reading.start is not None:
        return cluster.offsets_at(topic, reading.start), ends
    return ends if reading.is_live else first, ends


def _stored(
    batches: Iterable[list[StoredMessage]], start: Offsets, ends: Offsets, quiet: bool
) -> Iterator[list[StoredMessage]]:
    total = records_between(start, ends)
    progress = ProgressLine(lambda count: count / max(total, 1))
    for batch in batches:
        yield sorted(batch, key=lambda message: message.timestamp)
        progress.add(len(batch), "records", quiet=quiet)
