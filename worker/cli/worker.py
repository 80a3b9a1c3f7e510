"""`newsift worker`: becomes `faust -A worker worker`, the same process."""

import os
import sys
from pathlib import Path

import click

from worker.cli.options import CONFIG, KAFKA


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True})
@KAFKA
@CONFIG
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[FAUST'S OPTIONS]")
def worker(kafka: str | None, config_file: Path | None, options: tuple[str, ...]) -> None:
    """Filter the posts topic by the seed articles, until it is ended.

    It becomes `faust -A worker worker`, the same process, with all of Faust's options: `-l info`
    the log level, `-f FILE` the log file, `-p PORT` where its web server listens. Missing topics
    are made. Exit code 0 after SIGTERM, 1 if it fails while running, 2 if it cannot start.
    """
    from worker.config.load import overridden

    env = overridden(os.environ, kafka)
    if config_file is not None:
        env["NEWSIFT_CONFIG"] = str(config_file.absolute())
    sys.stdout.flush()
    script = Path(sys.executable).with_name("faust")
    faust = [str(script)] if script.is_file() else [sys.executable, "-m", "faust"]
    os.execve(faust[0], [*faust, "-A", "worker", "worker", *options], env)
