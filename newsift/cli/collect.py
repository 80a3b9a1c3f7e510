"""`newsift collect`: read a source and publish its posts until a signal arrives."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from io import FileIO
from pathlib import Path

import click
from aiokafka.errors import KafkaError
from click.decorators import FC

from encoder.errors import InputError
from newsift.cli.group import CommandGroup
from newsift.cli.options import file_options, kafka_options, option_group
from newsift.cli.signals import on_interrupt
from newsift.collect.bluesky import HOSTS, POST_COLLECTION, Bluesky
from newsift.collect.collector import Collector, CollectorMetrics, TopicOutlet, write_lines
from newsift.collect.file_ledger import FileLedger
from newsift.collect.folder import Folder, scan_folder
from newsift.collect.http import read_token
from newsift.collect.mastodon import STREAM_PATHS, Mastodon, stream_address
from newsift.collect.source import LiveSource, SourcePosition
from newsift.collect.state import FileStore, PositionStore, default_state, open_state, read_state
from newsift.collect.x import STREAM_URL, XStream
from newsift.files.posts import FileMessages, refuse_many_bad
from newsift.files.tables import FileOptions
from newsift.operations.messages import format_counts, notify
from newsift.web.client import client_session, stream_timeout
from worker import log as logs
from worker.config import Config
from worker.errors import RunError
from worker.kafka.settings import broker_error
from worker.kafka.topics import ensure_topic
from worker.metrics.web import Site
from worker.seeds.record import json_digest
from worker.text import plural


@click.group(cls=CommandGroup)
def collect() -> None:
    """Read posts from a source and publish them to the posts topic, until the command is stopped.

    The position that the broker has acknowledged is stored in a file, and the next start resumes
    there, so nothing is lost that the platform still has. SIGTERM stops the command cleanly.
    Metrics and health are served like the worker's, on the first free port from 6066.
    """


STDOUT = 1
MASTODON_TOKEN, X_TOKEN = "NEWSIFT_MASTODON_TOKEN", "NEWSIFT_X_TOKEN"
FILE = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True, slots=True)
class Run:
    """Where the position is stored, and whether anything is published."""

    state: Path | None
    dry_run: bool


run_options = option_group(
    "run",
    Run,
    click.option("--state", metavar="FILE", type=FILE,
                 help="Where the position is stored; by default a file in the state folder."),
    click.option("--dry-run", is_flag=True,
                 help="Print each frame on a line; publish and store nothing."),
)  # fmt: skip


def token_option(variable: str) -> Callable[[FC], FC]:
    """--token-file FILE; the environment variable `variable` may hold the token instead."""
    return click.option(
        "--token-file", metavar="FILE", type=FILE,
        help=f"A file that holds the token alone; by default {variable} holds it.",
    )  # fmt: skip


def run_source(source: LiveSource, run: Run, config: Config) -> None:
    logs.configure_logging(config.log, None)
    file = run.state or default_state(source.name)
    if run.dry_run:
        last_state = read_state(file, source.name)
        asyncio.run(print_frames(source, last_state.position if last_state else None, config))
        return
    with open_state(file, source.name) as state_file:
        notify(f"the position in {source.name} is stored in {file}")
        if asyncio.run(publish_frames(source, state_file, config))[:1] == [signal.SIGINT]:
            raise KeyboardInterrupt


async def print_frames(source: LiveSource, position: SourcePosition | None, config: Config) -> None:
    """It stores nothing, so a signal may end it at any point."""
    with FileIO(STDOUT, "w", closefd=False) as out:
        state, metrics = PositionStore(position), CollectorMetrics(source.name)
        collector = Collector(source, partial(write_lines, out), metrics, config.stream, state)
        async with client_session(stream_timeout(config.stream.stall_s)) as client:
            await collector.run(client)


async def publish_frames(source: LiveSource, state: FileStore, config: Config) -> list[int]:
    """Publish frames until a signal arrives. Returns the signals received."""
    metrics = CollectorMetrics(source.name)
    outlet = TopicOutlet(config, metrics)
    collector = Collector(source, outlet.deliver, metrics, config.stream, state)
    signals = list[int]()

    def stop(number: int) -> None:
        signals.append(number)
        collector.stop()

    async def start_outlet() -> None:
        await asyncio.to_thread(ensure_topic, config, config.topics.posts)
        await outlet.delivery.start()

    def report() -> None:
        gaps = f"; {plural(metrics.gaps, 'gap')} that nothing can fill" if metrics.gaps else ""
        where = f"{config.topics.posts} on {config.kafka.bootstrap_servers}"
        notify(f"{plural(metrics.sent_count, 'frame')} of {source.name} sent to {where}{gaps}")

    on_interrupt(asyncio.get_running_loop(), stop)
    site = Site(
        config.web, metrics.render, lambda: outlet.not_ready_reason or collector.not_ready_reason
    )
    try:
        async with AsyncExitStack() as stack:
            await site.start()
            stack.push_async_callback(site.stop)
            stack.push_async_callback(outlet.delivery.stop)
            if not await collector.run_unless_stopped(start_outlet()):
                return signals
            client = await stack.enter_async_context(
                client_session(stream_timeout(config.stream.stall_s))
            )
            stack.callback(report)
            await collector.run(client)
    except KafkaError as error:
        raise broker_error(error, config) from error
    return signals


@collect.command()
@click.option(
    "--url", "urls", multiple=True, metavar="URL",
    help="A Jetstream, with its path of v1 or v2. May be repeated: if one fails, the next is "
    f"used.  [default: {HOSTS[0]}, and three more]",
)  # fmt: skip
@click.option(
    "--collection", "collections", multiple=True, metavar="NSID",
    help=f"The collection of the records; a final .* matches all below.  [default: "
    f"{POST_COLLECTION}]",
)  # fmt: skip
@click.option(
    "--lang", "langs", multiple=True, metavar="LANG",
    help="Only posts whose author names this language, or none. May be repeated.",
)  # fmt: skip
@run_options
@kafka_options
def bluesky(
    urls: tuple[str, ...], collections: tuple[str, ...], langs: tuple[str, ...], run: Run,
    config: Config,
) -> None:  # fmt: skip
    """Publish the posts of Bluesky to the posts topic.

    A Jetstream serves them to anyone, through one of two interfaces: /subscribe (v1) and
    /xrpc/network.bsky.jetstream.subscribeEvents (v2). It keeps a day and a half of posts: a command
    that is started again within that time loses nothing, even with another host.
    """
    source = Bluesky(urls, collections, langs, config.stream.stall_s)
    run_source(source, run, config)


@collect.command()
@click.option(
    "--url", required=True, metavar="URL",
    help="An instance, or one of its streams with its path.",
)  # fmt: skip
@click.option(
    "--stream", type=click.Choice(list(STREAM_PATHS)),
    help="Which stream of the instance.  [default: public]",
)  # fmt: skip
@click.option("--tag", metavar="NAME", help="The hashtag, for --stream hashtag.")
@token_option(MASTODON_TOKEN)
@run_options
@kafka_options
def mastodon(
    url: str, stream: str | None, tag: str | None, token_file: Path | None, run: Run, config: Config
) -> None:
    """Publish the posts of a Mastodon instance to the posts topic.

    Needs a user's token with the scope read:statuses. The stream leaves out what the account has
    muted or blocked and languages it has not chosen. Posts missed while the command was not running
    are read from the timeline first: instances allow 300 pages in five minutes.
    """
    address = stream_address(url, stream, tag)
    source = Mastodon(address, read_token(MASTODON_TOKEN, token_file), config.stream.stall_s)
    run_source(source, run, config)


@collect.command()
@click.option(
    "--url", default=STREAM_URL, show_default=True, metavar="URL",
    help="The filtered stream.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N",
    help="Stop after N posts; X charges $0.005 for each.",
)  # fmt: skip
@token_option(X_TOKEN)
@run_options
@kafka_options
def x(url: str, limit: int | None, token_file: Path | None, run: Run, config: Config) -> None:
    """Publish the posts of X that match the app's rules, which are set at X, to the posts topic.

    Needs the bearer token of an app with access to the filtered stream. X charges $0.005 for each
    post, sends at most 250 a second, and sends nothing twice: what was published while the command
    was not running is counted as a gap.
    """
    token = read_token(X_TOKEN, token_file)
    run_source(XStream(url, token, limit, config.stream.stall_s), run, config)


@collect.command()
@click.argument("place", metavar="FOLDER")
@click.option("--once", is_flag=True, help="Stop when all files that are there now are sent.")
@file_options
@run_options
@kafka_options
def files(place: str, once: bool, file_options: FileOptions, run: Run, config: Config) -> None:
    """Publish the posts of the files in FOLDER, and of files that arrive later, each file once.

    All formats of `newsift filter` are read, in subfolders too; FOLDER may be a quoted pattern. A
    file is read when it has not been written to for five seconds: to be safe, write it elsewhere
    and move it here. Files are not moved or deleted.
    """
    place = os.path.abspath(place)  # noqa: PTH100 - a pattern, perhaps
    if place != place.encode("utf-8", "replace").decode():
        raise InputError(f"{place!r}: its name is not in UTF-8; rename it, or link to it")
    if (files_now := scan_folder(place)) is None:
        is_file = Path(place).exists()
        problem = "is no folder; give its own" if is_file else "there is no such folder; create it"
        raise InputError(f"{place}: {problem}, or give a pattern in quotes")
    if not (files_now or once):
        notify(f"{place}: holds no file of posts yet; waiting for some")
    file = run.state or default_state(f"files-{json_digest(place)[:12]}")
    ledger = FileLedger(file.with_name(f"{file.name}.sent"), not run.dry_run)
    texts: set[str] = set()

    def notify_once(message: str) -> None:
        """Show each message for the first file alone; the texts after the names are compared."""
        text = message.partition(": ")[2]
        if text not in texts:
            texts.add(text)
            notify(message)

    def read(path: Path) -> FileMessages:
        return FileMessages(path, file_options, config.limits, notify_once)

    source = Folder(place, read, ledger, once or run.dry_run)
    try:
        run_source(source, replace(run, state=file), config)
    finally:
        if source.was_scanned:
            notify(f"{place}: {format_counts(source.counts) or 'nothing new'}")
    if once:
        counts = source.counts
        if unread := counts["not understood"]:
            raise RunError(f"{unread:,} of {unread + counts['files']:,} files could not be read")
        refuse_many_bad(counts["bad rows"], counts["rows"])
