"""`python -m tests.faults.campaign`: every fault, and the table of what came of it.

Each worker is started by the command itself. `--kafka apache` takes Apache Kafka in the place of
the embedded broker; `--repeat 5` tells each story five times; names pick stories.
"""

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.broker.server import opened
from tests.faults.checker import check
from tests.faults.expected import Oracle
from tests.faults.stories import STORIES
from tests.faults.story import Story

COLUMNS = (
    f"{'fault':<28}{'fired':>6}{'posts':>7}{'matches':>9}{'dead':>6}{'missing':>9}{'twice':>7}"
    f"{'allowed':>9}{'s':>7}"
)


def main(arguments: list[str]) -> int:
    """Tell the stories and print the table; 1 if any story did not end well."""
    options = parsed(arguments)
    told = [name for name in STORIES if any(part in name for part in options.stories or [""])]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        oracle, home = Oracle(Path(folder)), Path(folder) / "broker"
        home.mkdir()
        with opened(options.kafka, home, auto_create=False) as server:
            say(f"{options.kafka} broker\n{COLUMNS}")
            for number in range(options.repeat):
                for place, name in enumerate(told):
                    own = Path(folder) / f"story-{number}-{place}"
                    own.mkdir()
                    failed += not ends_well(name, Story(server, own, oracle, fork=options.fork))
    return int(failed > 0)


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="tests.faults.campaign", description=__doc__)
    parser.add_argument("stories", nargs="*", help="parts of names; all if none is given")
    parser.add_argument("--kafka", choices=["embedded", "apache"], default="embedded")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--fork", action="store_true", help="fork the workers: quicker, less real")
    return parser.parse_args(arguments)


def ends_well(name: str, story: Story) -> bool:
    """Tell one story and print its row of the table; whether it came to its end."""
    began = time.monotonic()
    try:
        STORIES[name](story)
    except AssertionError as error:
        say(f"{name:<28}FAILED: {str(error)[:2000]}\n{traceback.format_exc(limit=-6)}")
        return False
    finally:
        story.close()
    verdict = check(story.history(), story.allowed_duplicates)
    fired = sum(len(worker.proofs) for worker in story.workers) + story.events
    say(
        f"{name:<28}{fired:>6}{verdict.posts:>7}{verdict.matches:>9}{verdict.letters:>6}"
        f"{verdict.missing:>9}{verdict.duplicates:>7}{story.allowed_duplicates:>9}"
        f"{time.monotonic() - began:>7.1f}"
    )
    return True


def say(line: str) -> None:
    """Print a line now."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
