"""`newsift bench`: what the README claims, measured again on this machine."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click


@click.group()
def bench() -> None:
    """Measure newsift on this machine."""


@bench.command()
@click.option(
    "--data", type=click.Path(path_type=Path, exists=True), help="Posts, JSON lines (.gz)."
)
@click.option(
    "--articles", type=click.Path(path_type=Path, exists=True), help="Articles, likewise."
)
@click.option("--model", default="default", show_default=True, help="A model's name or directory.")
@click.option("--rounds", type=click.IntRange(1), help="Measured rounds, after one that warms up.")
@click.option("--seconds", type=click.FloatRange(0), help="Time for the interleaved rows together.")
@click.option("--threads", default="1,2", show_default=True, help="Numbers of threads, by commas.")
@click.option("--only", default="", metavar="ROWS", help="Rows and parts by name, by commas.")
@click.option("--quick", is_flag=True, help="About a minute, for a first look.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object in place of tables.")
def encoder(threads: str, only: str, quick: bool, as_json: bool, **given: Any) -> None:
    """Text to embeddings: ours, as published, and MiniLM, all rows interleaved in one run."""
    from bench.encoder import QUICK, Options
    from bench.encoder import bench as run

    options = replace(
        QUICK if quick else Options(),
        threads=numbers(threads),
        only=frozenset(name.strip() for name in only.split(",") if name.strip()),
        **{key: value for key, value in given.items() if value is not None},
    )
    say = progress()
    made = run(options, say)
    say("")
    if as_json:
        click.echo(json.dumps({part.key: part.data for part in made}, ensure_ascii=False))
    else:
        click.echo("\n\n".join(part.render() for part in made))


@bench.command()
@click.option("--kafka", envvar="NEWSIFT_KAFKA", help="A broker; the embedded one if not given.")
@click.option(
    "--data", type=click.Path(path_type=Path, exists=True), help="Posts, JSON lines (.gz)."
)
@click.option(
    "--articles", type=click.Path(path_type=Path, exists=True), help="Articles, likewise."
)
@click.option("--posts", type=click.IntRange(1), help="Posts on the topic, for the rates.")
@click.option("--rounds", type=click.IntRange(1), help="How often every row is measured.")
@click.option("--seconds", type=click.FloatRange(1), help="How long the latency is measured.")
@click.option("--memory-posts", type=click.IntRange(10), help="Posts for the part `memory`.")
@click.option("--only", default="", metavar="PARTS", help="speed, latency, start, memory.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object in place of tables.")
def stream(only: str, as_json: bool, **given: Any) -> None:
    """The worker on a broker, beside the encoder alone and Faust's agent that does nothing.

    The part `memory` takes long and is measured only by name: --only memory.
    """
    from bench.stream.run import Options
    from bench.stream.run import bench as run

    asked = frozenset(name.strip() for name in only.split(",") if name.strip())
    known = {key: value for key, value in given.items() if value is not None}
    say = progress()
    made = run(Options(only=asked, **known), say)
    say("")
    if as_json:
        click.echo(json.dumps({part.key: part.data for part in made}, ensure_ascii=False))
    else:
        click.echo("\n\n".join(part.render() for part in made))


@bench.command()
@click.option("--model", default="default", show_default=True, help="A model's name or directory.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object in place of a table.")
def languages(model: str, as_json: bool) -> None:
    """Posts in twelve languages, found from an English article and from one of their own."""
    from bench.languages import bench as run

    part = run(model)
    if as_json:
        click.echo(json.dumps({part.key: part.data}, ensure_ascii=False))
    else:
        click.echo(part.render())


def numbers(text: str) -> tuple[int, ...]:
    """Numbers of threads out of a list such as 1,2."""
    try:
        found = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        found = ()
    if not found or found[0] < 1:
        raise click.BadParameter(f"{text!r} is no list such as 1,2", param_hint="--threads")
    return found


def progress() -> Any:
    """Where progress goes: one line that is written over, on a terminal only."""
    if not sys.stderr.isatty():
        return lambda line: None

    def say(line: str) -> None:
        click.echo(f"\r\033[K{line}", err=True, nl=False)

    return say
