"""The `newsift` command: a table of commands, each imported when it is called.

One module a command, or one room where a command has several; nothing below imports them.
"""

import errno
import os
import signal
import sys
import traceback
from collections.abc import Sequence

import click

from encoder.errors import NewsiftError
from worker.cli.signals import interruptible
from worker.cli.table import ReaderLeft, TableGroup
from worker.visible import escaped

FAILED = 1
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
INTERRUPTED = 130
# What goes on until somebody ends it: SIGTERM is the end of it, from its first import on.
GOING_ON = {"collect", "watch", "desk", "broker"}

# name: (where it stands, what it does); a row here is all that a new command needs.
COMMANDS = {
    "demo": ("worker.cli.demo.command:demo", "Show newsift at work on a stream of sample posts."),
    "worker": ("worker.cli.worker:worker", "Filter the posts topic: faust -A worker worker."),
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
    "collect": (
        "worker.cli.collect.command:collect",
        "Bring posts from a platform to the posts topic.",
    ),
    "desk": ("worker.cli.desk:desk", "Open the page to watch, judge and steer by."),
    "watch": (
        "worker.cli.watch.command:watch",
        "Send matches on: by webhook, or as a stream of events.",
    ),
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
    "models": (
        "worker.cli.models:models",
        "List, add and remove models beside the one that ships.",
    ),
    "train": ("train.cli:train", "Train a model by a recipe."),
    "evaluate": ("train.protocol.cli:evaluate", "Judge models beside what one could take instead."),
    "figures": ("train.figures.cli:figures", "Draw the paper's figures for a model."),
    "bench": ("bench.cli:bench", "Measure what the README claims."),
}

# What `newsift --help` lists together, and in which order.
GROUPS = {
    "Start": ("demo", "filter", "seeds", "broker", "worker", "collect", "desk"),
    "Watch": ("matches", "watch", "status"),
    "Judge": ("labels", "events"),
    "Operate": (
        "replay", "backfill", "background", "dead-letters", "topics", "config", "models",
    ),
    "Develop": ("embed", "explain", "schemas", "train", "evaluate", "figures", "bench"),
}  # fmt: skip


@click.group(
    cls=TableGroup,
    table=COMMANDS,
    groups=GROUPS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(
    package_name="newsift", message="newsift %(version)s", help="Show the version and stop."
)
def cli() -> None:
    """Find the social media posts that talk about an event, given a few news articles on it."""


def run(args: Sequence[str] | None = None) -> int:
    """Run one command and turn what comes of it into an exit code and at most one line."""
    interrupts: list[int] = []
    named = (sys.argv[1:] if args is None else args)[:1]
    try:
        with interruptible() as interrupts:
            code = cli.main(args=args, prog_name="newsift", standalone_mode=False)
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _say(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _interrupted(interrupts, named)
    except (ReaderLeft, BrokenPipeError):
        _hush()
        return 0
    except NewsiftError as error:
        return _say(str(error), error.exit_code)
    except Exception as error:  # noqa: BLE001 - the last resort: one line instead of a traceback
        if interrupts:  # a compiler that met one fails in its own words
            return _interrupted(interrupts, named)
        if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
            _hush()
            said = f"what it prints, or puts by, cannot be written ({error.strerror}); make room"
            return _say(said, FAILED)
        return _say(f"{type(error).__name__}: {error}", FAILED)


def main() -> None:
    """Start the `newsift` command of the shell."""
    sys.exit(run())


def _interrupted(interrupts: Sequence[int], named: Sequence[str]) -> int:
    """SIGTERM is how to end what goes on; anything else is cut short."""
    if signal.SIGTERM in interrupts and GOING_ON.intersection(named):
        return 0
    return _say("interrupted", INTERRUPTED)


def _say(message: str, code: int) -> int:
    if os.environ.get("NEWSIFT_DEBUG") == "1":
        click.echo("\n".join(map(escaped, traceback.format_exc().split("\n"))), err=True)
    click.echo(f"newsift: {escaped(' '.join(message.split()))}", err=True)
    return code


def _hush() -> None:
    """Let the interpreter's last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
