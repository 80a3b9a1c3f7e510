"""`newsift collect files`: the files of a folder, each once, as they come."""

import os
from pathlib import Path

import click

from encoder.errors import InputError
from worker.actions.told import tallied
from worker.cli.collect.running import DRY_RUN, STATE, run_source
from worker.cli.options import file_options, kafka_options
from worker.cli.terminal import say
from worker.config import Config
from worker.errors import RunError
from worker.files.find import SUFFIXES
from worker.files.formats.columns import FileOptions
from worker.files.posts import FileMessages, refuse_many_bad
from worker.seeds.record import digest
from worker.sources.folder.find import found_in
from worker.sources.folder.ledger import FileLedger
from worker.sources.folder.source import Folder
from worker.sources.state import default_state


@click.command()
@click.argument("place", metavar="FOLDER")
@click.option("--once", is_flag=True, help="End when all that is there is sent.")
@file_options
@STATE
@DRY_RUN
@kafka_options
def files(
    place: str, once: bool, wanted: FileOptions, state: Path | None, dry_run: bool, config: Config
) -> None:
    """Send the posts of the files in FOLDER, and of those that come, each file once.

    All that `newsift filter` reads is read, in folders below too; FOLDER may be a pattern in
    quotes. A file is taken when nobody has written to it for five seconds: write it elsewhere and
    move it here, if that may be too short. Files stay where they are.
    """
    place = os.path.abspath(place)  # noqa: PTH100 - a pattern, perhaps
    if place != place.encode("utf-8", "replace").decode():
        raise InputError(f"{place!r}: its name is not in UTF-8; rename it, or link to it")
    if (there := found_in(place, SUFFIXES)) is None:
        raise InputError(f"{place}: there is no such folder; make it, or give a pattern in quotes")
    if not (there or once):
        say(f"{place}: holds no file of posts yet; they are waited for")
    file = state or default_state(f"files-{digest(place)[:12]}")
    ledger = FileLedger(file.with_name(f"{file.name}.sent"), not dry_run)
    tell = Once()

    def read(path: Path) -> FileMessages:
        return FileMessages(path, wanted, config.limits, tell)

    source = Folder(place, read, ledger, once or dry_run)
    try:
        run_source(source, file, dry_run, config)
    finally:
        say(f"{place}: {tallied(source.counts) or 'nothing new'}")
    if once:
        conclude(source)


class Once:
    """Tells how tables are read: each way once, not for each file."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, said: str) -> None:
        """Say it, unless the same was said of a file before."""
        way = said.partition(": ")[2]
        if way not in self._told:
            self._told.add(way)
            say(said)


def conclude(source: Folder) -> None:
    """Fail where too much could not be read."""
    counts = source.counts
    if unread := counts["not understood"]:
        raise RunError(f"{unread:,} of {unread + counts['files']:,} files could not be read")
    refuse_many_bad(counts["bad rows"], counts["rows"])
