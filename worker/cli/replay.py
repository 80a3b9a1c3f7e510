"""`newsift replay`: posts of a file into the topic, as they are and as fast as they should come."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import click

from encoder.errors import InputError
from worker.cli.common import CLEAR, kafka_options, say
from worker.cli.filter.read import rows_as_they_come
from worker.cli.rows import LONGEST_LINE, opened
from worker.cli.view.table import counted
from worker.config import FORMATS, Config, Limits
from worker.kafka.reading import connected
from worker.kafka.sending import Outbox, sending
from worker.posts.times import milliseconds

GRACE = 5.0  # seconds for what is under way when it ends early
FARTHEST_BEHIND = 1.0  # seconds; what is later than that is not caught up with
SHORTEST_SLEEP = 0.002
TELL_EVERY = 0.2
STDIN = Path("-")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the input that may be a post: its bytes, and what could be read."""

    value: bytes
    id: str | None = None
    created_at: str | None = None
    odd: str | None = None


@dataclass(slots=True)
class Tally:
    """What was read so far, and how long it takes."""

    read: int = 0
    odd: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)
    told: float = 0.0
    done: bool = False

    def add(self, line: Line) -> None:
        """Count a line, and show how far it is on a terminal."""
        self.read += 1
        if line.odd:
            self.odd[line.odd] += 1
        now = time.monotonic()
        if sys.stderr.isatty() and now - self.told > TELL_EVERY:
            self.told = now
            click.echo(f"{CLEAR}{self.read:,} posts, {self.rate():,.0f}/s", nl=False, err=True)

    def rate(self) -> float:
        """Posts a second since the start."""
        return self.read / max(time.monotonic() - self.began, 1e-3)


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
    lines = islice(read_lines(files, form or config.posts.format, config.limits), skip, None)
    tally = Tally()
    if check:
        _check(lines, tally)
        return
    with connected(config) as cluster:
        cluster.partitions(config.topics.posts)
    with sending(config) as outbox:
        try:
            _send(lines, outbox, config.topics.posts, Pace(rate, speed), tally)
        finally:
            _conclude(tally, outbox, config, skip)


def read_lines(files: Sequence[Path], form: str, limits: Limits) -> Iterator[Line]:
    """The lines of all files that hold anything, one after the other."""
    from worker.posts.read import Post, Rejected, read_post

    for file in files:
        for value in _raw(file):
            found = read_post(value, form, limits)
            if isinstance(found, Post):
                yield Line(value, found.id, found.created_at)
            elif isinstance(found, Rejected):
                yield Line(value, odd=found.reason.value)
            else:
                yield Line(value)


def _raw(file: Path) -> Iterator[bytes]:
    number = 0
    with opened(None if file == STDIN else file) as stream:
        for rows in rows_as_they_come(stream):
            for row in rows:
                number += 1
                if len(row) > LONGEST_LINE:
                    most = LONGEST_LINE >> 20
                    raise InputError(f"{file}: line {number} is longer than {most} MiB; split it")
                if row.strip():
                    yield row


def _send(lines: Iterator[Line], outbox: Outbox, topic: str, pace: Pace, tally: Tally) -> None:
    for line in lines:
        pace.wait(line)
        outbox.send(topic, line.value, None if line.id is None else line.id.encode())
        tally.add(line)
    outbox.settle()
    tally.done = True


def _conclude(tally: Tally, outbox: Outbox, config: Config, skip: int) -> None:
    """Say what arrived, and how to go on where it ended early."""
    delivered = outbox.drained(GRACE)
    where = f"{config.topics.posts} on {config.kafka.bootstrap_servers}"
    say(f"{delivered:,} posts sent to {where}, {tally.rate():,.0f}/s", sys.stderr.isatty())
    if tally.odd:
        say(f"of those read, no posts: {counted(tally.odd)}")
    if not tally.done:
        say(f"to go on after them: --skip {skip + delivered}")


def _check(lines: Iterator[Line], tally: Tally) -> None:
    """Count what the worker could read of the lines; nothing is sent."""
    for line in lines:
        tally.add(line)
    click.echo(f"{tally.read:,} lines, {tally.read - tally.odd.total():,} the worker can read")
    if tally.odd:
        raise InputError(f"{tally.odd.total():,} lines are no posts: {counted(tally.odd)}")
