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

GRACE = 5.0  # seconds for what is under way when it ends early
FARTHEST_BEHIND = 1.0  # seconds; what is later than that is not caught up with
SHORTEST_SLEEP = 0.002


class Pace:
    """When the next post is due: so many a second, or at once."""

    def __init__(self, rate: float | None) -> None:
        self._step = 1 / rate if rate else 0.0
        self._due = time.monotonic()

    def wait(self) -> None:
        """Wait until a post is due."""
        late = time.monotonic() - self._due
        if late < -SHORTEST_SLEEP:
            time.sleep(-late)
        elif late > FARTHEST_BEHIND:
            self._due += late
        self._due += self._step


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…",
                type=click.Path(path_type=Path, allow_dash=True))  # fmt: skip
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), metavar="N", help="Posts a second."
)
@click.option("--form", type=click.Choice(FORMATS), help="Of the posts; else as configured.")
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N",
              help="Pass over the first N posts: to go on where it ended.")  # fmt: skip
@kafka_options
def replay(
    files: tuple[Path, ...], rate: float | None, form: str | None, skip: int, config: Config
) -> None:
    """Send the posts of files, one JSON object a line, to the posts topic; - is standard input.

    Each line's bytes are sent as they are, gzip is unpacked, empty lines are passed over. A
    record's key is the post's id, where it can be read.
    """
    lines = read_lines(files, form or config.posts.format, config.limits)
    progress, odd = ProgressLine(), Counter[str]()
    topic = config.topics.posts
    with connected(config) as cluster:
        cluster.partitions(topic)
    with sending(config) as outbox:
        pace, all_sent = Pace(rate), False
        try:
            for value, found in islice(lines, skip, None):
                if isinstance(found, Rejected):
                    odd[found.reason.value] += 1
                pace.wait()
                outbox.send(topic, value, found.id.encode() if isinstance(found, Post) else None)
                progress.add(1, "posts")
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
