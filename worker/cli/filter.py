"""`newsift filter`: the worker's own pipeline on files or standard input, without a broker."""

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import click
from click.core import ParameterSource

from encoder.errors import InputError
from worker.cli.events.event import Values, book_of
from worker.cli.events.offline import Textbook, taught_by
from worker.cli.offline import Sum, idle_profiles, prepared, present
from worker.cli.options import CONFIG, configuration, model_options
from worker.cli.seeds.files import read_seed_files, undoubted
from worker.cli.terminal import prompt_for_text, say
from worker.cli.view.output import Output, output_options
from worker.config import Config
from worker.files.matches import read_match
from worker.files.out.rows import IN_FILE, Add, Finding
from worker.files.posts import INPUTS, FileMessage, FileMessages
from worker.files.read import DASH
from worker.files.write import writing
from worker.match.pipeline import Outcome, Pipeline
from worker.seeds.set import SeedSet

FILE = click.Path(path_type=Path)
SHARE = click.FloatRange(0, 1, min_open=True)
MODEL_OPTIONS = {"name": "model", "device": "device", "threads": "threads"}  # by their keys
MOST_TOLD = 100  # dead letters; the rest is counted
MOST_EVENTS = 10


class Sink:
    """Where matches and dead letters go."""

    def __init__(self, show: Add, rejected: IO[bytes] | None) -> None:
        self._show, self._rejected = show, rejected
        if rejected is not None and rejected.isatty():
            raise InputError("--rejected: these bytes could steer a terminal; name a file")

    def write(self, lines: Sequence[FileMessage], outcome: Outcome) -> None:
        """Write what came of a batch; a dead letter is the line as it was."""
        if self._rejected is not None:
            kept = (lines[each.source].raw for each in outcome.records if each.kind == "rejected")
            # In one call: Ctrl-C comes before or after it, and leaves no half a line.
            self._rejected.write(b"".join(raw + b"\n" for raw in kept))
        values = ((each.value, each.source) for each in outcome.records if each.kind == "match")
        self._show(
            [
                Finding(value, record, record.matches, lines[source].columns)
                for value, source in values
                if value is not None and (record := read_match(value))
            ]
        )


@click.command(name="filter")
@click.argument("files", nargs=-1, type=FILE)
@click.option("--seeds", required=True, type=FILE, help="A seed article, or a folder of them.")
@click.option("--threshold", type=SHARE, help="The score that is a match; automatic if not given.")
@click.option("--rate", type=SHARE, help="For automatic thresholds: the share of everyday posts.")
@click.option("--form", type=click.Choice(INPUTS), help="What the lines are; auto tells by itself.")
@click.option("--why/--no-why", default=None, help="Whether to name the words of each match.")
@click.option("--learn", is_flag=True, help="Let events learn in a first pass over FILES.")
@click.option(
    "--learn-from",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="Let events learn from this file.",
)
@output_options
@click.option("--rejected", type=FILE, help="Keep the lines that cannot be read in this file.")
@CONFIG
@model_options
@click.pass_context
def filter_posts(
    ctx: click.Context, files: tuple[Path, ...], seeds: Path, threshold: float | None,
    rate: float | None, form: str | None, why: bool | None, learn: bool,
    learn_from: tuple[Path, ...], output: Output, rejected: Path | None,
    config_file: Path | None, model: str, device: str, threads: int | None,
) -> None:  # fmt: skip
    """Print the posts in FILES, or on standard input (-), that match the seed articles.

    A line is a post: JSON of any form that the worker reads, or plain text; gzip is unpacked. A
    seed is a text, a Markdown file whose first line is "# Title", JSON as on the control topic, or
    what `newsift seeds export` wrote, profiles included. With --learn each event gets a profile of
    its seeds, the background and its best posts, as `newsift events learn` makes it.
    Matches are the worker's own records, one a line, with equal ids. --out packs a file that ends
    in .gz; it takes the old one's place at the end, or on Ctrl-C with what was found; an error
    leaves the old one.
    """
    sources = files or (DASH,)
    output.check(sources, rejected=rejected)
    config = configuration(None, config_file)
    form = form or config.posts.format
    config = _chosen(ctx, config, form, why, threshold, rate)
    textbook = Textbook.of(sources, learn, learn_from, form)
    pipeline, seed_set = _ready(seeds, config, textbook)
    if DASH in sources:
        prompt_for_text()
    total = Sum()
    letters = writing(rejected) if rejected else nullcontext()
    with output.open(IN_FILE) as show, letters as kept:
        sink = Sink(show, kept)
        try:
            for source in sources:
                for lines in FileMessages(source, form, config.limits):
                    outcome = pipeline.run(lines, seed_set, present)
                    sink.write(lines, outcome)
                    _tell_rejected(lines, outcome, total.rejected.total())
                    total.add(outcome)
        except KeyboardInterrupt:
            _conclude(total, len(seed_set))
            raise
        _conclude(total, len(seed_set))


def _chosen(
    ctx: click.Context, config: Config, form: str, why: bool | None, threshold: float | None,
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
        posts=replace(config.posts, format="auto" if form == "lines" else form),
        matching=replace(config.matching, **(automatic | matching)),
        model=replace(config.model, **model),
    )


def _ready(path: Path, config: Config, textbook: Textbook | None) -> tuple[Pipeline, SeedSet]:
    """The pipeline, and the seeds with what their events have learned."""
    drafts = read_seed_files([path])
    undoubted(drafts)
    values: Values = {draft.key: draft.value for draft in drafts}
    if textbook:
        values = taught_by(textbook, values, config)
    pipeline, seeds = prepared(book_of(values, config.limits), config)
    for idle in idle_profiles(seeds):
        say(f"{idle}; its seeds serve")
    return pipeline, seeds


def _tell_rejected(lines: Sequence[FileMessage], outcome: Outcome, before: int) -> None:
    """Tell of the dead letters of a batch, as long as they are not too many."""
    letters = (record for record in outcome.records if record.kind == "rejected")
    for count, record in zip(range(before, MOST_TOLD + 1), letters, strict=False):
        if count == MOST_TOLD:
            say("rejected: more lines are rejected; from here on they are only counted")
            return
        line = lines[record.source]
        headers = {name: value.decode() for name, value in record.headers}
        why = f"{headers['reason']} ({headers['detail']})"
        say(f"rejected: {line.topic} line {line.offset + 1}: {why}")


def _conclude(total: Sum, seeds: int) -> None:
    """Tell the sum."""
    read = total.progress.done
    if total.rejected.total() == read > 0:
        raise InputError("no line could be read as a post; name what they are with --form")
    say(
        f"{read:,} posts read, {total.matched:,} matched"
        f"{_listed('passed over', total.passed_over)}{_listed('rejected', total.rejected)}; "
        f"{seeds:,} {'seed' if seeds == 1 else 'seeds'}, {total.progress.rate(' posts/s')}"
    )
    for event, count in total.events.most_common(MOST_EVENTS):
        say(f"{count:>7,}  {event}")


def _listed(name: str, counts: Counter[str]) -> str:
    parts = ", ".join(f"{count:,} {key}" for key, count in sorted(counts.items()))
    return f", {counts.total():,} {name} ({parts})" if counts else ""
