"""Match records as people and programs see them: lit lines, CSV, or the records as they are."""

import re
import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import click
import msgspec

from worker.cli.common import colour_wanted
from worker.cli.view.cells import Cell, csv_row
from worker.cli.view.lit import FAINT, VISIBLE, paint
from worker.cli.view.table import cut, page_width, write_line
from worker.posts.times import rfc3339
from worker.visible import escaped_json, one_line

EVENT_WIDTH = 20
ROOM = 40  # characters; where a post has less beside its head, it stands below it
INDENT = "  "
LONGEST = 600  # characters of a post on a terminal
WORD = re.compile(r"(#?)(\w+)")
CSV_COLUMNS = (
    "match_id", "score", "threshold", "event", "seed_id", "seed_version", "title", "platform",
    "post_id", "author", "created_at", "lang", "url", "text", "why", "source", "matched",
    "seed_set", "model", "processed_at",
)  # fmt: skip


class SeenPost(msgspec.Struct, frozen=True):
    """The post of a match record."""

    id: str
    text: str
    platform: str = ""
    author: str | None = None
    created_at: str | None = None
    lang: str | None = None
    url: str | None = None


class SeenMatch(msgspec.Struct, frozen=True):
    """A seed that the post matches."""

    seed_id: str
    score: float
    event: str = ""
    threshold: float = 0.0
    match_id: str = ""
    seed_version: str = ""
    title: str = ""
    why: tuple[tuple[str, float], ...] = ()


class SeenSource(msgspec.Struct, frozen=True):
    """Where the post came from."""

    topic: str = ""
    partition: int = 0
    offset: int = 0
    timestamp: int = 0


class Seen(msgspec.Struct, frozen=True):
    """A match record, as far as it is shown."""

    post: SeenPost
    matches: tuple[SeenMatch, ...]
    matched: int = 0
    seed_set: str = ""
    model: str = ""
    source: SeenSource = SeenSource()
    processed_at: str = ""

    def narrowed(self, seeds: Collection[str], events: Collection[str]) -> tuple[SeenMatch, ...]:
        """Its matches with one of these seeds and of one of these events; none given: all."""
        return tuple(
            match for match in self.matches
            if (not seeds or match.seed_id in seeds) and (not events or match.event in events)
        )  # fmt: skip


Moment = Callable[[Seen], str]

_read = msgspec.json.Decoder(Seen).decode


def read_match(value: bytes | None) -> Seen | None:
    """The match record in a message; None if there is none."""
    try:
        return _read(value or b"")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


class View(Protocol):
    """One way to show match records."""

    def show(self, value: bytes, record: Seen, matches: Sequence[SeenMatch]) -> None:
        """Show one record and those of its matches that were asked for."""


class JsonView:
    """The records as they are, one a line."""

    def show(self, value: bytes, record: Seen, matches: Sequence[SeenMatch]) -> None:
        """Write the record as it is, but for what would steer a terminal."""
        write_line(json_line(value))


class CsvView:
    """A row for each match, safe to open in a spreadsheet."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._row(*CSV_COLUMNS)

    def show(self, value: bytes, record: Seen, matches: Sequence[SeenMatch]) -> None:
        """Write one row a match."""
        post, place = record.post, record.source
        source = f"{place.topic}-{place.partition}-{place.offset}"
        for match in matches:
            why = " ".join(f"{word}[{part:.2f}]" for word, part in match.why)
            self._row(
                match.match_id, match.score, match.threshold, match.event, match.seed_id,
                match.seed_version, match.title, post.platform, post.id, post.author,
                post.created_at, post.lang, post.url, post.text, why, source, record.matched,
                record.seed_set, record.model, record.processed_at,
            )  # fmt: skip

    def _row(self, *cells: Cell) -> None:
        sys.stdout.buffer.write(csv_row(cells, self._terminal).encode("utf-8", "replace"))


class LineView:
    """When, how much, what event, and the post, its words lit by what they add to the score.

    A line a post; on a terminal the post is wrapped, and stands below where there is little room.
    """

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._colour = colour_wanted()
        self._width = page_width()

    def show(self, value: bytes, record: Seen, matches: Sequence[SeenMatch]) -> None:
        """Print the post with the best of its matches."""
        best = max(matches, key=lambda match: match.score)
        events = list(dict.fromkeys(match.event or match.seed_id for match in matches))
        more = f" +{len(events) - 1}" if len(events) > 1 else ""
        name = cut(one_line(best.event or best.seed_id), EVENT_WIDTH - len(more)) + more
        head = f"{self._moment(record)}  {best.score:.2f}  {name:<{EVENT_WIDTH}}"
        beside = self._width - len(head) - len(INDENT) >= ROOM
        before = " " * len(head) + INDENT if beside else INDENT
        lines = [lit_text(line, best.why, self._colour) for line in self._lines(record, before)]
        first = [head + INDENT + lines.pop(0)] if beside else [head]
        for line in [*first, *(before + line for line in lines)]:
            click.echo(line.rstrip(), color=self._colour)

    def _lines(self, record: Seen, before: str) -> list[str]:
        """The text in as many lines as it takes beside what stands before each."""
        text = one_line(record.post.text)
        if self._width == sys.maxsize:
            return [text]
        return textwrap.wrap(cut(text, LONGEST), self._width - len(before)) or [""]


def clock(record: Seen) -> str:
    """When a worker found the match: the time of day."""
    return f"{one_line(record.processed_at)[11:19]:8}Z"


def written(record: Seen) -> str:
    """When the post was written, as its platform says, else when it came to the topic."""
    told = record.post.created_at or rfc3339(record.source.timestamp)
    return f"{one_line(told)[:19]:19}Z"


def json_line(value: bytes) -> bytes:
    """A record of JSON on one line, without what would steer a terminal."""
    text = value.decode()
    if text.isprintable():
        return value
    return escaped_json(msgspec.json.format(text, indent=-1)).encode()


def view(as_json: bool, as_csv: bool, moment: Moment) -> View:
    """The view that was asked for."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    return JsonView() if as_json else CsvView() if as_csv else LineView(moment)


def lit_text(text: str, why: Sequence[tuple[str, float]], colour: bool) -> str:
    """A text with those words lit, or numbered without colour, that made its score."""
    parts = {word.lower(): part for word, part in why if word}
    strongest = max((abs(part) for part in parts.values()), default=0.0)
    if not strongest:
        return text
    longest_first = map(re.escape, sorted(parts, key=len, reverse=True))
    inside = re.compile("|".join(longest_first), re.IGNORECASE)

    def light(word: str) -> str:
        part = parts.get(word.lower(), 0.0)
        if colour:
            return paint(word, part / strongest)
        return f"{word}[{part:.2f}]" if abs(part) >= max(VISIBLE, FAINT * strongest) else word

    def one(found: re.Match[str]) -> str:
        sign, word = found.groups()
        if word.lower() in parts:
            return sign + light(word)
        if not sign:
            return word
        return sign + inside.sub(lambda piece: light(piece[0]), word)

    return WORD.sub(one, text)
