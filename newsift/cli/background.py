"""`newsift background`: draw the posts that thresholds are computed from, and describe them."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import click
import numpy as np

from encoder.embeddings import Embeddings, embeddings_writer, read_tensors
from encoder.encoder import Encoder
from encoder.errors import InputError
from newsift.cli.group import CommandGroup
from newsift.cli.options import ONE_JSON, PATH, kafka_options
from newsift.cli.output import print_fields, print_json, table
from newsift.files.messages import FileMessage
from newsift.files.posts import open_inputs, share_read
from newsift.files.read import DASH
from newsift.files.tables import FileOptions
from newsift.files.write import check_targets
from newsift.operations.messages import ProgressLine, notify
from newsift.operations.offline_pipeline import load_encoder
from newsift.operations.offset_samples import sample_spans
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import now_text
from newsift.statistics.background import SPARE_FACTOR, PostSampler, match_seeds, take_author_turns
from worker.background_file import file_digest
from worker.config import Config
from worker.kafka.reading import StoredMessage, TopicReader, connected, records_between
from worker.match.pipeline import read_safely
from worker.posts.languages import Languages
from worker.posts.read import Post
from worker.posts.times import rfc3339
from worker.seeds.background import (
    MIN_TAIL_POSTS,
    refuse_small,
    tail_error,
    tail_size,
)
from worker.seeds.embedder import SeedEmbedder, row_problems
from worker.seeds.state import ControlState, parse_control_state
from worker.text import plural

WINDOWS_PER_PARTITION = 64
RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01)
NOTE_FIELDS = ("source", "first", "last", "made")
SUFFIX = ".safetensors"
DEFAULT_POSTS, MAX_POSTS = 20_000, 200_000

Row = dict[str, Any]
Batches = Iterable[Sequence[StoredMessage | FileMessage]]
Share = Callable[[int], float]  # of all messages, by the number of those that were read


def topic_messages(cluster: TopicReader, config: Config, most: int) -> tuple[Batches, Share]:
    """About `most` messages of the posts topic, drawn uniformly from its offsets."""
    topic = config.topics.posts
    begins, ends = cluster.beginnings(topic), cluster.ends(topic)
    spans = sample_spans(begins, ends, most, WINDOWS_PER_PARTITION, Random())
    batches = chain.from_iterable(cluster.read(topic, *span) for span in spans)
    total = max(min(most, records_between(begins, ends)), 1)
    return batches, lambda count: count / total


class BackgroundBuilder:
    vectors: Embeddings

    def __init__(self, most: int) -> None:
        self._most, self._sampler = most, PostSampler(most)
        self._times: tuple[int, int] | None = None
        self._no_post = self._near = self._wordless = 0

    def read(self, batches: Batches, share: Share, config: Config, form: str) -> None:
        langs, progress = Languages.parse(config.posts.langs), ProgressLine(share)
        for message in chain.from_iterable(batches):
            progress.add(1, "messages read")
            if isinstance(message, FileMessage) and not message.value:
                reading = message.reading
            else:
                reading = read_safely(message.value, form, config.limits, langs)
            if not isinstance(reading, Post):
                self._no_post += 1
                continue
            self._sampler.add(reading)
            if (at := message.timestamp) > 0:
                first, last = self._times or (at, at)
                self._times = min(first, at), max(last, at)

    def embed(self, enc: Encoder, state: ControlState, rate: float) -> None:
        """Embed the sample without posts near a seed; authors take turns."""
        sample = self._sampler.posts()
        vectors = enc.posts([post.text for post in sample])
        seeds = SeedEmbedder(enc, rate, threshold=1.0).make(state)
        close = match_seeds(vectors, seeds.embeddings, enc, rate)
        unusable = row_problems(vectors)
        rows = [row for row in np.flatnonzero(~close).tolist() if row not in unusable]
        turns = take_author_turns([sample[row] for row in rows], self._most)
        self._near = int(close.sum())
        self._wordless = self._sampler.wordless + len(sample) - self._near - len(rows)
        self.vectors = vectors[[rows[turn] for turn in turns]]

    def summary(self) -> str:
        sampler = self._sampler
        left_out = {
            "no posts": self._no_post,
            "without words": self._wordless,
            "copies": sampler.copies,
            "near a seed, which would raise its threshold": self._near,
        }
        others = sampler.read + self._no_post - sum(left_out.values())
        left_out["beyond --posts"] = others - len(self.vectors)
        counts = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)
        return (
            f"{plural(sampler.read + self._no_post, 'message')} read; left out: {counts or 'none'}"
        )

    def save(self, out: Path, source: str) -> None:
        enc, times = self.vectors, self._times
        note = {"source": source, "made": now_text()}
        if times:
            note |= {"first": rfc3339(times[0]), "last": rfc3339(times[1])}
        with embeddings_writer(
            out.resolve(), enc.dense.shape[1], enc.mix, enc.digest, note
        ) as file:
            file.add(enc.dense, enc.lexical)


def file_fields(file: Path, rate: float) -> Row:
    posts, digest = Embeddings.load(file), file_digest(file)
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

    A threshold is the score that one background post in 1,000 reaches (matching.background_rate).
    The model ships everyday posts for this. Build a background of your own for a stream that
    differs: news, another language, one community.
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
    builder, state = BackgroundBuilder(most), parse_control_state({})
    if from_topic:
        with connected(config) as cluster:
            batches, share = topic_messages(cluster, config, SPARE_FACTOR * most)
            builder.read(batches, share, config, config.posts.format)
            state = seed_state(cluster, config)
        source = f"{config.topics.posts} of {config.kafka.bootstrap_servers}"
    else:
        inputs = open_inputs(files, FileOptions(), config.limits)
        builder.read(chain.from_iterable(inputs), share_read(inputs), config, "auto")
        source = ", ".join("standard input" if file == DASH else file.name for file in files)
    rate = config.matching.automatic_rate
    builder.embed(load_encoder(config), state, rate)
    notify(builder.summary())
    refuse_small(source, len(builder.vectors), rate, config.matching.rate_key)
    builder.save(out, source)
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
        fields |= _size_fields(load_encoder(config).background, rate)
    print_background(fields, as_json)


def seed_state(cluster: TopicReader, config: Config) -> ControlState:
    """No seeds where the topic is missing."""
    exists = cluster.exists(config.topics.seeds)
    return SeedTopic(cluster, config).state() if exists else parse_control_state({})
