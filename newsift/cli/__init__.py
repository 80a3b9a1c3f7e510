"""The `newsift` command; each of its commands is imported when it is called."""

import errno
import os
import select
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from encoder.errors import NewsiftError
from newsift.cli.examples import add_examples
from newsift.cli.group import CommandGroup
from newsift.cli.signals import interruptible
from worker.errors import RunError
from worker.text import escape_invisible, shorten

FAILED_CODE, INTERRUPTED_CODE = 1, 130
MAX_NAME_CHARS = 80  # of a file, in an error
# The extra of the distribution for each module that is not always installed.
EXTRAS = {"torch": "train", "entmax": "train", "matplotlib": "figures", "sklearn": "figures"}
DISK_FULL_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

# Headings of `newsift --help`, with the names of the commands and what they do.
GROUPS = {
    "Start": {
        "demo": "Run newsift on a stream of sample posts.",
        "filter": "Filter files of posts, without a broker.",
        "seeds": "List, add, change and remove seed articles.",
        "broker": "Run a Kafka broker in memory, to try things out.",
        "worker": "Filter the posts topic: faust -A worker worker.",
        "collect": "Bring posts from a platform to the posts topic.",
        "desk": "Watch and judge matches, and edit seeds, in the browser.",
    },
    "Watch": {
        "matches": "Print matches as they arrive, or POST them to an address.",
        "status": "Show workers, lag, seeds and rates.",
    },
    "Judge": {
        "labels": "Judge posts; list, export and import labels; write down what counts as on.",
        "events": "Show and make the profiles that events learn.",
        "estimate": "Count the posts on an event by day or hour, with intervals.",
    },
    "Operate": {
        "check": "Check the configuration and the topics.",
        "replay": "Send the posts of files to the posts topic.",
        "backfill": "Filter past posts again, for one seed.",
        "background": "Build the posts that thresholds are computed from.",
        "dead-letters": "List, show and retry messages that could not be processed.",
        "prune": "Take back the matches of posts that were deleted.",
        "topics": "Create the topics, or check their settings.",
        "config": "Check the configuration, or show it.",
    },
    "Develop": {
        "embed": "Turn posts or articles into embeddings.",
        "explain": "Show the weights of a post's words, or what they add to its score.",
        "schemas": "Print the JSON Schemas of the records.",
        "train": "Train a model by a recipe.",
        "evaluate": "Compare models with their alternatives.",
        "figures": "Draw the paper's figures for a model.",
        "bench": "Measure the figures of the README.",
    },
}
FIRST_STEPS = """First steps:
  $ newsift demo --desk                                     the samples, in the browser
  $ newsift filter posts.csv --seeds articles/              a file of posts, here
  $ newsift desk --file posts.csv --seeds articles/         the same, in the browser
  $ newsift COMMAND --help                                  two examples of each command"""
# Module and attribute of the commands that are not newsift.cli.NAME:NAME.
LOCATIONS = {
    "check": "newsift.cli.config:check",
    "filter": "newsift.cli.filter:filter_posts",
    "dead-letters": "newsift.cli.dead_letters:dead_letters",
    "train": "train.cli:train",
    "evaluate": "train.cli:evaluate",
    "figures": "train.cli:figures",
    "bench": "bench.cli:bench",
}
COMMANDS = {
    name: (LOCATIONS.get(name, f"newsift.cli.{name}:{name}"), text)
    for commands in GROUPS.values()
    for name, text in commands.items()
}


class Interrupted(Exception):
    """By a signal; of KeyboardInterrupt click would print an empty line."""


class ReaderLeft(Exception):
    """The reader of our output has closed the pipe, as `head` does."""


def is_read() -> bool:
    """Whether stdout still has a reader; if so, another pipe has broken."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return not any(event & select.POLLERR for _, event in poll.poll(0))


class TableGroup(CommandGroup):
    """Imports a command only when it is called."""

    def invoke(self, ctx: click.Context) -> Any:
        """click would report a reader that left as a failure."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Interrupted from error
        except BrokenPipeError as error:
            if is_read():
                raise RunError(f"{type(error).__name__}: {error}") from error
            raise ReaderLeft from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute = COMMANDS[name][0].split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        add_examples(name, command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Uses the table alone, so that help imports no command."""
        width = max(map(len, COMMANDS))
        with formatter.section("Commands"):
            for heading, names in GROUPS.items():
                with formatter.section(heading):
                    rows = [(name.ljust(width), COMMANDS[name][1]) for name in names]
                    formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Uses the table alone, so that completion is fast."""
        names = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items()]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [item for item in names if item.value.startswith(incomplete)] + options


@click.group(
    cls=TableGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\n" + FIRST_STEPS,
)
@click.version_option(
    package_name="newsift", message="newsift %(version)s", help="Show the version and stop."
)
def cli() -> None:
    """Find the social media posts that talk about an event, given a few news articles on it."""


def run(args: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code; prints at most one line for an error."""
    interrupts: list[int] = []
    args = sys.argv[1:] if args is None else args
    try:
        with interruptible() as interrupts:
            code = cli.main(args=args, prog_name="newsift", standalone_mode=False)
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _print_error(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt, Interrupted):
        return _report_interrupt(interrupts, args)
    except (ReaderLeft, BrokenPipeError):
        _discard_output()
        return 0
    except NewsiftError as error:
        return _print_error(str(error), error.exit_code)
    except Exception as error:  # noqa: BLE001 - one line instead of a traceback
        if interrupts:  # an interrupted compiler raises its own error
            return _report_interrupt(interrupts, args)
        return _print_failure(error)


def _print_failure(error: Exception) -> int:
    """One line for an error that is not newsift's own."""
    if isinstance(error, OSError) and error.errno in DISK_FULL_ERRORS and error.filename is None:
        _discard_output()
        message = (
            f"the output, or a temporary file, cannot be written ({error.strerror}); make room"
        )
        return _print_error(message, FAILED_CODE)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG and error.filename:
        message = f"{shorten(str(error.filename), MAX_NAME_CHARS)}: {error.strerror}"
        return _print_error(f"{message}; give a shorter one", NewsiftError.exit_code)
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        extra = EXTRAS[error.name]
        message = f"{error.name} is not installed; pip install 'newsift[{extra}]'"
        return _print_error(message, NewsiftError.exit_code)
    return _print_error(f"{type(error).__name__}: {error}", FAILED_CODE)


def main() -> None:
    _replace_closed_streams()
    sys.exit(run())


def _replace_closed_streams() -> None:
    """Open /dev/null in the place of a standard stream that was closed before the start."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def _report_interrupt(interrupts: Sequence[int], args: Sequence[str]) -> int:
    """SIGTERM is the regular end of a command that has no other, and interrupts the rest."""
    if signal.SIGTERM in interrupts and runs_until_ended(args):
        return 0
    if sys.stderr.isatty():
        click.echo(err=True)  # after ^C
    return _print_error("interrupted", INTERRUPTED_CODE)


def runs_until_ended(args: Sequence[str]) -> bool:
    """Whether what was asked for goes on until a signal ends it."""
    options = {arg.partition("=")[0] for arg in args}
    match args[:2]:
        case ["worker" | "desk" | "broker", *_]:
            return True
        case ["collect", *_] | ["seeds", "follow"]:
            return options.isdisjoint({"--once", "--dry-run"})
        case ["prune", *_]:
            return "--follow" in options
        case ["matches", *_]:
            is_live = "--follow" in options or options.isdisjoint({"--no-follow", "--since"})
            return "--post-to" in options or (is_live and options.isdisjoint({"--limit", "--out"}))
        case ["events", "learn"]:
            return "--every" in options
    return False


def _print_error(message: str, code: int) -> int:
    if os.environ.get("NEWSIFT_DEBUG") == "1":
        click.echo("\n".join(map(escape_invisible, traceback.format_exc().split("\n"))), err=True)
    click.echo(f"newsift: {escape_invisible(' '.join(message.split()))}", err=True)
    return code


def _discard_output() -> None:
    """Redirect stdout to /dev/null, so that the interpreter's last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
