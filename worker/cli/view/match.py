"""Match records as a terminal shows them: lines, the words lit that made the score."""

import sys
from collections.abc import Callable, Sequence

import click

from worker.cli.terminal import colour_wanted
from worker.cli.view.lit import lit_text
from worker.cli.view.table import page_width
from worker.cli.view.wrap import columns, wrapped
from worker.files.out.rows import Finding
from worker.match.records import Match, MatchRecord
from worker.posts.times import rfc3339
from worker.visible import cut, one_line

EVENT_WIDTH = 20
ROOM = 40  # characters; where a post has less beside its head, it stands below it
INDENT = "  "
NO_TIME = "-"
COPY = "="  # after the score of a post that says what one before it said
LONGEST = 10_000  # characters that a terminal is shown, however much a stranger wrote

Moment = Callable[[MatchRecord], str]


class LineView:
    """When, how much, what event, and the post, its words lit by what they add to the score.

    A line a post; on a terminal the post is wrapped, and stands below where there is little room.
    """

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._colour = colour_wanted()
        self._width = page_width()

    def show(self, found: Sequence[Finding]) -> None:
        """Print posts, each with the best of its matches."""
        for each in found:
            self._show(each.record, each.matches)
        sys.stdout.flush()

    def _show(self, record: MatchRecord, matches: Sequence[Match]) -> None:
        best = max(matches, key=lambda match: match.score)
        events = list(dict.fromkeys(match.event for match in matches))
        more = f" +{len(events) - 1}" if len(events) > 1 else ""
        name = cut(one_line(best.event), EVENT_WIDTH - len(more)) + more
        copy = COPY if record.new is False else " "
        head = f"{self._moment(record)}  {best.score:.2f}{copy} {name:<{EVENT_WIDTH}}"
        beside = self._width - columns(head) - len(INDENT) >= ROOM
        before = " " * columns(head) + INDENT if beside else INDENT
        lines = self._lines(one_line(record.post.text), best.why, len(before))
        first = [head + INDENT + lines.pop(0)] if beside else [head]
        for line in [*first, *(before + line for line in lines)]:
            click.echo(line.rstrip(), color=self._colour)

    def _lines(self, text: str, why: Sequence[tuple[str, float]], before: int) -> list[str]:
        """The text, lit, in as many lines as it takes beside what stands before each."""
        if self._width == sys.maxsize:
            return [lit_text(text, why, self._colour)]
        text, room = cut(text, LONGEST), self._width - before
        if self._colour:
            return [lit_text(line, why, True) for line in wrapped(text, room)]
        return wrapped(lit_text(text, why, False), room)  # numbers take room, colours do not


def when_found(record: MatchRecord) -> str:
    """When a worker found the match: the time of day."""
    return f"{one_line(record.processed_at)[11:19]:8}Z"


def when_written(record: MatchRecord) -> str:
    """When the post was written, as its platform says, else when it came to the topic."""
    came = record.source.timestamp
    told = record.post.created_at or (rfc3339(came) if came > 0 else None)
    return f"{one_line(told)[:19]:19}Z" if told else f"{NO_TIME:20}"
