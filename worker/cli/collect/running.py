"""What every source of `newsift collect` has in common: its options, its run and its way out."""

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import wraps
from io import FileIO
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click
from aiokafka.errors import KafkaError

from worker.cli.options import kafka_options
from worker.cli.signals import heed
from worker.cli.terminal import say
from worker.config import Config
from worker.kafka.settings import broker_error
from worker.kafka.topics import ensure_posts
from worker.service import log as logs
from worker.sources.collector import Collector
from worker.sources.counts import Counts
from worker.sources.frame import Mark
from worker.sources.http import session
from worker.sources.outlet import PrintOutlet, TopicOutlet
from worker.sources.source import LiveSource
from worker.sources.state import State, Unkept, default_state, stored_state
from worker.watch.site import Site

P = ParamSpec("P")
R = TypeVar("R")
STDOUT = 1

STATE = click.option(
    "--state", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
    help="Where it is kept how far it came; else a file in the state folder.",
)  # fmt: skip
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print what it would send, a line each; send and keep nothing."
)


def token_option(variable: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """--token-file FILE, for a token that `variable` may hold as well."""
    return click.option(
        "--token-file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
        help=f"A file with the token alone; else {variable} holds it.",
    )  # fmt: skip


def collect_options(command: Callable[..., LiveSource]) -> Callable[..., None]:
    """Make a command of what makes a source: with --state, --dry-run, --kafka and --config.

    What it is given besides, and `config`, goes to the function that makes the source.
    """

    @STATE
    @DRY_RUN
    @kafka_options
    @wraps(command)
    def collecting(
        *args: Any, state: Path | None, dry_run: bool, config: Config, **given: Any
    ) -> None:
        source = command(*args, config=config, **given)
        run_source(source, state or default_state(source.name), dry_run, config)

    return collecting


def run_source(source: LiveSource, file: Path, dry_run: bool, config: Config) -> None:
    """Bring what comes to the topic, or print it, until a signal ends it or nothing more comes."""
    logs.set_up(config.log, None)
    if dry_run:
        stored = stored_state(file, source.name)
        asyncio.run(print_what_comes(source, stored.mark if stored else None, config))
        return
    with State(file, source.name) as kept:
        say(f"how far it came is kept in {file}")
        if asyncio.run(bring(source, kept, config))[:1] == [signal.SIGINT]:
            raise KeyboardInterrupt


async def print_what_comes(source: LiveSource, mark: Mark | None, config: Config) -> None:
    """Print what comes; a signal ends it where it is, though nobody reads: nothing is kept."""
    with FileIO(STDOUT, "w", closefd=False) as out:
        kept = Unkept(mark)
        collector = Collector(source, PrintOutlet(out), Counts(source.name), config.stream, kept)
        async with session(config.stream.stall_s) as client:
            await collector.run(client)


async def bring(source: LiveSource, state: State, config: Config) -> list[int]:
    """Send what comes until a signal ends it; which were heard."""
    counts = Counts(source.name)
    stalled = Stalled(counts)
    outlet = TopicOutlet(config, counts, stalled.note)
    collector = Collector(source, outlet, counts, config.stream, state)
    heard = list[int]()

    def leave(kind: int) -> None:
        heard.append(kind)
        collector.leave()

    heed(asyncio.get_running_loop(), leave)
    site = Site(config.web, counts.render, lambda: stalled.missing or collector.missing)
    try:
        async with AsyncExitStack() as stack:
            await site.start()
            stack.push_async_callback(site.stop)
            stack.push_async_callback(outlet.stop)
            if not await collector.before_leaving(_open(outlet, config)):
                return heard
            client = await stack.enter_async_context(session(config.stream.stall_s))
            stack.callback(_say_what_was_sent, counts, source.name, config)
            await collector.run(client)
    except KafkaError as error:
        raise broker_error(error, config) from error
    return heard


async def _open(outlet: TopicOutlet, config: Config) -> None:
    await asyncio.to_thread(ensure_posts, config)
    await outlet.start()


def _say_what_was_sent(counts: Counts, source: str, config: Config) -> None:
    gaps = f"; {counts.gaps:,} gaps that nothing can fill" if counts.gaps else ""
    where = f"{config.topics.posts} on {config.kafka.bootstrap_servers}"
    say(f"{counts.sent:,} frames of {source} sent to {where}{gaps}")


class Stalled:
    """Whether the broker acknowledges nothing, for the metrics and for who asks."""

    def __init__(self, counts: Counts) -> None:
        self._counts, self.missing = counts, ""

    def note(self, stalls: bool) -> None:
        """Note that it began, or is over."""
        if self.missing and not stalls:
            logging.getLogger("newsift.collect").info("the broker acknowledges again")
        self.missing = "the broker does not acknowledge" if stalls else ""
        self._counts.stalled(stalls)
