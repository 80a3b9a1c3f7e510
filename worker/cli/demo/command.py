"""`newsift demo`: a broker, the worker and a stream of sample posts, for half a minute."""

import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import kafka

from worker.broker.running import running
from worker.cli.demo.hint import hint
from worker.cli.demo.process import WorkerProcess, worker_process
from worker.cli.demo.samples import read_articles, read_posts, seed_record
from worker.cli.demo.script import ADDED, SHORTEST, Change, Cue, Script, script_of
from worker.cli.demo.tally import Tally, change_line, match_lines, summary
from worker.cli.options import model_options
from worker.cli.terminal import colour_wanted
from worker.config import Config, KafkaConfig, TopicsConfig
from worker.files.matches import read_match
from worker.kafka.sending import Outbox, sending
from worker.kafka.settings import kafka_python_settings
from worker.kafka.topics import ensure_topics

HEAR_MS = 10
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
    articles = {name: seed_record(*article) for name, article in read_articles().items()}
    ensure_topics(config)
    settled = kafka_python_settings(config) | {"metrics_enabled": False}
    heard = kafka.KafkaConsumer(config.topics.matches, **settled, auto_offset_reset="earliest")
    with sending(config) as outbox, closing(heard) as consumer:
        for name in articles.keys() - {ADDED}:
            outbox.send(config.topics.seeds, articles[name], name.encode())
        outbox.settle()
        click.echo("The worker starts; its very first start compiles it for this CPU.", err=True)
        address = config.kafka.bootstrap_servers
        with worker_process(address, scratch, settings) as worker:
            took = worker.wait_until_ready()
            click.echo(
                f"Ready after {took:.1f} s, on a broker in memory at {address}, with "
                f"{len(articles) - 1} articles. {len(script.cues)} messages follow.\n", err=True
            )  # fmt: skip
            audience = Audience(consumer, worker, Tally(script))
            play(script, articles, audience, outbox, config.topics)
            audience.hear_out()
            rejected = worker.counted("newsift_posts_rejected_total")
            passed_over = worker.counted("newsift_posts_passed_over_total").total()
    click.echo()
    click.echo("\n".join(summary(audience.tally, list(articles), rejected, passed_over)))


def play(
    script: Script, articles: dict[str, bytes], audience: "Audience", outbox: Outbox,
    topics: TopicsConfig,
) -> None:  # fmt: skip
    """Send everything at its moment, and print the matches as they come."""
    steps: list[Cue | Change] = [*script.cues, *script.changes]
    began = time.monotonic()
    for step in sorted(steps, key=lambda step: step.at):
        while time.monotonic() - began < step.at:
            audience.hear()
        if isinstance(step, Change):
            record = articles[step.seed] if step.adds else None
            outbox.send(topics.seeds, record, step.seed.encode())
            click.echo(change_line(step, audience.colour))
        else:
            outbox.send(topics.posts, step.value, step.id.encode())
    outbox.settle()


class Audience:
    """Who hears the matches, prints them, and sees whether the worker is well."""

    def __init__(self, consumer: Any, worker: WorkerProcess, tally: Tally) -> None:
        self._consumer, self._worker, self.tally = consumer, worker, tally
        self.colour, self._seen = colour_wanted(), sys.stdout.isatty()

    def hear(self) -> None:
        """Print what has been found since the last time."""
        found = self._consumer.poll(timeout_ms=HEAR_MS)
        for message in (message for part in found.values() for message in part):
            if record := read_match(message.value):
                self.tally.add(record, time.time())
                for said in match_lines(record, self.colour, weights=self._seen):
                    click.echo(said)
        self._worker.check()

    def hear_out(self) -> None:
        """Hear on until the worker has read everything and nothing comes any more."""
        sent = len(self.tally.script.cues)
        began = quiet = time.monotonic()
        while time.monotonic() - quiet < QUIET_S and time.monotonic() - began < DRAIN_S:
            before = len(self.tally.matches)
            self.hear()
            read = self._worker.counted("newsift_posts_read_total").total()
            if read < sent or len(self.tally.matches) > before:
                quiet = time.monotonic()
