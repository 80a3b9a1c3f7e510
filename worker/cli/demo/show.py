"""What the demo prints: matches with lit words, changes of the seeds, and a summary."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from worker.cli.demo.script import Change, Script
from worker.cli.demo.tally import Tally
from worker.cli.view.lit import lit_text
from worker.visible import one_line

WIDTH = 18  # of an event's name


def match_lines(record: Mapping[str, Any], colour: bool) -> Iterator[str]:
    """A line for each match of a record: score, event, and the post with its telling words lit."""
    for match in record["matches"]:
        words = lit_text(one_line(record["post"]["text"]), match["why"], colour)
        yield f"{match['score']:.2f}  {one_line(match['event']):<{WIDTH}}{words}"


def change_line(change: Change, colour: bool) -> str:
    """The line that tells of a change of the seeds."""
    done = "article added" if change.adds else "article removed"
    told = f"----  {change.seed:<{WIDTH}}{done}"
    return click.style(told, bold=True) if colour else told


def taken_up_line(seed_set: str, seconds: float, colour: bool) -> str:
    """The line that tells when a changed set of seeds was first used."""
    told = f"----  seed set {seed_set}: first match {seconds:.1f} s after the change"
    return click.style(told, fg=8) if colour else told


def summary(tally: Tally, script: Script, events: Sequence[str], passed_over: int) -> Iterator[str]:
    """How it went, in a few lines."""
    yield f"{'event':<{WIDTH}}{'posts':>7}{'found':>7}{'precision':>11}{'recall':>8}"
    for score in tally.scores(events):
        shares = f"{_share(score.precision):>11}{_share(score.recall):>8}"
        yield f"{score.event:<{WIDTH}}{score.wanted:>7}{score.found:>7}{shares}"
    for change in script.changes:
        came, matched = tally.without_seed(change.seed)
        when = "before its article was added" if change.adds else "after its article was removed"
        yield f"{change.seed}: {came} posts came {when}; {matched} of them matched."
    yield ""
    sent = len(tally.sent)
    yield (
        f"{sent} messages in {script.seconds:.0f} s, paced at {sent / script.seconds:.0f} a second;"
        f" from sending to a match here: p50 {tally.latency(0.5) * 1e3:.0f} ms,"
        f" p99 {tally.latency(0.99) * 1e3:.0f} ms."
    )
    told = ", ".join(f"{reason} {n}" for reason, n in sorted(tally.reasons().items()))
    yield f"Dead letters: {len(tally.rejected)} ({told or 'none'}). Passed over: {passed_over}."
    yield from (f"Not as expected: {line}" for line in tally.unexpected())


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
