"""`newsift background`: build a background of one's own, or see what one is worth."""

from pathlib import Path

import click

import encoder
from encoder.encoder import Encoder
from encoder.errors import InputError, NewsiftError
from worker.actions.events.event import book_of, values_of
from worker.actions.seeds.topic import SeedTopic
from worker.background.draw import SPARE
from worker.background.file import refuse_small
from worker.cli.background.build import Build
from worker.cli.background.show import compared, of_file, of_the_model, print_background
from worker.cli.background.sources import file_posts, topic_posts
from worker.cli.options import ONE_JSON, kafka_options
from worker.cli.terminal import say
from worker.config import Config
from worker.files.read import DASH
from worker.files.write import check_targets
from worker.kafka.reading import TopicReader, connected
from worker.seeds.set import SeedBook

FILE = click.Path(path_type=Path)
SUFFIX = ".safetensors"
USUAL, MOST = 20_000, 200_000  # posts


@click.group()
def background() -> None:
    """Build the posts that automatic thresholds are found on, or show what they are worth.

    A threshold is the score that one background post in 1,000 reaches (matching.background_rate).
    The model brings everyday posts for it; a stream of news, of another language or of one
    community has its own.
    """


@background.command()
@click.argument("files", nargs=-1, type=FILE, metavar="[FILE]...")
@click.option("--from-topic", is_flag=True, help="Draw them from the posts topic.")
@click.option("--out", type=FILE, default=Path(f"background{SUFFIX}"), show_default=True,
              help="Write them to this file.")  # fmt: skip
@click.option("--posts", "most", type=click.IntRange(1, MOST), default=USUAL, show_default=True,
              help="So many at most.")  # fmt: skip
@ONE_JSON
@kafka_options
def build(
    files: tuple[Path, ...], from_topic: bool, out: Path, most: int, as_json: bool, config: Config
) -> None:
    """Draw posts from FILE, as `filter` reads it, or from the topic, and write their embeddings.

    Of the topic each offset that it still holds is as likely to be read as another, and what scores
    well above a seed's automatic threshold is left out: it would raise that threshold. Copies are
    left out, and nobody has a second post in it before everyone had a first. Name the file as
    matching.background in the configuration of every worker.
    """
    if bool(files) == from_topic:
        raise click.UsageError("give files, or --from-topic")
    check_targets({"--out": out}, files)
    if out.suffix != SUFFIX:
        raise InputError(f"--out {out}: must end in {SUFFIX}")
    made, book = Build(most), SeedBook(config.limits)
    if from_topic:
        with connected(config) as cluster:
            made.read(topic_posts(cluster, config, SPARE * most))
            book = seed_book(cluster, config)
        source = f"{config.topics.posts} of {config.kafka.bootstrap_servers}"
    else:
        made.read(file_posts(files, config))
        source = ", ".join("standard input" if file == DASH else file.name for file in files)
    rate = config.matching.background_rate
    made.embed(loaded(config), book, rate)
    say(made.told())
    refuse_small(source, len(made.vectors), rate)
    made.save(out, source)
    print_background(of_file(out, rate), as_json)
    say(f"it is in force where a configuration says matching.background: {out.resolve()}")


@background.command("show")
@click.argument("file", required=False, type=FILE, metavar="[FILE]")
@ONE_JSON
@kafka_options
def show_background(file: Path | None, as_json: bool, config: Config) -> None:
    """Show a background, how wide its thresholds are, and what those of the seeds become with it.

    Without FILE it is the one of the configuration, else the model's own.
    """
    file, enc = file or config.matching.background, loaded(config)
    rate = config.matching.background_rate
    told = of_file(file, rate) if file else of_the_model(enc, rate)
    try:
        with connected(config) as cluster:
            told["seeds"] = compared(seed_book(cluster, config), enc, rate, file)
    except NewsiftError as error:
        say(f"no thresholds of seeds: {error}")
    print_background(told, as_json)


def seed_book(cluster: TopicReader, config: Config) -> SeedBook:
    """The seeds as they are now; none where their topic is missing."""
    there = cluster.exists(config.topics.seeds)
    latest = SeedTopic(cluster, config).latest() if there else {}
    return book_of(values_of(latest), config.limits)


def loaded(config: Config) -> Encoder:
    """The model of a configuration."""
    model = config.model
    return encoder.load(model.name, device=model.device, threads=model.threads)
