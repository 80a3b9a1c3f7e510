"""The group that all commands with subcommands are."""

from difflib import get_close_matches

import click


class CommandGroup(click.Group):
    """Suggests a similar name for an unknown command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            close = get_close_matches(args[0], names, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"see '{ctx.command_path} --help'"
            raise click.UsageError(f"no such command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)
