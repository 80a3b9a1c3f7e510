"""`newsift replay`: publish the posts of files at a given rate."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

import click

from newsift.cli.options import PATH, FiniteRange, file_options, kafka_options
from newsift.cli.signals import holding_interrupts
from newsift.cli.terminal import prompt_for_text
from newsift.files.messages import FileMessage
from newsift.files.posts import FileMessages, open_inputs, refuse_many_bad, share_read
from newsift.files.read import DASH, find_files
from newsift.files.tables import FileOptions
from newsift.operations.messages import ProgressLine, format_counts, notify
from worker.config import Config
from worker.kafka.reading import connected
from worker.kafka.sending import sending
from worker.posts.outcome import Rejected
from worker.text import plural

MAX_DRAIN_S = 5.0  # for acknowledgements when the command is interrupted
MAX_CATCH_UP_S = 1.0  # a longer delay is not made up for by sending faster
MIN_SLEEP_S = 0.002
MAX_REPORTED_ROWS = 10


class RateLimit:
    """Waits so that at most `rate` posts a second are sent; without a rate, never."""

    def __init__(self, rate: float | None) -> None:
        self._step = 1 / rate if rate else 0.0
        self._due = time.monotonic()

    def wait(self) -> None:
        late = time.monotonic() - self._due
        if late < -MIN_SLEEP_S:
            time.sleep(-late)
        elif late > MAX_CATCH_UP_S:
            self._due += late
        self._due += self._step


@dataclass
class SendableRows:
    """The rows that can be published; the others are reported and counted."""

    inputs: Iterable[Iterable[Sequence[FileMessage]]]
    rows: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    not_sent: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[FileMessage]:
        for message in chain.from_iterable(chain.from_iterable(self.inputs)):
            self.rows += 1
            if isinstance(message.reading, Rejected):
                reason, detail = message.reading.reason, message.reading.detail
                if self.bad.total() < MAX_REPORTED_ROWS:
                    notify(f"not sent: {message.topic} {message.place}: {reason} ({detail})")
                self.bad[reason.value] += 1
            elif message.value:
                yield message
            else:
                self.not_sent["no_post"] += 1

    def report(self) -> None:
        if self.bad or self.not_sent:
            notify(f"not sent: {format_counts(self.bad + self.not_sent)}")
        refuse_many_bad(self.bad.total(), self.rows)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=PATH)
@click.option("--rate", type=FiniteRange(0, min_open=True), metavar="N", help="Posts a second.")
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N",
              help="Skip the first N posts, to continue where it ended.")  # fmt: skip
@click.option("--check", is_flag=True, help="Read the files to their end; publish nothing.")
@file_options
@kafka_options
def replay(
    files: tuple[Path, ...], rate: float | None, skip: int, check: bool, file_options: FileOptions,
    config: Config,
) -> None:  # fmt: skip
    """Publish the posts of files to the posts topic; - is standard input.

    Records of a platform are published unchanged; rows of tables and lines of text become plain
    posts. The key of a record is the post's id. All files are read to the end first; if one is
    damaged, nothing is published. Bad rows are left out, and named.
    """
    sources = find_files(files)
    if DASH in sources:
        prompt_for_text()
    inputs = open_inputs(sources, file_options, config.limits, notify)
    rows = SendableRows(inputs)
    messages = islice(rows, skip, None)
    if check:
        progress = ProgressLine(share_read(inputs))
        for _ in messages:
            progress.add(1, "posts")
        notify(f"{plural(progress.count, 'post')} can be sent, {progress.rate()}")
    else:
        with connected(config) as cluster:
            cluster.partitions(config.topics.posts)
        total = _count_posts(inputs) - skip
        progress = ProgressLine(lambda count: count / total if total > 0 else 0.0)
        _send(messages, progress, RateLimit(rate), config, skip)
    rows.report()


def _count_posts(inputs: Sequence[FileMessages]) -> int:
    """Count the posts; 0 if one of the inputs is not a file.

    All files are read to their ends, so that a broken one is refused before a post is sent.
    """
    progress, posts = ProgressLine(share_read(inputs)), 0
    for input_ in inputs:
        for batch in input_ if input_.is_file else ():
            progress.add(len(batch), "rows checked")
            posts += sum(bool(m.value) and not isinstance(m.reading, Rejected) for m in batch)
    return posts if all(input_.is_file for input_ in inputs) else 0


def _send(
    messages: Iterator[FileMessage], progress: ProgressLine, pace: RateLimit, config: Config,
    skip_count: int,
) -> None:  # fmt: skip
    topic, all_sent = config.topics.posts, False
    with sending(config) as outbox, holding_interrupts() as hold:
        try:
            for message in messages:
                pace.wait()
                outbox.make_room()
                with hold:  # a post is sent and counted, or neither
                    outbox.send(topic, message.value, message.key)
                progress.add(1, "posts")
            outbox.settle()
            all_sent = True
        finally:
            count = outbox.drain(MAX_DRAIN_S)
            where = f"{topic} on {config.kafka.bootstrap_servers}"
            notify(f"{plural(count, 'post')} sent to {where}, {progress.rate()}")
            if not all_sent:
                notify(f"to continue after them: --skip {skip_count + count}")
