"""`newsift estimate`: how many posts were on an event, by labels of a draw."""

import math
from dataclasses import dataclass
from pathlib import Path

import click

from encoder.errors import InputError
from newsift.cli.options import JSON, PATH, kafka_options, option_group
from newsift.cli.output import print_json, table
from newsift.files.rows import csv_row
from newsift.files.write import check_targets, open_output
from newsift.operations.count_tables import (
    STEPS,
    describe,
    frame_lines,
    frame_row,
    period_name,
    period_row,
)
from newsift.operations.counts import EventPosts, estimate_count
from newsift.operations.labels import read_event_labels
from newsift.operations.messages import notify
from newsift.statistics.count_frame import CountSeries, PeriodCount
from newsift.statistics.labels import check_names
from worker.config import Config
from worker.kafka.reading import connected

OUT_ENDINGS = (".csv", ".svg", ".png")
HEADER = ("period", "matches", "near misses", "on the event", "interval", "labels", "counted by")


@dataclass(frozen=True, slots=True)
class PostRows:
    """Whether posts are printed in place of periods, and which."""

    as_csv: bool = False
    unlabelled: bool = False


@click.command()
@click.argument("event")
@click.option(
    "--by", type=click.Choice(list(STEPS)), default="day", show_default=True,
    help="The length of a period, in UTC.",
)  # fmt: skip
@option_group(
    "posts",
    PostRows,
    click.option("--csv", "as_csv", is_flag=True,
                 help="Print the labelled posts as CSV, with the probabilities of their draw."),
    click.option("--all", "unlabelled", is_flag=True,
                 help="With --csv: the posts without a label, too, as R's dsl and ppi_py ask for "
                 "them."),
)  # fmt: skip
@click.option(
    "--out", type=PATH, metavar="FILE",
    help="Write the periods to this file, by its ending: .csv, or .svg and .png for a figure.",
)  # fmt: skip
@JSON
@kafka_options
def estimate(
    event: str, by: str, posts: PostRows, out: Path | None, as_json: bool, config: Config
) -> None:
    """Count the posts on EVENT by day or hour, with 90 % intervals.

    The labels are those of `newsift labels ask EVENT --queue count`. They correct the number of
    matches: by those that are off, and by the near misses that are on the event. Posts that were
    not read, or that score lower, are not counted.
    """
    if posts.as_csv and (as_json or out):
        raise click.UsageError("--csv prints the posts; leave out --json and --out")
    if posts.unlabelled and not posts.as_csv:
        raise click.UsageError("--all is of posts; give --csv, too")
    check_names(EVENT=event)
    if out is not None:
        _check_target(out)
    step = STEPS[by]
    with connected(config) as cluster:
        source = EventPosts(cluster, config, event)
        count = estimate_count(source, read_event_labels(cluster, config, event))
        series = count.series(step)
        for lines in describe(count.frame, series):
            for line in lines:
                notify(line)
        if posts.as_csv:
            for row in frame_lines(source, count, step, unlabelled=posts.unlabelled):
                click.echo(row, nl=False)
            return
    if out is not None:
        content = _file(event, series, step, out.suffix.lower())
        with open_output(out) as file:
            file.write(content)
    if as_json:
        rows = [period_row(event, period, series, step) for period in series.periods]
        total = period_row(event, series.total, series, step)
        print_json([*rows, total | frame_row(count.frame, series)])
    else:
        table(HEADER, [_cells(p, series, step) for p in (*series.periods, series.total)])


def _check_target(out: Path) -> None:
    check_targets({"--out": out}, [])
    if out.suffix.lower() not in OUT_ENDINGS:
        endings = " ".join(OUT_ENDINGS)
        raise InputError(f"--out {out}: is of no known format; end it with {endings}")


def _cells(period: PeriodCount, series: CountSeries, step: int) -> list[object]:
    low, value, high = period.estimate
    bounds = f"{math.floor(low):,} to {math.ceil(high):,}"
    name = "all" if period.start is None else period_name(period.start, step)
    basis = "its own labels" if period.has_own_labels else "the labels of all periods"
    return [
        name, f"{period.matches:,}", f"{period.near:,}", f"{value:,.0f}",
        f"at least {math.floor(low):,}" if series.missing else bounds, period.labels,
        "all labels" if period.start is None else basis,
    ]  # fmt: skip


def _file(event: str, series: CountSeries, step: int, ending: str) -> bytes:
    if ending == ".csv":
        rows = [period_row(event, period, series, step) for period in series.periods]
        names = tuple(period_row(event, series.total, series, step))
        lines = [csv_row(names), *(csv_row([row[name] for name in names]) for row in rows)]
        return "".join(lines).encode("utf-8", "replace")
    if not series.periods:
        raise InputError("--out: no match of the frame is left to draw; --out FILE.csv")
    from newsift.cli.count_figure import draw_counts

    return draw_counts(event, series, step, ending[1:])
