"""What came back, held against what was sent, and how it is told."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import click

from worker.actions.told import tallied
from worker.cli.demo.script import Change, Script
from worker.cli.view.lit import lit_text
from worker.match.records import MatchRecord
from worker.visible import one_line

WIDTH = 18  # of an event's name


@dataclass
class Tally:
    """What was heard of the posts of a script: their matches, and how soon they came."""

    script: Script
    matches: set[tuple[str, str]] = field(default_factory=set)  # the post's id, the event
    latencies: list[float] = field(default_factory=list)  # seconds

    def add(self, record: MatchRecord, now: float) -> None:
        """Take in a match record that arrived at this time, in seconds since 1970."""
        self.matches |= {(record.post.id, match.event) for match in record.matches}
        self.latencies.append(now - record.source.timestamp / 1000)

    def about(self, event: str, live: bool) -> set[str]:
        """The posts on an event that are sent while its seed is there, or is not."""
        return {cue.id for cue in self.script.cues if (cue.event, cue.live) == (event, live)}

    def found(self, event: str) -> set[str]:
        """The posts that matched this event."""
        return {post for post, name in self.matches if name == event}

    def latency(self, share: float) -> float:
        """The latency in milliseconds that this share of the matches stayed below or at."""
        ordered = sorted(self.latencies)
        return 1e3 * ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def match_lines(record: MatchRecord, colour: bool, weights: bool = True) -> Iterator[str]:
    """A line for each match of a record: score, event, and the post with its telling words lit.

    Without colour and weights it is the post's text alone.
    """
    for match in record.matches:
        text = one_line(record.post.text)
        words = lit_text(text, match.why, colour) if colour or weights else text
        yield f"{match.score:.2f}  {one_line(match.event):<{WIDTH}}{words}"


def change_line(change: Change, colour: bool) -> str:
    """The line that tells of a change of the seeds."""
    told = f"----  {change.seed:<{WIDTH}}article {'added' if change.adds else 'removed'}"
    return click.style(told, bold=True) if colour else told


def summary(
    tally: Tally, events: Sequence[str], rejected: Counter[str], passed_over: int
) -> Iterator[str]:
    """How it went, in a few lines: precision and recall count posts sent while a seed was there."""
    yield f"{'event':<{WIDTH}}{'posts':>7}{'found':>7}{'precision':>11}{'recall':>8}"
    for event in events:
        wanted, found = tally.about(event, live=True), tally.found(event)
        shares = f"{_share(wanted & found, found):>11}{_share(wanted & found, wanted):>8}"
        yield f"{event:<{WIDTH}}{len(wanted):>7}{len(found):>7}{shares}"
    for change in tally.script.changes:
        came = tally.about(change.seed, live=False)
        matched = len(came & tally.found(change.seed))
        when = "before its article was added" if change.adds else "after its article was removed"
        yield f"{change.seed}: {len(came)} posts came {when}; {matched} of them matched."
    sent, seconds = len(tally.script.cues), tally.script.seconds
    yield (
        f"\n{sent} messages in {seconds:.0f} s, paced at {sent / seconds:.0f} a second;"
        f" from sending to a match here: p50 {tally.latency(0.5):.0f} ms,"
        f" p99 {tally.latency(0.99):.0f} ms."
    )
    told = f" ({tallied(rejected)})" if rejected else ""
    yield f"Dead letters: {rejected.total()}{told}. Passed over: {passed_over}."


def _share(right: set[str], all_of_them: set[str]) -> str:
    return f"{len(right) / len(all_of_them):.2f}" if all_of_them else "-"
