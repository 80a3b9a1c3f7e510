"""`newsift replay`: posts of a file into the topic, as they are and as fast as they should come."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import click

from encoder.errors import InputError
from worker.cli.options import kafka_options
from worker.cli.terminal import ProgressLine, say
from worker.cli.view.table import tallied
from worker.config import FORMATS, Config, Limits
from worker.files.read import each_line, too_long
from worker.kafka.reading import connected
from worker.kafka.sending import Outbox, sending
from worker.posts.times import milliseconds

GRACE = 5.0  # seconds for what is under way when it ends early
FARTHEST_BEHIND = 1.0  # seconds; what is later than that is not caught up with
SHORTEST_SLEEP = 0.002


@dataclass(frozen=True, slots=True)
class Line:
    """A line that may be a post: its bytes, and what could be read of it."""

    value: bytes
    id: str | None = None
    created_at: str | None = None
    odd: str | None = None


@dataclass(slots=True)
class Replayed:
    """What was read so far, and whether all of it was sent."""

    progress: ProgressLine = field(default_factory=ProgressLine)
    odd: Counter[str] = field(default_factory=Counter)
    all_sent: bool = False

    def add(self, line: Line) -> None:
        """Count a line, and show how far it is on a terminal."""
        if line.odd:
            self.odd[line.odd] += 1
        self.progress.add(1, "posts")


class Pace:
    """When the next post is due: so many a second, or as the posts were made, or at once."""

    def __init__(self, rate: float | None, speed: float | None) -> None:
        self._rate, self._speed = rate, speed
        self._began = time.monotonic()
        self._count = 0
        self._first: float | None = None

    def wait(self, line: Line) -> None:
        """Wait until this post is due."""
        late = time.monotonic() - self._began - self._due(line)
        if late < -SHORTEST_SLEEP:
            time.sleep(-late)
        elif late > FARTHEST_BEHIND and self._rate:
            self._began += late
        self._count += 1

    def _due(self, line: Line) -> float:
        """Seconds after the start."""
        if self._rate:
            return self._count / self._rate
        made = None if line.created_at is None else milliseconds(line.created_at) / 1000
        if not self._speed or made is None:
            return 0.0
        if self._first is None:
            self._first = made
        return (made - self._first) / self._speed


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…",
                type=click.Path(path_type=Path, allow_dash=True))  # fmt: skip
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), metavar="N", help="Posts a second."
)
@click.option("--speed", type=click.FloatRange(0, min_open=True), metavar="X",
              help="As the posts were made, X times as fast.")  # fmt: skip
@click.option("--form", type=click.Choice(FORMATS), help="Of the posts; else as configured.")
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N",
              help="Pass over the first N posts: to go on where it ended.")  # fmt: skip
@click.option("--check", is_flag=True, help="Send nothing: say what the worker could read.")
@kafka_options
def replay(
    files: tuple[Path, ...], rate: float | None, speed: float | None, form: str | None,
    skip: int, check: bool, config: Config,
) -> None:  # fmt: skip
    """Send the posts of files, one JSON object a line, to the posts topic; - is standard input.

    Each line's bytes are sent as they are, gzip is unpacked, empty lines are passed over. A
    record's key is the post's id, where it can be read.
    """
    if rate and speed:
        raise click.UsageError("--rate and --speed exclude each other")
    posts = islice(read_lines(files, form or config.posts.format, config.limits), skip, None)
    replayed = Replayed()
    if check:
        _check(posts, replayed)
        return
    with connected(config) as cluster:
        cluster.partitions(config.topics.posts)
    with sending(config) as outbox:
        try:
            _send(posts, outbox, config.topics.posts, Pace(rate, speed), replayed)
        finally:
            _conclude(replayed, outbox, config, skip)


def read_lines(files: Sequence[Path], form: str, limits: Limits) -> Iterator[Line]:
    """The lines of all files that hold anything, one after the other."""
    from worker.posts.read import Post, Rejected, read_post

    for file in files:
        for number, value in each_line(file):
            if refused := too_long(value):
                raise InputError(f"{file}: line {number} {refused}")
            found = read_post(value, form, limits) if value.strip() else None
            if isinstance(found, Post):
                yield Line(value, found.id, found.created_at)
            elif found is not None:
                yield Line(value, odd=found.reason.value if isinstance(found, Rejected) else None)


def _send(
    posts: Iterator[Line], outbox: Outbox, topic: str, pace: Pace, replayed: Replayed
) -> None:
    for line in posts:
        pace.wait(line)
        outbox.send(topic, line.value, None if line.id is None else line.id.encode())
        replayed.add(line)
    outbox.settle()
    replayed.all_sent = True


def _conclude(replayed: Replayed, outbox: Outbox, config: Config, skip: int) -> None:
    """Say what arrived, and how to go on where it ended early."""
    delivered = outbox.drained(GRACE)
    where = f"{config.topics.posts} on {config.kafka.bootstrap_servers}"
    say(f"{delivered:,} posts sent to {where}, {replayed.progress.rate()}")
    if replayed.odd:
        say(f"of those read, no posts: {tallied(replayed.odd)}")
    if not replayed.all_sent:
        say(f"to go on after them: --skip {skip + delivered}")


def _check(posts: Iterator[Line], replayed: Replayed) -> None:
    """Count what the worker could read of the lines; nothing is sent."""
    for line in posts:
        replayed.add(line)
    read, odd = replayed.progress.done, replayed.odd.total()
    click.echo(f"{read:,} lines, {read - odd:,} the worker can read")
    if odd:
        raise InputError(f"{odd:,} lines are no posts: {tallied(replayed.odd)}")
