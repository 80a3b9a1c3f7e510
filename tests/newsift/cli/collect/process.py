"""`newsift collect` as a process of its own, which can be killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.worker.interrupted import said_until_ended_by

CODE = "from newsift.cli import main; main()"


class CollectProcess:
    """The command, from its start to its end."""

    def __init__(self, *args: object, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE, "collect", *map(str, args)],
            cwd=Path(__file__).parents[4], env={**os.environ, **env},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def kill(self) -> None:
        """End it as the loss of power does."""
        self.process.kill()
        self.process.communicate(timeout=60)

    def leave(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Ask it to leave; its exit code and what it said."""
        message = said_until_ended_by(number, self.process)
        return self.process.returncode, message

    def ended(self) -> tuple[int, str]:
        """Wait for its end; its exit code and what it said."""
        _, message = self.process.communicate(timeout=120)
        return self.process.returncode, message


Start = Callable[..., CollectProcess]


@contextmanager
def starting() -> Iterator[Start]:
    """Start such processes; those that go on at the end are killed."""
    begun: list[CollectProcess] = []

    def start(*args: object, **env: str) -> CollectProcess:
        begun.append(CollectProcess(*args, **env))
        return begun[-1]

    try:
        yield start
    finally:
        for each in begun:
            if each.process.poll() is None:
                each.kill()
