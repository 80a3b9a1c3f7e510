"""What came back, held against what was sent, and how it is told."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import click

from worker.cli.demo.script import Change, Cue, Script
from worker.cli.view.lit import lit_text
from worker.match.records import MatchRecord
from worker.visible import one_line

Place = tuple[int, int]  # partition and offset
WIDTH = 18  # of an event's name


@dataclass
class Tally:
    """The cues sent, by their place in the topic, and everything that was heard of them."""

    sent: dict[Place, Cue] = field(default_factory=dict)
    matches: dict[str, tuple[Place, str]] = field(default_factory=dict)  # by match id
    rejected: dict[Place, str] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)  # seconds

    def match(self, record: MatchRecord, now: float) -> None:
        """Take in a match record that arrived at this time, in seconds since 1970."""
        place = record.source.partition, record.source.offset
        self.matches |= {match.match_id: (place, match.event) for match in record.matches}
        self.latencies.append(now - record.source.timestamp / 1000)

    def dead_letter(self, headers: Sequence[tuple[str, bytes]]) -> None:
        """Take in a dead letter."""
        named = {name: value.decode() for name, value in headers}
        _, partition, offset = named["source"].rsplit("-", 2)
        self.rejected[int(partition), int(offset)] = named["reason"]

    def about(self, event: str, live: bool) -> set[Place]:
        """Where the posts on an event stand that were sent while its seed was there, or was not."""
        return {
            place for place, cue in self.sent.items()
            if cue.post and cue.post.event == event and cue.live == live
        }  # fmt: skip

    def found(self, event: str) -> set[Place]:
        """Where the posts stand that matched this event."""
        return {place for place, name in self.matches.values() if name == event}

    def unexpected(self) -> list[str]:
        """Poison that was not rejected for its reason, and messages rejected without one."""
        wanted = {p: cue.reason.value for p, cue in self.sent.items() if cue.reason is not None}
        nothing = "no dead letter"
        return [
            f"partition {p}, offset {o}: expected {wanted.get((p, o), nothing)}, "
            f"found {self.rejected.get((p, o), nothing)}"
            for p, o in sorted(wanted.keys() | self.rejected.keys())
            if wanted.get((p, o)) != self.rejected.get((p, o))
        ]

    def latency(self, share: float) -> float:
        """The latency in milliseconds that this share of the matches stayed below or at."""
        ordered = sorted(self.latencies)
        return 1e3 * ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def match_lines(record: MatchRecord, colour: bool) -> Iterator[str]:
    """A line for each match of a record: score, event, and the post with its telling words lit."""
    for match in record.matches:
        words = lit_text(one_line(record.post.text), match.why, colour)
        yield f"{match.score:.2f}  {one_line(match.event):<{WIDTH}}{words}"


def change_line(change: Change, colour: bool) -> str:
    """The line that tells of a change of the seeds."""
    told = f"----  {change.seed:<{WIDTH}}article {'added' if change.adds else 'removed'}"
    return click.style(told, bold=True) if colour else told


def summary(tally: Tally, script: Script, events: Sequence[str], passed_over: int) -> Iterator[str]:
    """How it went, in a few lines: precision and recall count posts sent while a seed was there."""
    yield f"{'event':<{WIDTH}}{'posts':>7}{'found':>7}{'precision':>11}{'recall':>8}"
    for event in events:
        wanted, found = tally.about(event, live=True), tally.found(event)
        shares = f"{_share(wanted & found, found):>11}{_share(wanted & found, wanted):>8}"
        yield f"{event:<{WIDTH}}{len(wanted):>7}{len(found):>7}{shares}"
    for change in script.changes:
        came = tally.about(change.seed, live=False)
        matched = len(came & tally.found(change.seed))
        when = "before its article was added" if change.adds else "after its article was removed"
        yield f"{change.seed}: {len(came)} posts came {when}; {matched} of them matched."
    yield ""
    sent = len(tally.sent)
    yield (
        f"{sent} messages in {script.seconds:.0f} s, paced at {sent / script.seconds:.0f} a second;"
        f" from sending to a match here: p50 {tally.latency(0.5):.0f} ms,"
        f" p99 {tally.latency(0.99):.0f} ms."
    )
    reasons = sorted(Counter(tally.rejected.values()).items())
    told = ", ".join(f"{reason} {n}" for reason, n in reasons) or "none"
    yield f"Dead letters: {len(tally.rejected)} ({told}). Passed over: {passed_over}."
    yield from (f"Not as expected: {line}" for line in tally.unexpected())


def _share(right: set[Place], all_of_them: set[Place]) -> str:
    return f"{len(right) / len(all_of_them):.2f}" if all_of_them else "-"
