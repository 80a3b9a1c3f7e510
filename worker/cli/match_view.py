"""Match records as people and programs see them: lit lines, CSV, or the records as they are."""

import csv
import io
import re
import sys
from collections.abc import Collection, Sequence
from typing import Protocol

import click
import msgspec

from worker.cli.common import colour_wanted
from worker.cli.lit import FAINT, VISIBLE, paint
from worker.cli.table import cut, one_line, page_width, write_line

EVENT_WIDTH = 20
LIVELY = ("=", "+", "-", "@", "\t", "\r", "\n")  # what a spreadsheet would run as a formula
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
        """Write the record's own bytes."""
        write_line(value if b"\n" not in value else msgspec.json.format(value, indent=-1))


class CsvView:
    """A row for each match, safe to open in a spreadsheet."""

    def __init__(self) -> None:
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

    def _row(self, *cells: str | float | None) -> None:
        line = io.StringIO(newline="")
        csv.writer(line).writerow(map(harmless, cells))
        sys.stdout.buffer.write(line.getvalue().encode("utf-8", "replace"))


class LineView:
    """One line a post, its words lit by what they add to the score."""

    def __init__(self) -> None:
        self._colour = colour_wanted()
        self._width = page_width()

    def show(self, value: bytes, record: Seen, matches: Sequence[SeenMatch]) -> None:
        """Print the post with the best of its matches."""
        best = max(matches, key=lambda match: match.score)
        events = list(dict.fromkeys(match.event or match.seed_id for match in matches))
        more = f" +{len(events) - 1}" if len(events) > 1 else ""
        name = cut(one_line(best.event or best.seed_id), EVENT_WIDTH - len(more)) + more
        head = (
            f"{one_line(record.processed_at)[11:19]:8}  {best.score:.2f}  {name:<{EVENT_WIDTH}}  "
        )
        text = cut(one_line(record.post.text), max(self._width - len(head), 20))
        click.echo(head + lit_text(text, best.why, self._colour), color=self._colour)


def view(as_json: bool, as_csv: bool) -> View:
    """The view that was asked for."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    return JsonView() if as_json else CsvView() if as_csv else LineView()


def harmless(cell: str | float | None) -> str | float | None:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(LIVELY) else cell


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
