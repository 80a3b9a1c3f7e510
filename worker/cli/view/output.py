"""Where the matches that a command finds go: lines on a terminal, or a file of any format."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from worker.cli.signals import unbroken
from worker.cli.terminal import say
from worker.cli.view.match import LineView, Moment
from worker.files.out.delimited import csv_table
from worker.files.out.formats import Format, check_format, format_by_ending, keeping
from worker.files.out.json_records import json_lines
from worker.files.out.rows import Add, Layout, Per
from worker.files.out.sqlite import database
from worker.files.read import DASH
from worker.files.write import check_targets, is_replaced

R = TypeVar("R")

OPTIONS = (
    click.option("--json", "as_json", is_flag=True, help="Print the records as they are."),
    click.option("--csv", "as_csv", is_flag=True, help="Print one row a match."),
    click.option(
        "--out", type=click.Path(path_type=Path), metavar="FILE",
        help="Write to this file, by its ending: .csv .tsv .jsonl .json (.gz, .zst) .parquet .db",
    ),
    click.option(
        "--per", type=click.Choice(get_args(Per)),
        help="What a row stands for; a match in tables, a post in JSON, if not given.",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Output:
    """What was asked for: a file, a format, and what a row stands for."""

    path: Path | None
    as_json: bool
    as_csv: bool
    per: Per | None

    def check(self, sources: Sequence[Path] = (), **others: Path | None) -> None:
        """Refuse, before any work, what cannot be written."""
        named = {f"--{name}": path for name, path in others.items() if path}
        check_targets({"--out": self.path or DASH} | named, sources)
        if self.as_json and self.as_csv:
            raise click.UsageError("--json and --csv exclude each other")
        if self.path:
            check_format("--out", self.path)
        by_name, flag = format_by_ending(self.path or DASH), self._flag()
        if flag and by_name not in (None, flag):
            said = f"--{'csv' if self.as_csv else 'json'} and --out {self.path} exclude each other"
            raise click.UsageError(said)
        if self.per and self._format() is database:
            raise click.UsageError("--per: a database holds posts and matches; leave it out")

    @property
    def is_seen(self) -> bool:
        """Whether it goes to a terminal."""
        return self.path in (None, DASH) and sys.stdout.isatty()

    def open(
        self, place: tuple[str, ...], moment: Moment | None = None, own: Sequence[str] = ()
    ) -> AbstractContextManager[Add]:
        """What takes records; a file is completed at the end of the block, and on Ctrl-C.

        Given a moment to show of each, they are lines to be read, unless a form was asked for.
        """
        if moment and not (self.path or self.per or self._flag()):
            return nullcontext(LineView(moment).show)
        layout = Layout(place, self.per, own)
        return keeping(self.path or DASH, self._format(), layout, unbroken)

    def tell(self, posts: int) -> None:
        """Say how many posts a file was given."""
        if self.path and is_replaced(self.path):
            say(f"{posts:,} {'post' if posts == 1 else 'posts'} with matches: {self.path}")

    def _flag(self) -> Format | None:
        return csv_table if self.as_csv else json_lines if self.as_json else None

    def _format(self) -> Format:
        return format_by_ending(self.path or DASH) or self._flag() or json_lines


def output_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options to a command, which gets what they amount to as `output`."""

    @wraps(command)
    def given(
        *args: Any, out: Path | None, as_json: bool, as_csv: bool, per: Per | None, **kwargs: Any
    ) -> R:
        return command(*args, output=Output(out, as_json, as_csv, per), **kwargs)

    for option in reversed(OPTIONS):
        given = option(given)
    return given
