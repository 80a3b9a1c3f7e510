"""A command group that imports a command only when it is called."""

import select
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from newsift.cli.examples import add_examples
from worker.errors import RunError

Table = Mapping[str, tuple[str, str]]  # name: (module:attribute, what it does)
Groups = Mapping[str, Sequence[str]]  # heading: names


class ReaderLeft(Exception):
    """The reader of our output has closed the pipe, as `head` does."""


def is_read() -> bool:
    """Whether stdout still has a reader; if so, another pipe has broken."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return not any(event & select.POLLERR for _, event in poll.poll(0))


class TableGroup(click.Group):
    def __init__(self, *args: Any, table: Table, groups: Groups, **options: Any) -> None:
        super().__init__(*args, **options)
        self.table, self.groups = table, groups

    def invoke(self, ctx: click.Context) -> Any:
        """click would report a reader that left as a failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            if is_read():
                raise RunError(f"{type(error).__name__}: {error}") from error
            raise ReaderLeft from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.table:
            return None
        module, attribute = self.table[name][0].split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        add_examples(name, command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Uses the table alone, so that help imports no command."""
        width = max(map(len, self.table))
        with formatter.section("Commands"):
            for heading, names in self.groups.items():
                with formatter.section(heading):
                    rows = [(name.ljust(width), self.table[name][1]) for name in names]
                    formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Uses the table alone, so that completion is fast."""
        names = [CompletionItem(name, help=text) for name, (_, text) in self.table.items()]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [item for item in names if item.value.startswith(incomplete)] + options

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggests a similar name for an unknown command."""
        if args[0] not in self.table and not args[0].startswith("-"):
            close = get_close_matches(args[0], self.table, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"see '{ctx.command_path} --help'"
            raise click.UsageError(f"no such command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)
