"""`newsift worker`: replaces itself by `faust -A worker worker`."""

import os
import sys
from pathlib import Path

import click

from newsift.cli.options import CONFIG, KAFKA

FAUST = (sys.executable, "-P", "-m", "newsift.faust")
WORKER_ARGUMENTS = ("-A", "worker", "worker")


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True})
@KAFKA
@CONFIG
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[FAUST'S OPTIONS]")
def worker(kafka: str | None, config_file: Path | None, options: tuple[str, ...]) -> None:
    """Match the posts topic with the seed articles, until the worker is stopped.

    Runs `faust -A worker worker` in this process, with its options: `-l info` is the log level,
    `-f FILE` the log file, `-p PORT` and `-b ADDRESS` are those of its web server;
    `faust -A worker worker --help` has all. Missing topics are created. Exit code 0 after SIGTERM,
    1 if it fails while running, 2 if it cannot start.
    """
    from worker.config.load import with_servers

    env = with_servers(os.environ, kafka)
    if config_file is not None:
        env["NEWSIFT_CONFIG"] = str(config_file.absolute())
    sys.stdout.flush()
    command = [*FAUST, *WORKER_ARGUMENTS, *options]
    os.execve(command[0], command, env)
