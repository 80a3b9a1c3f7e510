"""`newsift estimate`: how many posts were on an event, by labels of a draw."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from encoder.errors import InputError
from newsift.cli.options import JSON, PATH, kafka_options
from newsift.cli.output import print_json, table
from newsift.files.rows import POST_FIELDS, csv_row
from newsift.files.write import check_targets, open_output
from newsift.operations.counts import estimate_count
from newsift.operations.labels import label_topic
from newsift.operations.messages import notify
from newsift.statistics.count_frame import CountFrame, CountSeries, PeriodCount
from newsift.statistics.counts import CONFIDENCE, MAX_CHANCE
from newsift.statistics.labels import check_names
from worker.config import Config
from worker.posts.times import DAY_MS, HOUR_MS, rfc3339
from worker.text import plural

STEPS = {"day": DAY_MS, "hour": HOUR_MS}
PERIOD_CHARS = {DAY_MS: len("2026-01-31"), HOUR_MS: len("2026-01-31T12:00")}
OUT_ENDINGS = (".csv", ".svg", ".png")
HEADER = ("period", "matches", "near misses", "on the event", "interval", "labels", "counted by")
CSV_COLUMNS = (
    "event", "period", "platform", "post_id", *POST_FIELDS, "label", "score", "stratum",
    "stratum_posts", "stratum_labels", "posts", "probability",
)  # fmt: skip


@click.command()
@click.argument("event")
@click.option(
    "--by", type=click.Choice(list(STEPS)), default="day", show_default=True,
    help="The length of a period, in UTC.",
)  # fmt: skip
@click.option(
    "--csv",
    "as_csv",
    is_flag=True,
    help="Print the labelled posts as CSV, with the probabilities of their draw.",
)
@click.option(
    "--out", type=PATH, metavar="FILE",
    help="Write the periods to this file, by its ending: .csv, or .svg and .png for a figure.",
)  # fmt: skip
@JSON
@kafka_options
def estimate(
    event: str, by: str, as_csv: bool, out: Path | None, as_json: bool, config: Config
) -> None:
    """Count the posts on EVENT by day or hour, with 90 % intervals.

    The labels are those of `newsift labels ask EVENT --queue count`. They correct the number of
    matches: by those that are off, and by the near misses that are on the event. Posts that were
    not read, or that score lower, are not counted.
    """
    if as_csv and (as_json or out):
        raise click.UsageError("--csv prints the labelled posts; leave out --json and --out")
    check_names(EVENT=event)
    if out is not None:
        check_targets({"--out": out}, [])
        if out.suffix.lower() not in OUT_ENDINGS:
            endings = " ".join(OUT_ENDINGS)
            raise InputError(f"--out {out}: is of no known format; end it with {endings}")
    with label_topic(config) as topic:
        labels = topic.state().event_labels(event)
        frame, series = estimate_count(topic.cluster, config, event, labels, STEPS[by])
    periods = PeriodTexts(STEPS[by])
    if as_csv:
        click.echo("".join(periods.csv_lines(event, frame)), nl=False)
        return
    _report(frame, series)
    if out is not None:
        content = _file(event, series, periods, out.suffix.lower())
        with open_output(out) as file:
            file.write(content)
    if as_json:
        print_json([
            *(periods.row(event, period, series) for period in series.periods),
            periods.row(event, series.total, series) | _frame_row(frame, series),
        ])  # fmt: skip
    else:
        table(HEADER, [periods.cells(p, series) for p in (*series.periods, series.total)])


@dataclass(frozen=True, slots=True)
class PeriodTexts:
    """Counts of periods of a length, as they are printed."""

    step: int

    def name(self, start: int) -> str:
        """A day, or the start of an hour in UTC."""
        text = rfc3339(start - start % self.step)[: PERIOD_CHARS[self.step]]
        return text if self.step == DAY_MS else f"{text}Z"

    def cells(self, period: PeriodCount, series: CountSeries) -> list[object]:
        low, value, high = period.estimate
        bounds = f"{math.floor(low):,} to {math.ceil(high):,}"
        name = "all" if period.start is None else self.name(period.start)
        basis = "its own labels" if period.has_own_labels else "the labels of all periods"
        return [
            name, f"{period.matches:,}", f"{period.near:,}", f"{value:,.0f}",
            f"at least {math.floor(low):,}" if series.missing else bounds, period.labels,
            "all labels" if period.start is None else basis,
        ]  # fmt: skip

    def row(self, event: str, period: PeriodCount, series: CountSeries) -> dict[str, Any]:
        low, value, high = period.estimate
        return {
            "event": event,
            "period": None if period.start is None else self.name(period.start),
            "matches": period.matches,
            "near": period.near,
            "count": round(value, 1),
            "low": round(low, 1),
            "high": None if series.missing else round(high, 1),
            "labels": period.labels,
            "own_labels": period.has_own_labels,
        }

    def csv_lines(self, event: str, frame: CountFrame) -> Iterator[str]:
        """A post that was drawn stands for posts / probability."""
        yield csv_row(CSV_COLUMNS)
        for counted in frame.posts:
            label, draw = counted.label, counted.draw
            stratum_posts, stratum_labels = frame.strata[draw.stratum]
            yield csv_row([
                event, self.name(draw.timestamp), *label.post_id,
                *(getattr(label.post, name) for name in POST_FIELDS), counted.verdict, label.score,
                draw.stratum, stratum_posts, stratum_labels, draw.posts, label.probability,
            ])  # fmt: skip


def _file(event: str, series: CountSeries, periods: PeriodTexts, ending: str) -> bytes:
    if ending == ".csv":
        rows = [periods.row(event, period, series) for period in series.periods]
        names = tuple(periods.row(event, series.total, series))
        lines = [csv_row(names), *(csv_row([row[name] for name in names]) for row in rows)]
        return "".join(lines).encode("utf-8", "replace")
    if not series.periods:
        raise InputError("--out: no match of the frame is left to draw; --out FILE.csv")
    from newsift.cli.count_figure import draw_counts

    return draw_counts(event, series, periods.step, ending[1:])


def _frame_row(frame: CountFrame, series: CountSeries) -> dict[str, Any]:
    return {
        "confidence": CONFIDENCE,
        "since": rfc3339(frame.since),
        "until": rfc3339(frame.until),
        "seed_set": frame.scored_by[0],
        "planned": frame.planned,
        "stopped": series.stopped,
        "missing": series.missing,
        "chance": round(series.chance, 3),
    }


def _report(frame: CountFrame, series: CountSeries) -> None:
    notify(
        f"matches and near misses from {rfc3339(frame.since)} to {rfc3339(frame.until)}; posts "
        "that were not read, or that score lower, are not counted"
    )
    if series.stopped:
        notify(
            f"{len(frame.posts):,} of {frame.planned:,} drawn posts are labelled: the intervals "
            "hold whenever you stop, and narrow most once all are labelled"
        )
    if series.missing:
        notify(f"an upper end needs {plural(series.missing, 'more label')}")
    if all(period.has_own_labels for period in series.periods):
        return
    notify(
        "a period without 30 labels of its own assumes that matches of one band of score are as "
        "often on the event in all periods"
    )
    if series.chance < MAX_CHANCE:
        notify(
            f"they are not, by the labels (permutation test: p = {series.chance:.3f}); trust the "
            "total and periods with labels of their own, or ask for more labels"
        )
