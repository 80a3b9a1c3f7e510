"""`newsift filter`: the worker's own pipeline on files or standard input, without a broker."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

import click
from click.core import ParameterSource

from encoder.errors import InputError
from worker.actions.events.event import Values, book_of
from worker.actions.offline import Sum, idle_profiles, prepared, present
from worker.actions.seeds.files import in_event, read_seed_files, require_articles
from worker.cli.events.offline import Textbook, taught_by
from worker.cli.options import CONFIG, configuration, file_options, model_options
from worker.cli.terminal import prompt_for_text, say
from worker.cli.view.match import when_written
from worker.cli.view.output import Output, output_options
from worker.config import Config
from worker.files.find import found_files
from worker.files.formats.columns import FileOptions
from worker.files.matches import read_match
from worker.files.messages import FileMessage
from worker.files.out.rows import IN_FILE, Add, Finding
from worker.files.posts import FileMessages, checked, columns_of, refuse_many_bad, share_read
from worker.files.read import DASH
from worker.files.write import writing
from worker.match.pipeline import Outcome, Pipeline
from worker.posts.outcome import PassedOver, Post, Rejected
from worker.seeds.set import SeedSet

FILE = click.Path(path_type=Path)
SHARE = click.FloatRange(0, 1, min_open=True)
MODEL_OPTIONS = {"name": "model", "device": "device", "threads": "threads"}  # by their keys
MOST_TOLD = 100  # dead letters; the rest is counted
MOST_EVENTS = 10
Letter = tuple[FileMessage, str]  # a row that could not be worked on, and why


@dataclass(frozen=True, slots=True)
class Came:
    """What came of a batch: of its posts, and of the rows that are none."""

    posts: list[FileMessage]
    letters: list[Letter]
    outcome: Outcome

    @classmethod
    def of(cls, batch: Sequence[FileMessage], pipeline: Pipeline, seeds: SeedSet) -> "Came":
        """Work on a batch."""
        posts = [message for message in batch if isinstance(message.found, Post)]
        outcome = pipeline.run(posts, seeds, present)
        outcome.read = len(batch)
        letters: list[Letter] = []
        for message in batch:
            if isinstance(message.found, PassedOver):
                outcome.passed_over[message.found.why] += 1
            elif isinstance(message.found, Rejected):
                outcome.rejected[message.found.reason] += 1
                letters.append((message, f"{message.found.reason} ({message.found.detail})"))
        for record in (record for record in outcome.records if record.kind == "rejected"):
            told = {name: value.decode() for name, value in record.headers}
            letters.append((posts[record.source], f"{told['reason']} ({told['detail']})"))
        return cls(posts, letters, outcome)


class Sink:
    """Where matches and dead letters go."""

    def __init__(self, show: Add, rejected: IO[bytes] | None) -> None:
        self._show, self._rejected = show, rejected
        if rejected is not None and rejected.isatty():
            raise InputError("--rejected: these bytes could steer a terminal; name a file")

    def write(self, came: Came) -> None:
        """Write what came of a batch; a dead letter is the row as it was."""
        if self._rejected is not None:
            # In one call: Ctrl-C comes before or after it, and leaves no half a line.
            self._rejected.write(b"".join(message.raw + b"\n" for message, _ in came.letters))
        records = came.outcome.records
        values = ((each.value, each.source) for each in records if each.kind == "match")
        self._show(
            [
                Finding(value, record, record.matches, came.posts[source].columns)
                for value, source in values
                if value is not None and (record := read_match(value))
            ]
        )


@click.command(name="filter")
@click.argument("files", nargs=-1, type=FILE)
@click.option("--seeds", required=True, multiple=True, type=FILE, metavar="PATH",
              help="A seed article, or a folder of them; may be repeated.")  # fmt: skip
@click.option("--event", help="The event of all seeds; else the record's, the folder's, the id.")
@click.option("--force", is_flag=True, help="Take what looks like no article, or has < 40 words.")
@click.option("--threshold", type=SHARE, help="The score that is a match; automatic if not given.")
@click.option("--rate", type=SHARE, help="For automatic thresholds: the share of everyday posts.")
@click.option("--why/--no-why", default=None, help="Whether to name the words of each match.")
@click.option("--learn", is_flag=True, help="Let events learn in a first pass over FILES.")
@click.option(
    "--learn-from",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="Let events learn from this file.",
)
@file_options
@output_options
@click.option("--rejected", type=FILE, help="Keep the lines that cannot be read in this file.")
@CONFIG
@model_options
@click.pass_context
def filter_posts(
    ctx: click.Context, files: tuple[Path, ...], seeds: tuple[Path, ...], event: str | None,
    force: bool, threshold: float | None,
    rate: float | None, why: bool | None, learn: bool, learn_from: tuple[Path, ...],
    wanted: FileOptions, output: Output, rejected: Path | None,
    config_file: Path | None, model: str, device: str, threads: int | None,
) -> None:  # fmt: skip
    """Print the posts in FILES, or on standard input (-), that match the seed articles.

    FILES hold posts as platforms and tools write them: JSON lines and arrays, CSV, twarc's pages,
    exports of Bluesky, Mastodon, Reddit and Telegram, Parquet, plain text; packed or not, folders
    and patterns too (docs/files.md). A seed is a text, a Markdown file whose first line is
    "# Title", a page that was saved, JSON as on the control topic, or what `newsift seeds export`
    wrote, profiles included. Each file of a folder is an event, and each subfolder is one.

    With --learn each event gets a profile of its seeds, the background and its best posts, as
    `newsift events learn` makes it. Matches are the worker's own records, one a line, with equal
    ids; on a terminal they are shown to be read, unless --json is given. --out takes an old file's
    place at the end, or on Ctrl-C with what was found; an error leaves the old one.
    """
    sources = found_files(files or (DASH,))
    output.check(sources, rejected=rejected)
    if DASH in seeds and DASH in sources:
        raise InputError("--seeds -: standard input holds the posts; name a file")
    config = configuration(None, config_file)
    config = _chosen(ctx, config, why, threshold, rate)
    textbook = Textbook.of(sources, learn, learn_from, wanted)
    if DASH in sources:
        prompt_for_text()
    values = _seed_values(seeds, event, force)
    inputs = checked(sources, wanted, config.limits, say)
    pipeline, seed_set = _ready(values, config, textbook)
    total = Sum(share_read(inputs))
    letters = writing(rejected) if rejected else nullcontext()
    moment = when_written if output.is_seen else None
    with output.open(IN_FILE, moment, columns_of(inputs)) as show, letters as kept:
        _pass(inputs, pipeline, seed_set, Sink(show, kept), total, quiet=output.is_seen)
    refuse_many_bad(total.rejected.total(), total.progress.done)


def _pass(
    inputs: Iterable[FileMessages], pipeline: Pipeline, seeds: SeedSet, sink: Sink, total: Sum,
    quiet: bool,
) -> None:  # fmt: skip
    """Work on all inputs, and tell the sum, on Ctrl-C too."""
    try:
        for batch in chain.from_iterable(inputs):
            came = Came.of(batch, pipeline, seeds)
            sink.write(came)
            _tell_rejected(came.letters, total.rejected.total())
            total.add(came.outcome, quiet)
    except KeyboardInterrupt:
        _conclude(total, len(seeds))
        raise
    _conclude(total, len(seeds))


def _chosen(
    ctx: click.Context, config: Config, why: bool | None, threshold: float | None,
    rate: float | None,
) -> Config:  # fmt: skip
    """The configuration, with the options of the command line in the place of its keys."""
    given: dict[str, Any] = {"threshold": threshold, "background_rate": rate, "why": why}
    matching = {key: value for key, value in given.items() if value is not None}
    automatic = {} if rate is None else {"threshold": None}
    model = {
        name: ctx.params[option] for name, option in MODEL_OPTIONS.items()
        if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE
    }  # fmt: skip
    return replace(
        config,
        posts=replace(config.posts, format="auto"),
        matching=replace(config.matching, **(automatic | matching)),
        model=replace(config.model, **model),
    )


def _seed_values(paths: Sequence[Path], event: str | None, force: bool) -> Values:
    """The records of these files and folders."""
    drafts = read_seed_files(paths)
    if not force:
        require_articles(drafts)
    if event is not None:
        drafts = in_event(drafts, event)
    return {draft.key: draft.value for draft in drafts}


def _ready(values: Values, config: Config, textbook: Textbook | None) -> tuple[Pipeline, SeedSet]:
    """The pipeline, and the seeds with what their events have learned."""
    if textbook:
        values = taught_by(textbook, values, config)
    pipeline, seeds = prepared(book_of(values, config.limits), config)
    for idle in idle_profiles(seeds):
        say(f"{idle}; its seeds serve")
    return pipeline, seeds


def _tell_rejected(letters: Sequence[Letter], before: int) -> None:
    """Tell of the dead letters of a batch, as long as they are not too many."""
    for count, (message, why) in zip(range(before, MOST_TOLD + 1), letters, strict=False):
        if count == MOST_TOLD:
            say("rejected: more lines are rejected; from here on they are only counted")
            return
        say(f"rejected: {message.topic} {message.place}: {why}")


def _conclude(total: Sum, seeds: int) -> None:
    """Tell the sum."""
    read = total.progress.done
    if total.rejected.total() == read > 0:
        raise InputError("no row could be read as a post; name what they are with --format")
    say(
        f"{read:,} posts read, {total.matched:,} matched"
        f"{_listed('passed over', total.passed_over)}{_listed('rejected', total.rejected)}; "
        f"{seeds:,} {'seed' if seeds == 1 else 'seeds'}, {total.progress.rate(' posts/s')}"
    )
    for event, count in total.events.most_common(MOST_EVENTS):
        say(f"{count:>7,} {'match' if count == 1 else 'matches'} of {event}")


def _listed(name: str, counts: Counter[str]) -> str:
    parts = ", ".join(f"{count:,} {key}" for key, count in sorted(counts.items()))
    return f", {counts.total():,} {name} ({parts})" if counts else ""
