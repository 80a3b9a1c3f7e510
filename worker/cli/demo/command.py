"""`newsift demo`: a broker, the worker and a stream of sample posts, for half a minute."""

import tempfile
import time
from collections import deque
from pathlib import Path

import click

from worker.cli.demo.process import WorkerProcess, worker_process
from worker.cli.demo.samples import read_articles, read_posts, seed_record
from worker.cli.demo.script import ADDED, SHORTEST, Change, Message, Script, written
from worker.cli.demo.show import change_line, match_lines, summary, taken_up_line
from worker.cli.demo.wire import Wire, wire
from worker.cli.options import model_options
from worker.cli.terminal import colour_wanted
from worker.config import Config, KafkaConfig

HEAR_S = 0.01
DRAIN_S = 15.0
QUIET_S = 0.3
NEXT = """
Next, each in a terminal of its own:
  newsift broker --port 9092                      the same broker, in memory, until you end it
  faust -A worker worker                          the worker, on that broker or any Kafka
  newsift seeds add ARTICLE.md                    your article; newsift seeds list shows all
  newsift replay POSTS.jsonl --rate 100           your posts, as fast as you like
  newsift matches                                 what is found, as it is found
Any other Kafka: NEWSIFT_KAFKA=host:port before each, or config.yaml."""


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(min=SHORTEST, max=600), default=20.0, show_default=True,
    help="How long the posts take.",
)  # fmt: skip
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N",
    help="The broker's port, to look on with other commands; any free one if not given.",
)  # fmt: skip
@model_options
def demo(seconds: float, port: int, model: str, device: str, threads: int | None) -> None:
    """Show newsift at work: sample posts stream in, matches come out.

    Starts a Kafka broker in memory and the worker, `faust -A worker worker`, publishes sample
    articles, and sends sample posts, of which some are broken. While it runs one article is added
    and one removed. At the end it says how well the posts were found, and ends what it started.
    Articles and posts are invented; nothing outside this machine is used.
    """
    from worker.broker.running import running

    settings = {"NEWSIFT_MODEL__NAME": _model_name(model), "NEWSIFT_MODEL__DEVICE": device}
    if threads is not None:
        settings["NEWSIFT_MODEL__THREADS"] = str(threads)
    with running(port) as broker, tempfile.TemporaryDirectory() as scratch:
        config = Config(kafka=KafkaConfig(bootstrap_servers=broker.address))
        _show(config, written(read_posts(), seconds), Path(scratch), settings)


def _show(config: Config, script: Script, scratch: Path, settings: dict[str, str]) -> None:
    from worker.kafka.topics import ensure_topics

    articles = read_articles()
    ensure_topics(config)
    with wire(config) as line:
        for name, article in articles.items():
            if name != ADDED:
                line.seed(name, seed_record(*article))
        click.echo("The worker starts; its very first start compiles it for this CPU.", err=True)
        address = config.kafka.bootstrap_servers
        with worker_process(address, scratch, settings) as worker:
            took = worker.wait_until_ready()
            click.echo(
                f"Ready after {took:.1f} s, on a broker in memory at {address}, with "
                f"{len(articles) - 1} articles. {len(script.messages)} messages follow.\n", err=True
            )  # fmt: skip
            play(script, line, worker, articles)
            passed_over = worker.total("newsift_posts_passed_over_total")
    click.echo()
    click.echo("\n".join(summary(line.tally, script, list(articles), passed_over)))
    click.echo(NEXT, err=True)


def play(
    script: Script, line: Wire, worker: WorkerProcess, articles: dict[str, tuple[str, str]]
) -> None:
    """Send everything at its moment, print the matches as they come, and wait for the last."""
    colour = colour_wanted()
    steps: list[Message | Change] = [*script.messages, *script.changes]
    queue = deque(sorted(steps, key=lambda step: step.at))
    began = changed = time.monotonic()
    while queue:
        while queue and queue[0].at <= time.monotonic() - began:
            step = queue.popleft()
            if isinstance(step, Change):
                line.seed(step.seed, seed_record(*articles[step.seed]) if step.adds else None)
                changed = time.monotonic()
                click.echo(change_line(step, colour))
            else:
                line.send(step)
        hear(line, changed, colour)
        worker.check()
    line.settle()
    drain(line, worker, colour)


def hear(line: Wire, changed: float, colour: bool) -> None:
    """Print what has been found since the last time."""
    known = len(line.tally.seed_sets)
    for record in line.hear(HEAR_S):
        if 0 < known < len(line.tally.seed_sets):
            known = len(line.tally.seed_sets)
            click.echo(taken_up_line(record["seed_set"], time.monotonic() - changed, colour))
        for said in match_lines(record, colour):
            click.echo(said)


def drain(line: Wire, worker: WorkerProcess, colour: bool) -> None:
    """Hear on until the worker has read everything and nothing comes any more."""
    began = quiet = time.monotonic()
    while time.monotonic() - quiet < QUIET_S and time.monotonic() - began < DRAIN_S:
        before = len(line.tally.matches) + len(line.tally.rejected)
        hear(line, began, colour)
        unread = worker.total("newsift_posts_read_total") < len(line.tally.sent)
        if unread or len(line.tally.matches) + len(line.tally.rejected) > before:
            quiet = time.monotonic()
        worker.check()


def _model_name(model: str) -> str:
    """The model as another folder sees it: a directory by its whole path."""
    return str(Path(model).resolve()) if Path(model).is_dir() else model
