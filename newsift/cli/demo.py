"""`newsift demo`: a broker, a worker and sample posts on this machine."""

import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import kafka

from encoder.errors import NewsiftError
from newsift.broker.server import running
from newsift.cli.local import with_whole_paths, worker_settings
from newsift.cli.options import FiniteRange, model_options
from newsift.cli.output import highlight_text
from newsift.cli.processes import WorkerProcess, worker_process
from newsift.cli.samples import (
    BROKEN_MESSAGES,
    MESSAGES_WITHOUT_POST,
    SAMPLES,
    SamplePost,
    as_message,
    read_articles,
    read_posts,
)
from newsift.cli.terminal import use_colour
from newsift.files.rows import parse_match_record
from newsift.operations.messages import format_counts
from worker.config import Config, KafkaConfig, ModelConfig, TopicsConfig
from worker.config.load import load_config
from worker.kafka.sending import Outbox, sending
from worker.kafka.settings import kafka_python_settings
from worker.kafka.topics import ensure_topics
from worker.match.records import MatchRecord
from worker.posts.compare import as_text
from worker.posts.read import Post, read_post
from worker.text import one_line

ADDED_SEED, REMOVED_SEED = "cable-car-stuck", "clinic-hack"
ADD_AT_SHARE, REMOVE_AT_SHARE = 0.3, 0.65  # of the whole time
QUIET_BEFORE_S, QUIET_AFTER_S = 0.5, 1.5  # around a change, without posts on its event
MIN_SECONDS = 8.0
RANDOM_SEED = 7  # the same order of the posts in every run


@dataclass(frozen=True, slots=True)
class Cue:
    value: bytes | None
    event: str | None = None
    id: str = "no post"
    at: float = 0.0  # seconds from the start
    live: bool = False  # whether there is a seed for the post's event by then


@dataclass(frozen=True, slots=True)
class SeedChange:
    at: float
    seed: str
    adds: bool


@dataclass(frozen=True, slots=True)
class Script:
    cues: tuple[Cue, ...]
    changes: tuple[SeedChange, ...]
    seconds: float


def make_script(posts: Sequence[SamplePost], seconds: float) -> Script:
    """Spread the posts and the broken messages evenly over the time."""
    changes = (
        SeedChange(seconds * ADD_AT_SHARE, ADDED_SEED, True),
        SeedChange(seconds * REMOVE_AT_SHARE, REMOVED_SEED, False),
    )
    cues = []
    for post in posts:
        value = as_message(post)
        read = read_post(value)
        cues.append(Cue(value, post.event, read.id) if isinstance(read, Post) else Cue(value))
    cues += [*map(Cue, MESSAGES_WITHOUT_POST), *map(Cue, BROKEN_MESSAGES)]
    random.Random(RANDOM_SEED).shuffle(cues)
    step = seconds / len(cues)
    timeline = []
    for n in range(len(cues)):
        at = n * step
        quiet_events = {
            c.seed for c in changes if c.at - QUIET_BEFORE_S <= at <= c.at + QUIET_AFTER_S
        }
        first = next((i for i, cue in enumerate(cues) if cue.event not in quiet_events), 0)
        cue = cues.pop(first)
        seed_changes = (change for change in changes if change.seed == cue.event)
        live = all(change.adds == (at > change.at) for change in seed_changes)
        live = live and cue.event is not None
        timeline.append(replace(cue, at=at, live=live))
    return Script(tuple(timeline), changes, seconds)


def next_steps() -> Iterator[str]:
    on_path = shutil.which("newsift")
    script = Path(sys.executable).with_name("newsift")
    if script.exists() and not (on_path and Path(on_path).samefile(script)):
        activate = _relative(script.with_name("activate"))
        yield f"To put newsift and faust on the PATH:  source {activate}"
    yield "Next, your own files, without a broker:"
    yield _step("filter POSTS.jsonl --seeds ARTICLE.md", "the posts that match an article")
    yield "Or a stream, each in a terminal of its own:"
    try:
        address = load_config().kafka.bootstrap_servers
    except NewsiftError:
        address = Config().kafka.bootstrap_servers
    broker = None if address == Config().kafka.bootstrap_servers else address
    if broker is None:
        yield _step("broker", "or any Kafka: NEWSIFT_KAFKA=host:port")
    where = "the worker, on that broker" if broker is None else f"the worker, on {broker}"
    yield _step("-A worker worker", where, "faust")
    yield _step(f"seeds add {_relative(SAMPLES)}/seeds/ferry-fire.md", "an article, or yours")
    yield _step("matches", "matches as they arrive")
    yield _step(f"replay {_relative(SAMPLES)}/posts.jsonl --rate 100", "posts, or yours")


def _step(arguments: str, meaning: str, command: str = "newsift") -> str:
    return f"  {command + ' ' + arguments:<58}  {meaning}"


def _relative(path: Path) -> str:
    """The path from the current folder, if it is inside."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


EVENT_WIDTH = 18
POLL_MS = 10
MAX_DRAIN_S = 15.0
DRAIN_QUIET_S = 0.3  # without a new match, after which the demo ends


class MatchPrinter:
    """Prints the matches as they arrive, and keeps what the summary says of them."""

    def __init__(self, consumer: Any, worker: WorkerProcess, script: Script) -> None:
        self._consumer, self._worker, self.script = consumer, worker, script
        self._matches: set[tuple[str, str]] = set()  # the post's id, the event
        self._latencies: list[float] = []  # seconds
        self.colour = use_colour()

    def print_new(self) -> None:
        batches = self._consumer.poll(timeout_ms=POLL_MS)
        for message in (message for part in batches.values() for message in part):
            if record := parse_match_record(message.value):
                self._latencies.append(time.time() - record.source.timestamp / 1000)
                self._print(record)
        self._worker.check()

    def _print(self, record: MatchRecord) -> None:
        """A line for each match; the words are highlighted unless the output is redirected."""
        text = one_line(as_text(record.post).text)
        for match in record.matches:
            self._matches.add((record.post.id, match.event))
            shown = highlight_text(text, match.why, self.colour) if sys.stdout.isatty() else text
            click.echo(f"{match.score:.2f}  {one_line(match.event):<{EVENT_WIDTH}}{shown}")

    def drain(self) -> None:
        """Print until the worker has read everything and no more matches arrive."""
        total = len(self.script.cues)
        began = quiet = time.monotonic()
        while time.monotonic() - quiet < DRAIN_QUIET_S and time.monotonic() - began < MAX_DRAIN_S:
            before = len(self._matches)
            self.print_new()
            read = self._worker.counter_values("newsift_posts_read_total").total()
            if read < total or len(self._matches) > before:
                quiet = time.monotonic()

    def posts_on(self, event: str, live: bool) -> set[str]:
        """The ids of the posts on an event that were sent while its seed was live, or was not."""
        return {cue.id for cue in self.script.cues if (cue.event, cue.live) == (event, live)}

    def matched_posts(self, event: str) -> set[str]:
        return {post for post, name in self._matches if name == event}

    def latency(self, share: float) -> float:
        """A quantile of the latency, in milliseconds."""
        latencies = sorted(self._latencies)
        if not latencies:
            return 0.0
        return 1e3 * latencies[min(int(share * len(latencies)), len(latencies) - 1)]


def summary(
    results: MatchPrinter, events: Sequence[str], rejected: Counter[str], passed_over: int
) -> Iterator[str]:
    """Precision and recall count the posts that were sent while their seed was live."""
    yield f"{'event':<{EVENT_WIDTH}}{'posts':>7}{'found':>7}{'precision':>11}{'recall':>8}"
    for event in events:
        relevant, matched = results.posts_on(event, live=True), results.matched_posts(event)
        shares = (
            f"{_share(relevant & matched, matched):>11}{_share(relevant & matched, relevant):>8}"
        )
        yield f"{event:<{EVENT_WIDTH}}{len(relevant):>7}{len(matched):>7}{shares}"
    for change in results.script.changes:
        off_posts = results.posts_on(change.seed, live=False)
        matched_off = len(off_posts & results.matched_posts(change.seed))
        when = "before its article was added" if change.adds else "after its article was removed"
        yield f"{change.seed}: {len(off_posts)} posts came {when}; {matched_off} of them matched."
    total, seconds = len(results.script.cues), results.script.seconds
    yield (
        f"\n{total} messages in {seconds:.0f} s, paced at {total / seconds:.0f} a second;"
        f" from sending to a match here: p50 {results.latency(0.5):.0f} ms,"
        f" p99 {results.latency(0.99):.0f} ms."
    )
    reasons = f" ({format_counts(rejected)})" if rejected else ""
    yield f"Dead letters: {rejected.total()}{reasons}. Passed over: {passed_over}."


def _share(part: set[str], total: set[str]) -> str:
    return f"{len(part) / len(total):.2f}" if total else "-"


@click.command()
@click.option(
    "--seconds", type=FiniteRange(min=MIN_SECONDS, max=600), default=20.0, show_default=True,
    help="How long the posts take.",
)  # fmt: skip
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N",
    help="The broker's port, for other commands; any free one if not given.",
)  # fmt: skip
@click.option("--desk", "with_desk", is_flag=True, help="Show it in the browser, until Ctrl-C.")
@model_options
def demo(seconds: float, port: int, with_desk: bool, model: ModelConfig) -> None:
    """Run newsift on sample posts and show the matches.

    Starts a Kafka broker in memory and the worker, `faust -A worker worker`, publishes sample
    articles and sends sample posts, some of them broken. During the run one article is added and
    one is removed. At the end it prints precision and recall and stops broker and worker. Articles
    and posts are invented; the network is not used.

    With --desk you watch, judge and change it in the browser: half of the posts, with the labels of
    two judges, are there at the start, and the others arrive one each second. Ctrl-C ends it;
    nothing is saved.
    """
    if with_desk:
        from newsift.cli.demo_desk import show_desk

        show_desk(Config(model=model))
        return
    config = with_whole_paths(Config(model=model))
    with running(port) as broker, tempfile.TemporaryDirectory() as scratch:
        config = replace(config, kafka=KafkaConfig(bootstrap_servers=broker.address))
        _show(config, make_script(read_posts(), seconds), Path(scratch))
    click.echo("\n" + "\n".join(next_steps()), err=True)


def _show(config: Config, script: Script, scratch: Path) -> None:
    articles = read_articles()
    ensure_topics(config)
    consumer = kafka.KafkaConsumer(
        config.topics.matches, **kafka_python_settings(config), metrics_enabled=False,
        auto_offset_reset="earliest",
    )  # fmt: skip
    with sending(config) as outbox, closing(consumer):
        for name in articles.keys() - {ADDED_SEED}:
            outbox.send(config.topics.seeds, articles[name], name.encode())
        outbox.settle()
        click.echo("The worker starts; its very first start compiles it for this CPU.", err=True)
        address = config.kafka.bootstrap_servers
        with worker_process(address, scratch, worker_settings(config, scratch)) as worker:
            took = worker.wait_until_ready()
            click.echo(
                f"Ready after {took:.1f} s, on a broker in memory at {address}, with "
                f"{len(articles) - 1} articles. {len(script.cues)} messages follow.\n", err=True
            )  # fmt: skip
            printer = MatchPrinter(consumer, worker, script)
            play(script, articles, printer, outbox, config.topics)
            printer.drain()
            rejected = worker.counter_values("newsift_posts_rejected_total")
            passed_over = worker.counter_values("newsift_posts_passed_over_total").total()
    click.echo()
    click.echo("\n".join(summary(printer, list(articles), rejected, passed_over)))


def play(
    script: Script, articles: dict[str, bytes], printer: MatchPrinter, outbox: Outbox,
    topics: TopicsConfig,
) -> None:  # fmt: skip
    steps: list[Cue | SeedChange] = [*script.cues, *script.changes]
    began = time.monotonic()
    for step in sorted(steps, key=lambda step: step.at):
        while time.monotonic() - began < step.at:
            printer.print_new()
        if isinstance(step, SeedChange):
            record = articles[step.seed] if step.adds else None
            outbox.send(topics.seeds, record, step.seed.encode())
            line = f"----  {step.seed:<{EVENT_WIDTH}}article {'added' if step.adds else 'removed'}"
            click.echo(click.style(line, bold=True) if printer.colour else line)
        else:
            outbox.send(topics.posts, step.value, step.id.encode())
    outbox.settle()
