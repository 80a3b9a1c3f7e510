"""`python -m tests.faults.campaign`: every fault, and the table of what came of it.

Each worker is started by the command itself. `--kafka` names the broker, or both; `--write` keeps
the table in docs/reliability.md; `--repeat 5` tells each story five times; names pick stories.
"""

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.broker.kafka import KafkaUnavailable
from tests.broker.server import Server, opened
from tests.faults.checker import check
from tests.faults.expected import Oracle
from tests.faults.report import PAGE, SHORT, Row, line, page
from tests.faults.stories import STORIES, number
from tests.faults.story import Story

BROKERS = ("embedded", "apache")


class Campaign:
    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options, self._folder = options, folder
        self._oracle = Oracle(folder)
        self.rows: list[Row] = []
        self.failed: list[str] = []
        self.left_out: list[str] = []

    def run(self, broker: str) -> None:
        home = self._folder / broker
        home.mkdir()
        asked = self._options.stories or [""]
        told = [name for name in STORIES if any(part in name for part in asked)]
        with opened(broker, home, auto_create=False) as server:
            for turn in range(self._options.repeat):
                for place, name in enumerate(told):
                    self._tell(name, server, broker, self._folder / f"{broker}-{turn}-{place}")

    def skip(self, broker: str, why: Exception) -> None:
        self.left_out.append(f"{broker}: {' '.join(str(why).split())}")
        say(f"SKIPPED: every fault on the {broker} broker: {why}")

    def _tell(self, name: str, server: Server, broker: str, folder: Path) -> None:
        folder.mkdir()
        began = time.monotonic()
        story = Story(server, folder, self._oracle, fork=self._options.fork)
        try:
            STORIES[name](story)
            row = row_of(name, story, broker, time.monotonic() - began)
            assert row.fired, "the fault never came"
        except Exception as error:  # noqa: BLE001 - the others are told all the same
            self.failed.append(f"{name} ({broker})")
            say(f"{name:<32}FAILED: {str(error)[:2000]}\n{traceback.format_exc(limit=-6)}")
        else:
            self.rows.append(row)
            say(line(row.cells, name.split(" ", 1)[1]))
        finally:
            story.close()


def row_of(name: str, story: Story, broker: str, seconds: float) -> Row:
    verdict = check(story.history(), story.allowed_duplicates)
    fired = sum(len(worker.proofs) for worker in story.workers) + story.events
    what = (STORIES[name].__doc__ or "").strip().rstrip(".")
    return Row(
        number(name), what, broker, fired, verdict.posts, verdict.missing, verdict.duplicates,
        story.allowed_duplicates, story.drained_s, seconds,
    )  # fmt: skip


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    brokers = BROKERS if options.kafka == "both" else (options.kafka,)
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(options, Path(folder))
        say(line(SHORT, "story"))
        for broker in brokers:
            try:
                campaign.run(broker)
            except KafkaUnavailable as error:
                if options.kafka != "both":
                    raise
                campaign.skip(broker, error)
    if options.write and not campaign.failed:
        command = " ".join(["python -m tests.faults.campaign", *arguments])
        PAGE.write_text(page(campaign.rows, command, campaign.left_out), "utf-8")
    say(f"{len(campaign.rows)} stories ended well, {len(campaign.failed)} did not")
    for name in campaign.failed:
        say(f"FAILED: {name}")
    return int(bool(campaign.failed))


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.faults.campaign", description=__doc__)
    parser.add_argument("stories", nargs="*", help="parts of names; all if none is given")
    parser.add_argument("--kafka", choices=[*BROKERS, "both"], default="embedded")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--fork", action="store_true", help="fork the workers: quicker, and brief")
    parser.add_argument("--write", action="store_true", help="write docs/reliability.md")
    return parser.parse_args(arguments)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
