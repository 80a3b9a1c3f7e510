"""Output of the commands: highlighted posts, tables, and matches in any format."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, get_args
from unicodedata import category, east_asian_width

import click

from newsift.cli.options import PATH, option_group
from newsift.cli.signals import defer_interrupts
from newsift.cli.terminal import use_colour
from newsift.files.read import DASH
from newsift.files.rows import AddRecords, Layout, OutputRecord, Per
from newsift.files.sqlite import database
from newsift.files.write import check_targets, is_replaced
from newsift.files.writers import (
    Format,
    check_format,
    csv_table,
    format_by_ending,
    json_lines,
    record_writer,
)
from newsift.operations.messages import notify
from worker.match.records import Match, MatchRecord
from worker.posts.compare import as_text
from worker.posts.times import rfc3339
from worker.text import escape_json, one_line, plural, printable, shorten

SHADES = ((94, 231), (136, 16), (178, 16), (220, 16))  # background and text, from weak to strong
GREY = 244
MIN_WEIGHT_SHARE = 0.1  # of the largest weight; words with less are not highlighted
MAX_NUMBERED_WORDS = 8
MIN_SHOWN_WEIGHT = 0.005
WORD = re.compile(r"(#?)(\w+)")
WIDE, WIDE_COLUMNS = ("W", "F"), 2
ZERO_WIDTH = ("Mn", "Me")
PIPE_WIDTH = 100  # if the width is unknown
MIN_COLUMN_WIDTH = 20
EVENT_WIDTH = 20
MIN_POST_WIDTH = 40  # with less room after its head, a post starts on the next line
INDENT = "  "
DELETED = "(the post was deleted)"
COPY_SIGN = "="  # after the score of a post that repeats an earlier one
MAX_POST_CHARS = 10_000


def highlight_words(pairs: Sequence[tuple[str, float]], colour: bool) -> str:
    """One line of words: coloured, or without colour with the largest weights in brackets.

    The largest weight is brightest, a negative one is grey. The entry "" (what belongs to no word)
    and control characters are left out.
    """
    words = [(plain, weight) for word, weight in pairs if (plain := printable(word))]
    sizes = [abs(weight) for _, weight in words]
    ranking = sorted(range(len(words)), key=lambda i: -sizes[i])
    bright = set(ranking if colour else ranking[:MAX_NUMBERED_WORDS])
    top = max(sizes, default=0.0)
    return " ".join(
        _highlight(word, weight, top, colour) if i in bright else word
        for i, (word, weight) in enumerate(words)
    )


def highlight_text(text: str, why: Sequence[tuple[str, float]], colour: bool) -> str:
    """A text with the words of `why` coloured, or numbered without colour."""
    weights = {word.lower(): weight for word, weight in why if word}
    top = max(map(abs, weights.values()), default=0.0)
    if not top:
        return text
    longest_first = map(re.escape, sorted(weights, key=len, reverse=True))
    pattern = re.compile("|".join(longest_first), re.IGNORECASE)

    def in_colour(word: str) -> str:
        return _highlight(word, weights.get(word.lower(), 0.0), top, colour)

    def replacement(match: re.Match[str]) -> str:
        sign, word = match.groups()
        if word.lower() in weights:
            return sign + in_colour(word)
        return sign + pattern.sub(lambda piece: in_colour(piece[0]), word) if sign else word

    return WORD.sub(replacement, text)


def _highlight(word: str, weight: float, top: float, colour: bool) -> str:
    """`top` is the largest weight of the score."""
    if abs(weight) < MIN_WEIGHT_SHARE * top or not weight:
        return word
    if not colour:
        return f"{word}[{weight:.2f}]" if abs(weight) >= MIN_SHOWN_WEIGHT else word
    if weight < 0:
        return click.style(word, fg=GREY)
    shade = min(int(weight / top * len(SHADES)), len(SHADES) - 1)
    background, text = SHADES[shade]
    return click.style(word, fg=text, bg=background, bold=shade == len(SHADES) - 1 or None)


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns; a longer word is broken."""
    lines, line, column = list[str](), "", 0
    for word in text.split():
        size, room = columns(word), width - column - 1
        if line and (size <= room or (size > width and room >= WIDE_COLUMNS)):
            line, column = f"{line} ", column + 1
        elif line:
            lines.append(line)
            line, column = "", 0
        for letter in word:
            if column + columns(letter) > width:
                lines.append(line)
                line, column = "", 0
            line, column = line + letter, column + columns(letter)
    return [*lines, line]


def columns(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        WIDE_COLUMNS if east_asian_width(letter) in WIDE else category(letter) not in ZERO_WIDTH
        for letter in text
    )


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """The last column is cut at the width of the terminal."""
    cells = [list(header), *([cell_text(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header) - 1)]
    left = max(page_width() - sum(widths) - 2 * len(widths), MIN_COLUMN_WIDTH)
    for line in cells:
        parts = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        click.echo("  ".join([*parts, shorten(line[-1], left)]).rstrip())


def page_width() -> int:
    """The width of the terminal; unlimited if the output is redirected."""
    return get_terminal_size((PIPE_WIDTH, 24)).columns if sys.stdout.isatty() else sys.maxsize


def cell_text(cell: object) -> str:
    """One line without control characters; - for an empty cell."""
    return "-" if cell is None or cell == "" else one_line(str(cell))


def print_json(rows: Iterable[Any]) -> None:
    for row in rows:
        click.echo(escape_json(json.dumps(row, ensure_ascii=False)))


def print_fields(row: Mapping[str, object]) -> None:
    for name, value in row.items():
        click.echo(f"{name:<13} {cell_text(value)}")


TimeFormat = Callable[[MatchRecord], str]


class LineView:
    """One post on each line: time, score, event, and the post with highlighted words.

    On a terminal the post is wrapped, and starts on the next line where there is little room.
    """

    def __init__(self, format_time: TimeFormat) -> None:
        self._format_time, self._colour, self._width = format_time, use_colour(), page_width()

    def show(self, records: Sequence[OutputRecord]) -> None:
        for record in records:
            self._show(record.record, record.matches)
        sys.stdout.flush()

    def _show(self, record: MatchRecord, matches: Sequence[Match]) -> None:
        best = max(matches, key=lambda match: match.score)
        events = list(dict.fromkeys(match.event for match in matches))
        more = f" +{len(events) - 1}" if len(events) > 1 else ""
        name = shorten(one_line(best.event), EVENT_WIDTH - len(more)) + more
        copy = COPY_SIGN if record.new is False else " "
        head = f"{self._format_time(record)}  {best.score:.2f}{copy} {name:<{EVENT_WIDTH}}"
        fits_beside = self._width - columns(head) - len(INDENT) >= MIN_POST_WIDTH
        before = " " * columns(head) + INDENT if fits_beside else INDENT
        text = DELETED if record.deleted is True else one_line(as_text(record.post).text)
        lines = self._lines(text, best.why, len(before))
        first = [head + INDENT + lines.pop(0)] if fits_beside else [head]
        for line in [*first, *(before + line for line in lines)]:
            click.echo(line.rstrip(), color=self._colour)

    def _lines(self, text: str, why: Sequence[tuple[str, float]], before: int) -> list[str]:
        if self._width == sys.maxsize:
            return [highlight_text(text, why, self._colour)]
        text, room = shorten(text, MAX_POST_CHARS), self._width - before
        if self._colour:
            return [highlight_text(line, why, True) for line in wrap(text, room)]
        return wrap(highlight_text(text, why, False), room)


def match_time(record: MatchRecord) -> str:
    """The time of day at which a worker found the match."""
    return f"{one_line(record.processed_at)[11:19]:8}Z"


def post_time(record: MatchRecord) -> str:
    """When the post was written, else when it arrived in the topic."""
    arrival = record.source.timestamp
    time = record.post.created_at or (rfc3339(arrival) if arrival > 0 else None)
    return f"{one_line(time)[:19]:19}Z" if time else f"{'-':20}"


@dataclass(frozen=True, slots=True)
class Output:
    path: Path | None
    as_json: bool
    as_csv: bool
    per: Per | None

    def check(self, sources: Sequence[Path] = (), **others: Path | None) -> None:
        """Raises an error if the output cannot be written, before any work is done."""
        targets = {f"--{name}": path for name, path in others.items() if path}
        check_targets({"--out": self.path or DASH} | targets, sources)
        if self.as_json and self.as_csv:
            raise click.UsageError("--json and --csv exclude each other")
        if self.path:
            check_format("--out", self.path)
        by_name, flag = format_by_ending(self.path or DASH), self._flag()
        if flag and by_name not in (None, flag):
            name = "csv" if self.as_csv else "json"
            raise click.UsageError(f"--{name} and --out {self.path} exclude each other")
        if self.per and self._format() is database:
            raise click.UsageError("--per: a database holds posts and matches; leave it out")

    @property
    def to_terminal(self) -> bool:
        return self.path in (None, DASH) and sys.stdout.isatty()

    def open(
        self,
        source_columns: tuple[str, ...],
        format_time: TimeFormat | None = None,
        user_columns: Sequence[str] = (),
    ) -> AbstractContextManager[AddRecords]:
        """Yields the function that adds records. A file is completed at the end, and on Ctrl-C.

        With `format_time`, records are printed for reading unless a format was chosen.
        """
        if format_time and not (self.path or self.per or self._flag()):
            return nullcontext(LineView(format_time).show)
        layout = Layout(source_columns, self.per, user_columns)
        return record_writer(self.path or DASH, self._format(), layout, defer_interrupts)

    def report(self, posts: int) -> None:
        if self.path and is_replaced(self.path):
            notify(f"{plural(posts, 'post')} with matches: {self.path}")

    def _flag(self) -> Format | None:
        return csv_table if self.as_csv else json_lines if self.as_json else None

    def _format(self) -> Format:
        return format_by_ending(self.path or DASH) or self._flag() or json_lines


output_options = option_group(
    "output",
    Output,
    click.option("--json", "as_json", is_flag=True, help="Print the records as JSON lines."),
    click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one row for each match."),
    click.option("--out", "path", type=PATH, metavar="FILE", help="Write to this file, by its "
                 "ending: .csv .tsv .jsonl .json (.gz, .zst) .parquet .db"),
    click.option("--per", type=click.Choice(get_args(Per)),
                 help="What a row stands for; a match in tables, a post in JSON, if not given."),
)  # fmt: skip
