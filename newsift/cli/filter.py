"""`newsift filter`: filter files of posts with the pipeline of the worker, without a broker."""

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

import click

from encoder.errors import InputError
from newsift.cli.options import (
    CONFIG,
    PATH,
    FiniteRange,
    configuration,
    file_options,
    model_options,
    option_group,
    with_model,
)
from newsift.cli.output import Output, output_options, post_time
from newsift.cli.terminal import prompt_for_text
from newsift.files.messages import FileMessage
from newsift.files.posts import FileMessages, columns_of, open_inputs, refuse_many_bad, share_read
from newsift.files.read import DASH, find_files
from newsift.files.rows import FILE_SOURCE, AddRecords, OutputRecord, parse_match_record
from newsift.files.tables import FileOptions
from newsift.files.write import open_output
from newsift.operations.events import events_of
from newsift.operations.messages import ProgressLine, notify
from newsift.operations.model_context import ModelContext
from newsift.operations.offline_pipeline import Totals, describe_idle_profiles, load_pipeline
from newsift.operations.profile_training import PostPool, TrainingData, make_profile
from newsift.operations.seed_drafts import SeedDraft, read_seed_files, require_articles, set_event
from newsift.operations.times import now_text
from worker.config import Config, ModelConfig
from worker.match.pipeline import Outcome, Pipeline
from worker.posts.outcome import PassedOver, Post, Rejected
from worker.seeds.profile import Profile
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlState, parse_control_state
from worker.text import one_line, plural

SHARE = FiniteRange(0, 1, min_open=True)

MAX_REPORTED_ROWS = 100
MAX_EVENTS = 10
NO_ATTEMPTS: dict[str, Any] = {"attempts": 0}  # matches must not depend on the time and the user
RejectedRow = tuple[FileMessage, str]  # with the reason


@dataclass(frozen=True, slots=True)
class PostFiles:
    files: tuple[Path, ...]
    file_options: FileOptions
    rejected: Path | None  # where the lines go that cannot be read


@dataclass(frozen=True, slots=True)
class SeedFiles:
    seeds: tuple[Path, ...]
    event: str | None
    force: bool

    def drafts(self, model: str) -> list[SeedDraft]:
        drafts = read_seed_files(self.seeds)
        if not self.force:
            require_articles(drafts, model)
        return drafts if self.event is None else set_event(drafts, self.event)


@dataclass(frozen=True, slots=True)
class Matching:
    threshold: float | None
    rate: float | None
    why: bool | None
    config_file: Path | None
    model: ModelConfig


@dataclass(frozen=True, slots=True)
class Learning:
    learn: bool
    learn_from: tuple[Path, ...]


@click.command(name="filter")
@click.argument("files", nargs=-1, type=PATH)
@option_group(
    "seeds",
    SeedFiles,
    click.option("--seeds", required=True, multiple=True, type=PATH, metavar="PATH",
                 help="A seed article, or a folder of them; may be repeated."),
    click.option("--event", help="The event of all seeds; by default that of the record or "
                 "folder, else the id."),
    click.option("--force", is_flag=True,
                 help="Take what looks like no article, has < 40 words or another language."),
)  # fmt: skip
@model_options
@option_group(
    "matching",
    Matching,
    click.option("--threshold", type=SHARE,
                 help="The lowest score that matches; by default automatic."),
    click.option("--rate", type=SHARE,
                 help="For automatic thresholds: the share of everyday posts."),
    click.option("--why/--no-why", default=None, help="Whether to name the words of each match."),
    CONFIG,
)  # fmt: skip
@option_group(
    "learning",
    Learning,
    click.option("--learn", is_flag=True, help="Let events learn in a first pass over FILES."),
    click.option("--learn-from", type=PATH, multiple=True, metavar="FILE",
                 help="Let events learn from this file."),
)  # fmt: skip
@file_options
@option_group(
    "posts",
    PostFiles,
    click.option("--rejected", type=PATH, help="Keep the lines that cannot be read in this file."),
)
@output_options
def filter_posts(
    posts: PostFiles, seeds: SeedFiles, matching: Matching, learning: Learning, output: Output
) -> None:
    """Print the posts in FILES, or on standard input (-), that match the seed articles.

    FILES hold posts as platforms and tools write them: JSON lines and arrays, CSV, pages of twarc,
    exports of Bluesky, Mastodon, Reddit and Telegram, Parquet, plain text; also compressed, and
    folders and patterns (docs/formats.md). A seed is a text, a Markdown file whose first line is
    "# Title", a saved web page, JSON as on the control topic, or a file of `newsift seeds export`,
    including profiles. Each file of a folder is an event, and each subfolder is one event.

    --learn makes a profile for each event from its seeds, the background and its best posts, as
    `newsift events learn` does. Matches are the worker's records, one on each line, with the same
    ids; on a terminal they are shown for reading, unless --json is used. --out replaces an existing
    file at the end, or on Ctrl-C with the matches so far; after an error the old file stays.
    """
    sources, rejected = find_files(posts.files or (DASH,)), posts.rejected
    output.check(sources, rejected=rejected)
    if DASH in seeds.seeds and DASH in sources:
        raise InputError("--seeds -: standard input holds the posts; name a file")
    config = _with_options(configuration(None, matching.config_file), matching)
    learning_files = _learning_files(sources, learning)
    if DASH in sources:
        prompt_for_text()
    records = {draft.key: draft.value for draft in seeds.drafts(config.model.name)}
    state = parse_control_state(records, config.limits)
    inputs = open_inputs(sources, posts.file_options, config.limits, notify)
    if learning_files:
        context = ModelContext(config)
        material = open_inputs(learning_files, posts.file_options, config.limits)
        state = state.with_contents(_learn_profiles(material, state, context))
    pipeline, seed_set = load_pipeline(state, config)
    for idle in describe_idle_profiles(seed_set):
        notify(f"{idle}; its seeds are used")
    total = Totals(share_read(inputs))
    rejected_output = open_output(rejected) if rejected else nullcontext()
    format_time = post_time if output.to_terminal else None
    with (
        output.open(FILE_SOURCE, format_time, columns_of(inputs)) as add_records,
        rejected_output as rejected_file,
    ):
        if rejected_file is not None and rejected_file.isatty():
            raise InputError("--rejected: these bytes could control a terminal; give a file")
        try:
            for batch in chain.from_iterable(inputs):
                outcome = _filter_batch(
                    batch, pipeline, seed_set, add_records, rejected_file, total.rejected.total()
                )
                total.add(outcome, quiet=output.to_terminal)
        except KeyboardInterrupt:
            _report_total(total, len(seed_set))
            raise
        _report_total(total, len(seed_set))
    refuse_many_bad(total.rejected.total(), total.progress.count)


def _with_options(config: Config, given: Matching) -> Config:
    options: dict[str, Any] = {
        "threshold": given.threshold, "background_rate": given.rate, "why": given.why,
    }  # fmt: skip
    matching = {key: value for key, value in options.items() if value is not None}
    automatic = {} if given.rate is None else {"threshold": None, "total_rate": None}
    return replace(
        with_model(config, given.model),
        posts=replace(config.posts, format="auto"),
        matching=replace(config.matching, **(automatic | matching)),
    )


def _learning_files(sources: tuple[Path, ...], learning: Learning) -> tuple[Path, ...]:
    """The files to learn from: with --learn those that are filtered, which are read twice."""
    for file in sources if learning.learn else ():
        if file == DASH or not file.is_file():
            name = "standard input" if file == DASH else str(file)
            raise InputError(
                f"--learn reads the posts twice, and {name} can be read once; give files, or "
                "--learn-from FILE"
            )
    others = find_files(learning.learn_from)
    if DASH in sources and DASH in others:
        raise InputError("--learn-from -: standard input can be read once; name a file")
    return (*sources, *others) if learning.learn else (*others,)


def _learn_profiles(
    inputs: Sequence[FileMessages], state: ControlState, context: ModelContext
) -> list[Profile]:
    """A profile of each event, except where a promise binds the present one."""
    seeds = context.seed_set(state)
    events = events_of(state, seeds).values()
    learners = [e for e in events if e.seeds and not (e.profile and e.profile.promise is not None)]
    starts = [context.start(event.seeds) for event in learners]
    pools = [PostPool(start.vector, start.seeds[:0]) for start in starts]
    progress = ProgressLine(share_read(inputs))
    for batch in chain.from_iterable(inputs):
        lines = [message for message in batch if isinstance(message.reading, Post)]
        for posts, vectors in context.pipeline.posts_in(lines, seeds):
            for pool in pools:
                pool.add(posts, vectors)
        progress.add(len(batch), "posts read to learn from")
    profiles: list[Profile] = []
    for event, pool in zip(learners, pools, strict=True):
        profile = make_profile(context, event, TrainingData(pool), NO_ATTEMPTS)
        profile.value(context.config.limits)  # raises if no record has room for it
        profiles.append(profile)
        beta, count = profile.made["beta"], len(profile.made["posts"])
        notify(f"event {one_line(event.name)}: learned from {plural(count, 'post')} (β {beta:.2f})")
    return profiles


def _filter_batch(
    batch: Sequence[FileMessage], pipeline: Pipeline, seeds: SeedSet, add_records: AddRecords,
    rejected_file: IO[bytes] | None, report_count: int,
) -> Outcome:  # fmt: skip
    """Rejected rows are written unchanged; `report_count` counts those of earlier batches."""
    posts = [message for message in batch if isinstance(message.reading, Post)]
    outcome = pipeline.run(posts, seeds, now_text)
    outcome.read = len(batch)
    rejected_rows: list[RejectedRow] = []
    for message in batch:
        if isinstance(message.reading, PassedOver):
            outcome.passed_over[message.reading.why] += 1
        elif isinstance(message.reading, Rejected):
            outcome.rejected[message.reading.reason] += 1
            rejected_rows.append((message, f"{message.reading.reason} ({message.reading.detail})"))
    records: list[OutputRecord] = []
    for output in outcome.records:
        if output.kind == "rejected":
            headers = {name: value.decode() for name, value in output.headers}
            rejected_rows.append(
                (posts[output.source], f"{headers['reason']} ({headers['detail']})")
            )
        elif output.value and (record := parse_match_record(output.value)):
            columns = posts[output.source].columns
            records.append(OutputRecord(output.value, record, record.matches, columns))
    if rejected_file is not None:
        # In one call, so that Ctrl-C leaves no incomplete line.
        rejected_file.write(b"".join(message.raw + b"\n" for message, _ in rejected_rows))
    add_records(records)
    for count, (message, why) in zip(
        range(report_count, MAX_REPORTED_ROWS + 1), rejected_rows, strict=False
    ):
        if count == MAX_REPORTED_ROWS:
            notify("rejected: more lines are rejected; from here on they are only counted")
            break
        notify(f"rejected: {message.topic} {message.place}: {why}")
    return outcome


def _report_total(total: Totals, seeds: int) -> None:
    read = total.progress.count
    if total.rejected.total() == read > 0:
        raise InputError("no row could be read as a post; name what they are with --format")
    different, repeats = total.different, ""
    if different is not None and different != total.matched:
        # The number that the desk shows: rows repeat an id or, without ids, a text.
        repeats = f" ({plural(different, 'different post')})"
    notify(
        f"{plural(read, 'post')} read, {total.matched:,} matched{repeats}"
        f"{_counts_text('passed over', total.passed_over)}"
        f"{_counts_text('rejected', total.rejected)}; "
        f"{plural(seeds, 'seed')}, {total.progress.rate(' posts/s')}"
    )
    for event, count in total.events.most_common(MAX_EVENTS):
        notify(f"{count:>7,} {'match' if count == 1 else 'matches'} of {event}")


def _counts_text(name: str, counts: Counter[str]) -> str:
    parts = ", ".join(f"{count:,} {key}" for key, count in sorted(counts.items()))
    return f", {counts.total():,} {name} ({parts})" if counts else ""
