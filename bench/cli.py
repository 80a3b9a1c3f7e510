"""`newsift bench`: what the README claims, measured again on this machine."""

import json
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from bench.measure import Report, ResultTable
from bench.texts import SHARED_DATA
from newsift.cli.group import CommandGroup
from train.loop.progress import ProgressLog

Option = TypeVar("Option", bound=Callable[..., Any])


def require_data(context: click.Context, option: click.Parameter, data: Path | None) -> Path:
    """The data beside the checkout, if no other is given."""
    if data is None and not SHARED_DATA.is_dir():
        raise click.MissingParameter(ctx=context, param=option)
    return data or SHARED_DATA


def parse_numbers(context: click.Context, option: click.Parameter, text: str) -> tuple[int, ...]:
    """The numbers of a list such as 1,2."""
    try:
        counts = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        counts = ()
    if not counts or counts[0] < 1:
        raise click.BadParameter(f"{text!r} is not a list such as 1,2", context, option)
    return counts


def number_option(
    name: str, default: float, help_text: str, least: int = 1
) -> Callable[[Option], Option]:
    """An option for a number; for an integer if its default is one."""
    kind = click.IntRange(least) if isinstance(default, int) else click.FloatRange(least)
    return click.option(name, type=kind, default=default, show_default=True, help=help_text)


def reader_option(help_text: str) -> Callable[[Option], Option]:
    kind = click.Choice(["read", "skim"])
    return click.option("--reader", type=kind, default="read", show_default=True, help=help_text)


PATH = click.Path(path_type=Path, exists=True)
DATA = click.option(
    "--data", type=PATH, help="A file or folder of posts: JSON lines (.gz), or a data folder of "
    "training; the samples if not given.",
)  # fmt: skip
ARTICLES = click.option(
    "--articles", type=PATH, help="A file or folder of articles, in the format of --data."
)
CRISIS_DATA = click.option(
    "--data", type=PATH, callback=require_data,
    help="A data folder of training, with crises and news (docs/training.md).",
)  # fmt: skip
MODEL = click.option(
    "--model", default="default", show_default=True, help="A model's name or directory."
)
KAFKA = click.option("--kafka", envvar="NEWSIFT_KAFKA", help="A broker; default: the embedded one.")
OPEN_UNIT_RANGE = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.group(cls=CommandGroup)
def bench() -> None:
    """Measure newsift on this machine."""


def prints_tables(measure: Callable[..., Sequence[ResultTable]]) -> Callable[..., None]:
    """Add --json, and print the tables that the command returns."""

    @click.option("--json", "as_json", is_flag=True, help="One JSON object in place of tables.")
    @wraps(measure)
    def command(as_json: bool, **options: Any) -> None:
        tables = measure(ProgressLog().progress, **options)
        if as_json:
            plain = {table.key: table.plain() for table in tables}
            click.echo(json.dumps(plain, ensure_ascii=False))
        else:
            click.echo("\n\n".join(table.render() for table in tables))

    return command


@bench.command()
@DATA
@MODEL
@number_option("--rounds", 7, "Measured rounds, after one that warms up.")
@number_option("--seconds", 140.0, "Time for the interleaved rows together.", 0)
@click.option(
    "--threads", default="1,2", show_default=True, callback=parse_numbers,
    help="Thread counts, separated by commas.",
)  # fmt: skip
@prints_tables
def encoder(report: Report, **options: Any) -> list[ResultTable]:
    """Text to embeddings: newsift's encoder and MiniLM, interleaved."""
    from bench.encoder import measure_encoder

    return measure_encoder(report=report, **options)


@bench.command()
@KAFKA
@DATA
@ARTICLES
@number_option("--posts", 200_000, "Posts on the topic, for the rates.")
@number_option("--rounds", 3, "How often every row is measured.")
@number_option("--seconds", 30.0, "How long the latency is measured.")
@prints_tables
def stream(report: Report, **options: Any) -> list[ResultTable]:
    """The worker on a broker, beside the encoder alone and Faust's agent that does nothing."""
    from bench.stream import StreamOptions, measure_stream

    return measure_stream(StreamOptions(**options), report)


@bench.command()
@KAFKA
@DATA
@click.option(
    "--minilm", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="MiniLM with newsift's words too: langchain4j's jar of it in int8.",
)  # fmt: skip
@click.option("--mpnet", is_flag=True, help="MPNet with newsift's words too.")
@click.option(
    "--lucene", type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Lucene's monitor too: bench/lucene/target, where Maven built it.",
)  # fmt: skip
@number_option("--posts", 1_000_000, "Posts on the topic.", 1_000)
@number_option("--rounds", 3, "How often every program is measured.")
@number_option("--seconds", 20.0, "The longest time for each.")
@prints_tables
def peers(report: Report, **options: Any) -> list[ResultTable]:
    """The worker beside MiniLM and MPNet in two Kafka clients, and Lucene's keyword queries."""
    from bench.peers import PeersOptions, measure_peers

    return measure_peers(PeersOptions(**options), report)


@bench.command()
@MODEL
@CRISIS_DATA
@number_option("--draws", 10, "Number of streams to draw.")
@prints_tables
def profiles(report: Report, **options: Any) -> list[ResultTable]:
    """Events that learn: profiles beside seeds, on labelled crises among news."""
    from bench.profiles import measure_profiles

    return measure_profiles(report=report, **options)


@bench.command()
@CRISIS_DATA
@MODEL
@number_option("--repetitions", 2_000, "How often each stream is drawn.")
@click.option("--precision", type=OPEN_UNIT_RANGE, default=0.8, show_default=True)
@click.option("--confidence", type=OPEN_UNIT_RANGE, default=0.9, show_default=True)
@reader_option("How posts are seen; most of the time goes into reading them.")
@click.option(
    "--unsure", type=click.FloatRange(0, 1), default=0.0, show_default=True,
    help="The share of posts on the event whose label is unsure, or off by mistake.",
)  # fmt: skip
@prints_tables
def promise(report: Report, **options: Any) -> list[ResultTable]:
    """How often a promised precision is broken, on labelled crises drawn again and again."""
    from bench.promise import PromiseOptions, measure_promise

    return measure_promise(PromiseOptions(**options), report)


@bench.command()
@click.option(
    "--data", type=PATH,
    help="A data folder of training: its crises too; flat streams alone if not given.",
)  # fmt: skip
@MODEL
@number_option("--repetitions", 1_000, "How often labels are drawn.")
@prints_tables
def estimate(report: Report, **options: Any) -> list[ResultTable]:
    """How often the interval of a count misses it, where every verdict is known."""
    from bench.estimate import measure_estimate

    return measure_estimate(report=report, **options)


@bench.command()
@DATA
@ARTICLES
@click.option(
    "--seeds", "counts", default="10,1000,10000", show_default=True, callback=parse_numbers,
    help="Numbers of seeds.",
)  # fmt: skip
@number_option("--posts", 20_000, "Posts compared with the seeds.")
@MODEL
@prints_tables
def seeds(report: Report, **options: Any) -> list[ResultTable]:
    """Many seeds: start-up time, update time, comparing, memory, posts that are read."""
    from bench.seeds import measure_seeds

    return measure_seeds(report=report, **options)


@bench.command()
@DATA
@ARTICLES
@number_option("--posts", 1_000, "Posts that are read, here and in float64.")
@MODEL
@prints_tables
def sameness(report: Report, **options: Any) -> list[ResultTable]:
    """Scores as this machine reads them beside those in float64."""
    from bench.sameness import measure_sameness

    return measure_sameness(report=report, **options)


@bench.command()
@CRISIS_DATA
@MODEL
@reader_option("Whose vectors decide.")
@prints_tables
def stories(report: Report, **options: Any) -> list[ResultTable]:
    """Which matches say the same: retweets and near copies against random pairs, by score."""
    from bench.stories import measure_stories

    return measure_stories(report=report, **options)
