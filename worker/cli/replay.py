"""`newsift replay`: posts of a file into the topic, as they are and as fast as they should come."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
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
from worker.kafka.sending import sending
from worker.posts.read import Post, Reading, Rejected, read_post
from worker.posts.times import milliseconds

GRACE = 5.0  # seconds for what is under way when it ends early
FARTHEST_BEHIND = 1.0  # seconds; what is later than that is not caught up with
SHORTEST_SLEEP = 0.002


class Pace:
    """When the next post is due: so many a second, or as the posts were made, or at once."""

    def __init__(self, rate: float | None, speed: float | None) -> None:
        self._rate, self._speed = rate, speed
        self._began = time.monotonic()
        self._count = 0
        self._first: float | None = None

    def wait(self, created_at: str | None) -> None:
        """Wait until a post is due that was made then."""
        late = time.monotonic() - self._began - self._due(created_at)
        if late < -SHORTEST_SLEEP:
            time.sleep(-late)
        elif late > FARTHEST_BEHIND and self._rate:
            self._began += late
        self._count += 1

    def _due(self, created_at: str | None) -> float:
        """Seconds after the start."""
        if self._rate:
            return self._count / self._rate
        if not self._speed or created_at is None:
            return 0.0
        made = milliseconds(created_at) / 1000
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
    progress, odd = ProgressLine(), Counter[str]()
    if check:
        _check(lines, progress, odd)
        return
    topic = config.topics.posts
    with connected(config) as cluster:
        cluster.partitions(topic)
    with sending(config) as outbox:
        pace, all_sent = Pace(rate, speed), False
        try:
            for value, found in _counted(lines, progress, odd):
                key, made = (
                    (found.id.encode(), found.created_at)
                    if isinstance(found, Post)
                    else (None, None)
                )
                pace.wait(made)
                outbox.send(topic, value, key)
            outbox.settle()
            all_sent = True
        finally:
            delivered = outbox.drained(GRACE)
            where = f"{topic} on {config.kafka.bootstrap_servers}"
            say(f"{delivered:,} posts sent to {where}, {progress.rate()}")
            if odd:
                say(f"of those read, no posts: {tallied(odd)}")
            if not all_sent:
                say(f"to go on after them: --skip {skip + delivered}")


def read_lines(files: Sequence[Path], form: str, limits: Limits) -> Iterator[tuple[bytes, Reading]]:
    """The lines of all files that hold anything, one after the other, with what they are."""
    for file in files:
        for number, value in each_line(file):
            if refused := too_long(value):
                raise InputError(f"{file}: line {number} {refused}")
            if value.strip():
                yield value, read_post(value, form, limits)


def _counted(
    lines: Iterator[tuple[bytes, Reading]], progress: ProgressLine, odd: Counter[str]
) -> Iterator[tuple[bytes, Reading]]:
    for value, found in lines:
        if isinstance(found, Rejected):
            odd[found.reason.value] += 1
        yield value, found
        progress.add(1, "posts")


def _check(
    lines: Iterator[tuple[bytes, Reading]], progress: ProgressLine, odd: Counter[str]
) -> None:
    """Count what the worker could read of the lines; nothing is sent."""
    read = sum(1 for _ in _counted(lines, progress, odd))
    click.echo(f"{read:,} lines, {read - odd.total():,} the worker can read")
    if odd:
        raise InputError(f"{odd.total():,} lines are no posts: {tallied(odd)}")
