"""`python -m tests.faults.campaign`: every fault, and the table of results.

Each worker is started by the command itself. `--kafka` names the broker, or both; `--write` stores
the table in docs/reliability.md; names pick stories.
"""
# ruff: noqa: T201 - a command that prints a table

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tests.broker.kafka import KafkaUnavailable
from tests.broker.server import Server, opened
from tests.faults.checker import check
from tests.faults.expected import Oracle
from tests.faults.stories import STORIES, number
from tests.faults.story import DRAINS_WITHIN_S, Story

BROKERS = ("embedded", "apache")
PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
SOAK = "\n## A soak\n"  # and what follows on the page, which other hands write
HEAD = (
    "#", "what happens", "broker", "fired", "posts", "missing", "duplicates (allowed)",
    "drained within, s", "all in all, s",
)  # fmt: skip
SHORT = ("#", "", "broker", "fired", "posts", "missing", "twice", "drained", "seconds")
TEXT = """\
# Reliability

The checker does not use the worker's code. It derives what each post must produce, and compares the topics and the commits with that.
In each row the fault occurred as often as `fired` says. No record is missing or wrong, no offset was committed too early, and there are at
most as many duplicates as allowed.

Written by `{command}` on {day}.
`make faults` runs every story in full and starts the worker as a new process. `--fork` forks the worker and shortens some stories. A story fails if its
fault did not occur, or if its posts are not all processed within {bound:g} s.
{left_out}
{table}
"""  # noqa: E501 - lines of the page


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one story on one broker."""

    number: int
    what: str
    broker: str
    fired: int
    posts: int
    missing: int
    duplicates: int
    allowed: int
    drained_s: float
    seconds: float

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            str(self.number), self.what, self.broker, str(self.fired), str(self.posts),
            str(self.missing), f"{self.duplicates} ({self.allowed})", f"{self.drained_s:.1f}",
            f"{self.seconds:.1f}",
        )  # fmt: skip


def line(cells: Sequence[str], name: str) -> str:
    """A row for a terminal, with the story's short name."""
    number, _, broker, *figures = cells
    return f"{number:>3} {name:<27.27}{broker:<10}" + "".join(f"{each:>9}" for each in figures)


def page(rows: Sequence[Row], command: str, left_out: Sequence[str]) -> str:
    rows = sorted(rows, key=lambda row: (row.number, row.what, row.broker))
    table = [HEAD, ("---",) * len(HEAD), *(row.cells for row in rows)]
    return TEXT.format(
        command=command,
        day=f"{date.today():%d %B %Y}",
        bound=DRAINS_WITHIN_S,
        left_out="".join(f"\nLeft out: {each}\n" for each in left_out),
        table="\n".join(f"| {' | '.join(cells)} |" for cells in table),
    )


def title(name: str) -> str:
    return (STORIES[name].__doc__ or "").strip().rstrip(".")


def run_story(name: str, story: Story, broker: str) -> Row:
    began = time.monotonic()
    STORIES[name](story)
    verdict = check(story.history(), story.allowed_duplicates)
    fired = sum(len(worker.proofs) for worker in story.workers) + story.events
    assert fired, "the fault did not occur"
    return Row(
        number(name), title(name), broker, fired, verdict.posts, verdict.missing,
        verdict.duplicates, story.allowed_duplicates, story.drained_s, time.monotonic() - began,
    )  # fmt: skip


def run_stories(
    names: Sequence[str], server: Server, broker: str, folder: Path, fork: bool
) -> tuple[list[Row], list[str]]:
    """The rows of the stories that ended well, and the names of the others."""
    rows, failed, oracle = list[Row](), list[str](), Oracle(folder)
    for at, name in enumerate(names):
        home = folder / f"story-{at}"
        home.mkdir()
        story = Story(server, home, oracle, fork=fork)
        try:
            rows.append(run_story(name, story, broker))
            print(line(rows[-1].cells, name.split(" ", 1)[1]), flush=True)
        except Exception as error:  # noqa: BLE001 - the other stories run all the same
            failed.append(f"{name} ({broker})")
            print(f"{name:<32}FAILED: {str(error)[:2000]}\n{traceback.format_exc(limit=-6)}")
        finally:
            story.close()
    return rows, failed


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.faults.campaign", description=__doc__)
    parser.add_argument("stories", nargs="*", help="parts of names; all if none is given")
    parser.add_argument("--kafka", choices=[*BROKERS, "both"], default="embedded")
    parser.add_argument("--fork", action="store_true", help="fork the workers: quicker, and brief")
    parser.add_argument("--write", action="store_true", help="write docs/reliability.md")
    options = parser.parse_args(arguments)
    names = [name for name in STORIES if any(part in name for part in options.stories or [""])]
    rows, failed, left_out = list[Row](), list[str](), list[str]()
    print(line(SHORT, "story"))
    for broker in BROKERS if options.kafka == "both" else (options.kafka,):
        with tempfile.TemporaryDirectory() as scratch:
            folder, home = Path(scratch), Path(scratch) / "broker"
            home.mkdir()
            try:
                with opened(broker, home, auto_create=False) as server:
                    results = run_stories(names, server, broker, folder, options.fork)
            except KafkaUnavailable as error:
                if options.kafka != "both":
                    raise
                left_out.append(f"{broker}: {' '.join(str(error).split())}")
                print(f"SKIPPED: every fault on the {broker} broker: {error}")
            else:
                rows += results[0]
                failed += results[1]
    if options.write and not failed:
        command = " ".join(["python -m tests.faults.campaign", *arguments])
        _, head, rest = PAGE.read_text("utf-8").partition(SOAK)
        PAGE.write_text(page(rows, command, left_out) + head + rest, "utf-8")
    print(f"{len(rows)} stories ended well, {len(failed)} did not")
    for name in failed:
        print(f"FAILED: {name}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
