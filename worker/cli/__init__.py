"""The `newsift` command: a table of commands, each imported when it is called.

One module a command, or one room where a command has several; nothing below imports them.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from encoder.errors import NewsiftError
from worker.cli.signals import interruptible
from worker.visible import escaped

FAILED = 1
INTERRUPTED = 130

# name: (where it stands, what it does); a row here is all that a new command needs.
COMMANDS = {
    "demo": ("worker.cli.demo.command:demo", "Show newsift at work on a stream of sample posts."),
    "embed": ("worker.cli.embed:embed", "Turn posts or articles into embeddings."),
    "seeds": ("worker.cli.seeds.command:seeds", "List, add, change and remove seed articles."),
    "events": ("worker.cli.events.command:events", "What events have learned; let them learn."),
    "labels": (
        "worker.cli.labels.command:labels",
        "Ask people whether posts are on an event; keep what they said.",
    ),
    "filter": (
        "worker.cli.filter:filter_posts",
        "Filter files of posts, without a broker.",
    ),
    "matches": ("worker.cli.matches:matches", "Print what the workers find, as it comes."),
    "replay": ("worker.cli.replay:replay", "Send the posts of files to the posts topic."),
    "backfill": ("worker.cli.backfill:backfill", "Filter past posts again, for one seed."),
    "background": (
        "worker.cli.background.command:background",
        "Build the posts that thresholds are found on.",
    ),
    "dead-letters": (
        "worker.cli.dead_letters.command:dead_letters",
        "List, show and retry what could not be read.",
    ),
    "status": ("worker.cli.status:status", "Show workers, lag, seeds and rates."),
    "explain": ("worker.cli.explain:explain", "Show which words carry a post, or its score."),
    "topics": ("worker.cli.topics:topics", "Make the topics, or say what is wrong with them."),
    "config": ("worker.cli.config:config", "Check the configuration, or show it."),
    "broker": ("worker.cli.broker:broker", "Run a Kafka broker in memory, to try things out."),
    "schemas": ("worker.cli.schemas:schemas", "Print the JSON Schemas of the records."),
    "train": ("train.cli:train", "Train a model by a recipe."),
    "evaluate": ("train.protocol.cli:evaluate", "Judge models beside what one could take instead."),
    "figures": ("train.figures.cli:figures", "Draw the paper's figures for a model."),
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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name from the table alone, so that a shell need not wait."""
        named = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items()]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [item for item in named if item.value.startswith(incomplete)] + options

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed, or name the one that was probably meant."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            close = get_close_matches(args[0], COMMANDS, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else "see 'newsift --help'"
            raise click.UsageError(f"no such command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    package_name="newsift", message="newsift %(version)s", help="Show the version and stop."
)
def cli() -> None:
    """Find the social media posts that talk about an event, given a few news articles on it."""


def run(args: Sequence[str] | None = None) -> int:
    """Run one command and turn what comes of it into an exit code and at most one line."""
    try:
        with interruptible():
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
        click.echo("\n".join(map(escaped, traceback.format_exc().split("\n"))), err=True)
    click.echo(f"newsift: {escaped(' '.join(message.split()))}", err=True)
    return code


def _hush() -> int:
    """Let the interpreter's last flush go nowhere: whoever read our output has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
