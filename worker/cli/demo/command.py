"""`newsift demo`: a broker, the worker and a stream of sample posts, for half a minute."""

import tempfile
import time
from pathlib import Path

import click

from worker.cli.demo.hint import hint
from worker.cli.demo.process import WorkerProcess, worker_process
from worker.cli.demo.samples import read_articles, read_posts, seed_record
from worker.cli.demo.script import ADDED, SHORTEST, Change, Cue, Script, script_of
from worker.cli.demo.tally import change_line, match_lines, summary
from worker.cli.demo.wire import Wire, wire
from worker.cli.options import model_options
from worker.cli.terminal import colour_wanted
from worker.config import Config, KafkaConfig

HEAR_S = 0.01
DRAIN_S = 15.0
QUIET_S = 0.3


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

    # The worker runs in another folder: a model's directory needs its whole path there.
    name = str(Path(model).resolve()) if Path(model).is_dir() else model
    settings = {"NEWSIFT_MODEL__NAME": name, "NEWSIFT_MODEL__DEVICE": device}
    if threads is not None:
        settings["NEWSIFT_MODEL__THREADS"] = str(threads)
    with running(port) as broker, tempfile.TemporaryDirectory() as scratch:
        config = Config(kafka=KafkaConfig(bootstrap_servers=broker.address))
        _show(config, script_of(read_posts(), seconds), Path(scratch), settings)
    click.echo("\n" + "\n".join(hint()), err=True)


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
                f"{len(articles) - 1} articles. {len(script.cues)} messages follow.\n", err=True
            )  # fmt: skip
            play(script, line, worker, articles)
            passed_over = worker.total("newsift_posts_passed_over_total")
    click.echo()
    click.echo("\n".join(summary(line.tally, script, list(articles), passed_over)))


def play(
    script: Script, line: Wire, worker: WorkerProcess, articles: dict[str, tuple[str, str]]
) -> None:
    """Send everything at its moment, print the matches as they come, and wait for the last."""
    colour = colour_wanted()
    steps: list[Cue | Change] = [*script.cues, *script.changes]
    began = time.monotonic()
    for step in sorted(steps, key=lambda step: step.at):
        while time.monotonic() - began < step.at:
            hear(line, worker, colour)
        if isinstance(step, Change):
            line.seed(step.seed, seed_record(*articles[step.seed]) if step.adds else None)
            click.echo(change_line(step, colour))
        else:
            line.send(step)
    line.settle()
    drain(line, worker, colour)


def hear(line: Wire, worker: WorkerProcess, colour: bool) -> None:
    """Print what has been found since the last time."""
    for record in line.hear(HEAR_S):
        for said in match_lines(record, colour):
            click.echo(said)
    worker.check()


def drain(line: Wire, worker: WorkerProcess, colour: bool) -> None:
    """Hear on until the worker has read everything and nothing comes any more."""
    tally = line.tally
    began = quiet = time.monotonic()
    while time.monotonic() - quiet < QUIET_S and time.monotonic() - began < DRAIN_S:
        before = len(tally.matches) + len(tally.rejected)
        hear(line, worker, colour)
        unread = worker.total("newsift_posts_read_total") < len(tally.sent)
        if unread or len(tally.matches) + len(tally.rejected) > before:
            quiet = time.monotonic()
