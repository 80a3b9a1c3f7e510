"""Tables for people, and lines of JSON for programs."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from shutil import get_terminal_size
from typing import Any

import click

from worker.visible import cut, escaped_json, one_line

WIDEST = 100  # characters, where nothing says how wide the reader's page is
NARROWEST = 20


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under a header; the last column is cut where the terminal ends."""
    cells = [list(header), *([shown(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header) - 1)]
    left = max(page_width() - sum(widths) - 2 * len(widths), NARROWEST)
    for line in cells:
        parts = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        click.echo("  ".join([*parts, cut(line[-1], left)]).rstrip())


def page_width() -> int:
    """The width of the terminal; where output goes elsewhere, nothing is cut."""
    return get_terminal_size((WIDEST, 24)).columns if sys.stdout.isatty() else sys.maxsize


def shown(cell: object) -> str:
    """A cell in one line without what would steer a terminal; - for nothing."""
    return "-" if cell is None or cell == "" else one_line(str(cell))


def print_json(rows: Iterable[Any]) -> None:
    """Print one JSON object a line."""
    for row in rows:
        click.echo(escaped_json(json.dumps(row, ensure_ascii=False)))


def print_fields(row: Mapping[str, object]) -> None:
    """Print what is told of one thing, a line each."""
    for name, value in row.items():
        click.echo(f"{name:<13} {shown(value)}")
