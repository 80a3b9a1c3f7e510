"""`newsift bench`: what the README claims, measured again on this machine."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from bench.measure import ResultTable
from bench.texts import SHARED
from train.loop.progress import ProgressLog

Option = TypeVar("Option", bound=Callable[..., Any])

DATA = click.option(
    "--data", type=click.Path(path_type=Path, exists=True),
    help="A file or folder of posts, JSON lines (.gz), or one laid out as for training.",
)  # fmt: skip
CRISES = click.option(
    "--data", type=click.Path(path_type=Path, exists=True), default=SHARED,
    show_default="../shared/data",
    help="A folder laid out as for training, with crises and news.",
)  # fmt: skip
MODEL = click.option(
    "--model", default="default", show_default=True, help="A model's name or directory."
)
KAFKA = click.option(
    "--kafka", envvar="NEWSIFT_KAFKA", help="A broker; the embedded one if not given."
)
BETWEEN = click.FloatRange(0, 1, min_open=True, max_open=True)
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object in place of tables.")


def number(name: str, default: float, help_text: str, least: int = 1) -> Callable[[Option], Option]:
    """An option that takes a number, whole where its default is."""
    kind = click.IntRange(least) if isinstance(default, int) else click.FloatRange(least)
    return click.option(name, type=kind, default=default, show_default=True, help=help_text)


@click.group()
def bench() -> None:
    """Measure newsift on this machine."""


@bench.command()
@DATA
@MODEL
@number("--rounds", 7, "Measured rounds, after one that warms up.")
@number("--seconds", 140.0, "Time for the interleaved rows together.", 0)
@click.option("--threads", default="1,2", show_default=True, help="Numbers of threads, by commas.")
@click.option("--only", default="", metavar="ROWS", help="Rows and parts by name, by commas.")
@JSON
def encoder(threads: str, only: str, as_json: bool, **given: Any) -> None:
    """Text to embeddings: ours, as published, and MiniLM, all rows interleaved in one run."""
    from bench.encoder import measure_encoder

    say = ProgressLog().progress
    show(measure_encoder(threads=numbers(threads), only=names(only), say=say, **given), as_json)


@bench.command()
@KAFKA
@DATA
@click.option(
    "--articles", type=click.Path(path_type=Path, exists=True), help="Articles, likewise."
)
@number("--posts", 200_000, "Posts on the topic, for the rates.")
@number("--rounds", 3, "How often every row is measured.")
@number("--seconds", 30.0, "How long the latency is measured.")
@number("--memory-posts", 10_000_000, "Posts for the part `memory`.", 10)
@click.option("--only", default="", metavar="PARTS", help="speed, latency, start, memory.")
@JSON
def stream(only: str, as_json: bool, **given: Any) -> None:
    """The worker on a broker, beside the encoder alone and Faust's agent that does nothing.

    The part `memory` takes long and is measured only by name: --only memory.
    """
    from bench.stream import StreamOptions, measure_stream

    options = StreamOptions(only=names(only), **given)
    show(measure_stream(options, ProgressLog().progress), as_json)


@bench.command()
@KAFKA
@DATA
@number("--posts", 200_000, "Posts on the topic.", 50_000)
@number("--rounds", 3, "How often every configuration is measured.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False, writable=True),
              help="Write the costs to this file, for `newsift plan --costs`.")  # fmt: skip
@JSON
def costs(out: Path | None, as_json: bool, **given: Any) -> None:
    """What a post, a seed and a worker cost, and how well that predicts other configurations."""
    from msgspec import json as msgspec_json

    from bench.costs import measure_costs
    from encoder.support.files import write_atomically

    measured, tables = measure_costs(say=ProgressLog().progress, **given)
    text = msgspec_json.format(msgspec_json.encode(measured), indent=2) + b"\n"
    if out:
        write_atomically(out, text)
    show(tables, as_json)
    if not as_json:
        click.echo(f"\n{text.decode()}", nl=False)


@bench.command()
@KAFKA
@CRISES
@click.option(
    "--minilm", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="langchain4j's jar of MiniLM in int8; without it static vectors alone.",
)  # fmt: skip
@click.option(
    "--lucene", type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Lucene's monitor too: bench/lucene/target, where Maven built it.",
)  # fmt: skip
@number("--posts", 1_000_000, "Posts on the topic.", 1_000)
@number("--rounds", 3, "How often every program is measured.")
@number("--seconds", 20.0, "How long each is measured at most.")
@JSON
def peers(as_json: bool, **given: Any) -> None:
    """The worker beside what a user would write: MiniLM, static vectors, or Lucene's words."""
    from bench.peers import PeersOptions, measure_peers

    show(measure_peers(PeersOptions(**given), ProgressLog().progress), as_json)


@bench.command("collect")
@KAFKA
@DATA
@number("--events", 60_000, "Of the local Jetstream, a round.", 1_000)
@number("--rounds", 3, "How often each interface is measured.")
@JSON
def collecting(as_json: bool, **given: Any) -> None:
    """The collector of Bluesky between a local Jetstream and a broker, each a process."""
    from bench.collect import measure_collect

    show(measure_collect(say=ProgressLog().progress, **given), as_json)


@bench.command()
@MODEL
@CRISES
@number("--draws", 5, "Streams.")
@JSON
def background(as_json: bool, **given: Any) -> None:
    """What thresholds on a background of one's own let pass, and what an event in it costs."""
    from bench.background import measure_background

    show(measure_background(say=ProgressLog().progress, **given), as_json)


@bench.command()
@MODEL
@CRISES
@number("--draws", 10, "Streams.")
@JSON
def profiles(as_json: bool, **given: Any) -> None:
    """Events that learn: profiles beside seeds, on labelled crises among news."""
    from bench.profiles import measure_profiles

    show(measure_profiles(say=ProgressLog().progress, **given), as_json)


@bench.command()
@MODEL
@click.option(
    "--data", type=click.Path(path_type=Path, exists=True),
    help="What python -m train.languages.gather wrote, for texts that taught nothing.",
)  # fmt: skip
@JSON
def languages(model: str, data: Path | None, as_json: bool) -> None:
    """Posts in seventeen languages, found from an English article and from one of their own."""
    from bench.judged import measure_judged
    from bench.languages import measure_languages

    judged = [measure_judged(model, data)] if data else []
    show([measure_languages(model), *judged], as_json)


@bench.command()
@CRISES
@MODEL
@number("--repetitions", 2_000, "How often each stream is drawn.")
@click.option("--precision", type=BETWEEN, default=0.8, show_default=True)
@click.option("--confidence", type=BETWEEN, default=0.9, show_default=True)
@JSON
def promise(precision: float, confidence: float, as_json: bool, **given: Any) -> None:
    """How often a promised precision is broken, on labelled crises drawn again and again."""
    from bench.promise import Promise, measure_promise

    say = ProgressLog().progress
    show([measure_promise(promise=Promise(precision, confidence), say=say, **given)], as_json)


@bench.command()
@DATA
@click.option(
    "--articles", type=click.Path(path_type=Path, exists=True), help="Articles, likewise."
)
@click.option("--seeds", default="10,1000,10000", show_default=True, help="Numbers of seeds.")
@number("--posts", 20_000, "Posts that are compared with them.")
@MODEL
@JSON
def seeds(seeds: str, as_json: bool, **given: Any) -> None:
    """Many seeds: their start, a change, matching, memory, and how many posts match any."""
    from bench.seeds import measure_seeds

    counts = numbers(seeds, "--seeds")
    show(measure_seeds(counts=counts, say=ProgressLog().progress, **given), as_json)


@bench.command()
@CRISES
@MODEL
@JSON
def stories(as_json: bool, **given: Any) -> None:
    """Which matches say the same: retweets and near copies against any two, by their score."""
    from bench.stories import measure_stories

    show(measure_stories(say=ProgressLog().progress, **given), as_json)


def show(parts: Sequence[ResultTable], as_json: bool) -> None:
    """Print what was measured."""
    if as_json:
        click.echo(json.dumps({part.key: part.plain() for part in parts}, ensure_ascii=False))
    else:
        click.echo("\n\n".join(part.render() for part in parts))


def names(text: str) -> frozenset[str]:
    """Names out of a list such as a,b."""
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def numbers(text: str, option: str = "--threads") -> tuple[int, ...]:
    """The numbers of an option out of a list such as 1,2."""
    try:
        counts = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        counts = ()
    if not counts or counts[0] < 1:
        raise click.BadParameter(f"{text!r} is no list such as 1,2", param_hint=option)
    return counts
