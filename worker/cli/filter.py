"""`newsift filter`: the worker's own pipeline on files or standard input, without a broker."""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO

import click
from click.core import ParameterSource

import encoder
from encoder.errors import InputError
from worker.cli.options import CONFIG, CSV, configuration, model_options
from worker.cli.seeds.files import read_seed_files
from worker.cli.terminal import ProgressLine, prompt_for_text, say
from worker.config import Config
from worker.files.matches import IN_FILE, csv_header, csv_rows, json_line, read_match
from worker.files.posts import INPUTS, FileMessage, FileMessages
from worker.files.read import DASH
from worker.files.write import check_targets, writing
from worker.match.assembly import assembled
from worker.match.pipeline import Outcome
from worker.posts.times import rfc3339
from worker.seeds.set import SeedBook, SeedSet

FILE = click.Path(path_type=Path)
MODEL_OPTIONS = {"name": "model", "device": "device", "threads": "threads"}  # by their keys
MOST_TOLD = 100  # dead letters; the rest is counted
MOST_EVENTS = 10


class Sink:
    """Where matches and dead letters go."""

    def __init__(self, matches: IO[bytes], rejected: IO[bytes] | None, as_csv: bool) -> None:
        self._matches, self._rejected, self._as_csv = matches, rejected, as_csv
        self._terminal = (sys.stdout if matches is sys.stdout.buffer else matches).isatty()
        if rejected is not None and rejected.isatty():
            raise InputError("--rejected: these bytes could steer a terminal; name a file")
        if as_csv:
            matches.write(csv_header(IN_FILE))

    def write(self, lines: Sequence[FileMessage], outcome: Outcome) -> None:
        """Write what came of a batch; a dead letter is the line as it was."""
        found, kept = [], []
        for record in outcome.records:
            if record.kind == "match":
                found.append(self._match(record.value or b""))
            else:
                kept.append(lines[record.source].raw + b"\n")
        # In one call each: Ctrl-C comes before or after it, and leaves no half a line.
        if self._rejected is not None:
            self._rejected.write(b"".join(kept))
        self._matches.write(b"".join(found))
        self._matches.flush()

    def _match(self, value: bytes) -> bytes:
        record = read_match(value) if self._as_csv else None
        if record is None:
            return json_line(value) + b"\n"
        return csv_rows(record, record.matches, IN_FILE, self._terminal)


class Report:
    """What is told on standard error: dead letters, progress on a terminal, and the sum."""

    def __init__(self) -> None:
        self._progress = ProgressLine()
        self._matched = 0
        self._rejected: Counter[str] = Counter()
        self._passed_over: Counter[str] = Counter()
        self._events: Counter[str] = Counter()

    def add(self, lines: Sequence[FileMessage], outcome: Outcome) -> None:
        """Count a batch, and tell of its dead letters and how far we are."""
        for record in outcome.records:
            if record.kind == "rejected":
                headers = {name: value.decode() for name, value in record.headers}
                self._refuse(lines[record.source], headers["reason"], headers["detail"])
        self._matched += outcome.matched
        self._passed_over.update(outcome.passed_over)
        self._events.update(outcome.events)
        self._progress.add(outcome.read, "posts", f", {self._matched:,} matched")

    def _refuse(self, line: FileMessage, reason: str, detail: str) -> None:
        self._rejected[reason] += 1
        count = self._rejected.total()
        if count <= MOST_TOLD:
            say(f"rejected: {line.topic} line {line.offset + 1}: {reason} ({detail})")
        elif count == MOST_TOLD + 1:
            say("rejected: more lines are rejected; from here on they are only counted")

    def conclude(self, seeds: int) -> None:
        """Tell the sum."""
        read = self._progress.done
        if self._rejected.total() == read > 0:
            raise InputError("no line could be read as a post; name what they are with --form")
        say(
            f"{read:,} posts read, {self._matched:,} matched"
            f"{_listed('passed over', self._passed_over)}{_listed('rejected', self._rejected)}; "
            f"{seeds:,} {'seed' if seeds == 1 else 'seeds'}, {self._progress.rate(' posts/s')}"
        )
        for event, count in self._events.most_common(MOST_EVENTS):
            say(f"{count:>7,}  {event}")


@click.command(name="filter")
@click.argument("files", nargs=-1, type=FILE)
@click.option("--seeds", required=True, type=FILE, help="A seed article, or a folder of them.")
@click.option("--threshold", type=float, help="The score that is a match; automatic if not given.")
@click.option("--rate", type=float, help="For automatic thresholds: the share of everyday posts.")
@click.option("--form", type=click.Choice(INPUTS), help="What the lines are; auto tells by itself.")
@click.option("--why/--no-why", default=None, help="Whether to name the words of each match.")
@CSV
@click.option("--out", type=FILE, default=DASH, help="Write the matches to this file.")
@click.option("--rejected", type=FILE, help="Keep the lines that cannot be read in this file.")
@CONFIG
@model_options
@click.pass_context
def filter_posts(
    ctx: click.Context, files: tuple[Path, ...], seeds: Path, threshold: float | None,
    rate: float | None, form: str | None, why: bool | None, as_csv: bool, out: Path,
    rejected: Path | None, config_file: Path | None, model: str, device: str, threads: int | None,
) -> None:  # fmt: skip
    """Print the posts in FILES, or on standard input (-), that match the seed articles.

    A line is a post: JSON of any form that the worker reads, or plain text; gzip is unpacked. A
    seed is a text, a Markdown file whose first line is "# Title", or JSON as on the control topic.
    Matches are the worker's own records, one a line, with equal ids. --out packs a file that ends
    in .gz; it takes the old one's place at the end, or on Ctrl-C with what was found; an error
    leaves the old one.
    """
    sources = files or (DASH,)
    targets = {"--out": out} | ({"--rejected": rejected} if rejected else {})
    check_targets(targets, sources)
    config = configuration(None, config_file)
    form = form or config.posts.format
    config = _chosen(ctx, config, form, why, threshold, rate)
    book, chosen = _book(seeds, config), config.model
    enc = encoder.load(chosen.name, device=chosen.device, threads=chosen.threads)
    pipeline, embedder = assembled(enc, config)
    seed_set = embedder.make(book)
    _refuse(seed_set)
    if DASH in sources:
        prompt_for_text()
    report = Report()
    with writing(out) as matches, writing(rejected) if rejected else nullcontext() as letters:
        sink = Sink(matches, letters, as_csv)
        try:
            for source in sources:
                for lines in FileMessages(source, form, config.limits):
                    outcome = pipeline.run(lines, seed_set, _now)
                    sink.write(lines, outcome)
                    report.add(lines, outcome)
        except KeyboardInterrupt:
            report.conclude(len(seed_set))
            raise
        report.conclude(len(seed_set))


def _now() -> str:
    return rfc3339(int(time.time() * 1000))


def _chosen(
    ctx: click.Context, config: Config, form: str, why: bool | None, threshold: float | None,
    rate: float | None,
) -> Config:  # fmt: skip
    """The configuration, with the options of the command line in the place of its keys."""
    for name, given in (("threshold", threshold), ("rate", rate)):
        if given is not None and not 0 < given <= 1:
            raise InputError(f"--{name} {given:g}: is not above 0 and at most 1")
    matching = config.matching
    model = {
        name: ctx.params[option] for name, option in MODEL_OPTIONS.items()
        if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE
    }  # fmt: skip
    return replace(
        config,
        posts=replace(config.posts, format="auto" if form == "lines" else form),
        matching=replace(
            matching,
            threshold=matching.threshold if threshold is None and rate is None else threshold,
            background_rate=matching.background_rate if rate is None else rate,
            why=matching.why if why is None else why,
        ),
        model=replace(config.model, **model),
    )


def _book(path: Path, config: Config) -> SeedBook:
    """The seeds of a file or a folder; offline, one that is refused stops everything."""
    book = SeedBook(config.limits)
    for draft in read_seed_files([path]):
        book.apply(draft.key, draft.value)
    _refuse(book)
    return book


def _refuse(seeds: SeedBook | SeedSet) -> None:
    for refused in seeds.refused:
        raise InputError(f"seed {refused.id!r}: {refused.reason}")


def _listed(name: str, counts: Counter[str]) -> str:
    parts = ", ".join(f"{count:,} {key}" for key, count in sorted(counts.items()))
    return f", {counts.total():,} {name} ({parts})" if counts else ""
