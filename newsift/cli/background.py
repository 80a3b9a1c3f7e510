"""`newsift background`: draw the posts that thresholds are computed from, and describe them."""

from itertools import chain
from pathlib import Path
from typing import Any

import click

from encoder.embeddings import Background, Embeddings, read_tensors
from encoder.errors import InputError
from newsift.cli.group import CommandGroup
from newsift.cli.options import ONE_JSON, PATH, kafka_options
from newsift.cli.output import print_fields, print_json, table
from newsift.files.posts import open_inputs, share_read
from newsift.files.read import DASH
from newsift.files.tables import FileOptions
from newsift.files.write import check_targets
from newsift.operations.backgrounds import BackgroundSample, topic_messages
from newsift.operations.messages import notify
from newsift.operations.seed_topic import SeedTopic
from newsift.statistics.background import SPARE_FACTOR
from worker.assembly import load_encoder
from worker.background_file import file_digest
from worker.config import Config
from worker.kafka.reading import connected
from worker.seeds.automatic import (
    MIN_TAIL_POSTS,
    refuse_small,
    tail_error,
    tail_size,
)
from worker.seeds.state import parse_control_state

RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01)
NOTE_FIELDS = ("source", "first", "last", "made")
SUFFIX = ".safetensors"
DEFAULT_POSTS, MAX_POSTS = 20_000, 200_000

Row = dict[str, Any]


def file_fields(file: Path, rate: float) -> Row:
    posts, digest = Background.load(file).read, file_digest(file)
    note, _ = read_tensors(file)
    fields = {"file": str(file), "sha256": digest} | _size_fields(posts, rate)
    return fields | {name: note[name] for name in NOTE_FIELDS if name in note}


def _size_fields(posts: Embeddings, rate: float) -> Row:
    rates = [
        {"rate": row_rate, "tail": tail, "spread": tail_error(tail)}
        for row_rate in sorted({*RATES, rate})
        if (tail := tail_size(len(posts), row_rate)) >= MIN_TAIL_POSTS
    ]
    return {"posts": len(posts), "model": posts.digest, "rates": rates}


def print_background(fields: Row, as_json: bool) -> None:
    if as_json:
        print_json([fields])
        return
    plain = {name: value for name, value in fields.items() if not isinstance(value, list)}
    plain["posts"] = f"{fields['posts']:,}"
    print_fields({name: value for name, value in plain.items() if value})
    click.echo()
    rows = [[f"{r['rate']:g}", r["tail"], f"± {r['spread']:.0%}"] for r in fields["rates"]]
    table(["rate", "posts above a threshold", "so the rate holds to"], rows)


@click.group(cls=CommandGroup)
def background() -> None:
    """Build a background, the posts that automatic thresholds are computed from, or describe one.

    An automatic threshold is the score that one background post in 1,000 reaches
    (matching.background_rate). The model ships everyday posts for this. Build a background of your
    own for a stream that differs: news, another language, one community.
    """


@background.command()
@click.argument("files", nargs=-1, type=PATH, metavar="[FILE]...")
@click.option("--from-topic", is_flag=True, help="Draw them from the posts topic.")
@click.option("--out", type=PATH, default=Path(f"background{SUFFIX}"), show_default=True,
              help="Write them to this file.")  # fmt: skip
@click.option("--posts", "most", type=click.IntRange(1, MAX_POSTS), default=DEFAULT_POSTS,
              show_default=True, help="At most this many posts.")  # fmt: skip
@ONE_JSON
@kafka_options
def build(
    files: tuple[Path, ...], from_topic: bool, out: Path, most: int, as_json: bool, config: Config
) -> None:
    """Draw posts from FILE, as `filter` reads it, or from the topic, and write their embeddings.

    From the topic, each offset that it still holds is equally likely to be read. Posts that score
    well above a seed's automatic threshold are left out, since they would raise it. Copies are left
    out too, and no author gets a second post before every author has one. To use the file, set
    matching.background in the configuration of every worker.
    """
    if bool(files) == from_topic:
        raise click.UsageError("give files, or --from-topic")
    check_targets({"--out": out}, files)
    if out.suffix != SUFFIX:
        raise InputError(f"--out {out}: must end in {SUFFIX}")
    sample, state = BackgroundSample(most), parse_control_state({})
    if from_topic:
        with connected(config) as cluster:
            batches, share = topic_messages(cluster, config, SPARE_FACTOR * most)
            sample.read(batches, share, config, config.posts.format)
            if cluster.exists(config.topics.seeds):
                state = SeedTopic(cluster, config).state()
        source = f"{config.topics.posts} of {config.kafka.bootstrap_servers}"
    else:
        inputs = open_inputs(files, FileOptions(), config.limits)
        sample.read(chain.from_iterable(inputs), share_read(inputs), config, "auto")
        source = ", ".join("standard input" if file == DASH else file.name for file in files)
    rate = config.matching.automatic_rate
    posts = sample.embed(load_encoder(config), state, rate)
    notify(posts.summary())
    refuse_small(source, len(posts.vectors), rate, config.matching.rate_key)
    posts.save(out, source)
    print_background(file_fields(out, rate), as_json)
    notify(f"to use it, set matching.background: {out.resolve()}")


@background.command("show")
@click.argument("file", required=False, type=PATH, metavar="[FILE]")
@ONE_JSON
@kafka_options
def show_background(file: Path | None, as_json: bool, config: Config) -> None:
    """Show a background, and the accuracy of its thresholds.

    Without FILE, show the configured background, or the model's own.
    """
    rate = config.matching.automatic_rate
    if file := file or config.matching.background:
        fields = file_fields(file, rate)
    else:
        fields = {"file": None, "source": "the model's own"}
        fields |= _size_fields(load_encoder(config).background.read, rate)
    print_background(fields, as_json)
