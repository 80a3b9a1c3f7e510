"""The `newsift` command: a table of commands, each imported when it is called."""

import importlib.metadata
import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

import click

from encoder.errors import NewsiftError

FAILED = 1
INTERRUPTED = 130

# name: (where it stands, what it does); a row here is all that a new command needs.
COMMANDS = {
    "demo": ("worker.cli.demo:demo", "Filter sample posts by sample articles, offline."),
    "embed": ("worker.cli.embed:embed", "Turn posts or articles into embeddings."),
    "explain": ("worker.cli.explain:explain", "Show which words carry a post, or its score."),
    "bench": ("bench.cli:bench", "Measure what the README claims."),
}


class Commands(click.Group):
    """A group that knows its commands by name and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of this name, imported now; None if the table has none."""
        if name not in COMMANDS:
            return None
        module, attribute = COMMANDS[name][0].split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table alone, so that help imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed, or name the one that was probably meant."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            close = get_close_matches(args[0], COMMANDS, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else "see 'newsift --help'"
            raise click.UsageError(f"no such command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


def version(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    """Print the version of the installed distribution and stop."""
    if asked and not ctx.resilient_parsing:
        click.echo(f"newsift {importlib.metadata.version('newsift')}")
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=version,
    help="Show the version and stop.",
)  # fmt: skip
def cli() -> None:
    """Find the social media posts that talk about an event, given a few news articles on it."""


def run(args: Sequence[str] | None = None) -> int:
    """Run one command and turn what comes of it into an exit code and at most one line."""
    try:
        code = cli.main(args=args, prog_name="newsift", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _say(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:
        return _hush()
    except NewsiftError as error:
        return _say(str(error), error.exit_code)
    except Exception as error:  # noqa: BLE001 - the last resort: one line instead of a traceback
        return _say(f"{type(error).__name__}: {error}", FAILED)


def main() -> None:
    """Start the `newsift` command of the shell."""
    sys.exit(run())


def _say(message: str, code: int) -> int:
    if os.environ.get("NEWSIFT_DEBUG") == "1":
        traceback.print_exc()
    click.echo(f"newsift: {' '.join(message.split())}", err=True)
    return code


def _hush() -> int:
    """Let the interpreter's last flush go nowhere: whoever read our output has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
