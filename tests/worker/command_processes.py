"""Commands as processes of their own, and their end by a signal, however busy the machine is."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

BIN = Path(sys.executable).parent
AGAIN_S, PATIENCE_S = 10.0, 120.0


def environment(**own: str) -> dict[str, str]:
    """That of the tests, without a configuration but this."""
    cleared = {
        name: value for name, value in os.environ.items()
        if not name.startswith("NEWSIFT_") or name == "NEWSIFT_CACHE"
    }  # fmt: skip
    return cleared | own


@contextmanager
def started(*args: object, **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """The command `newsift`; whoever reads nothing of its output has to end it soon."""
    with subprocess.Popen(
        [BIN / "newsift", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, **options,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def said_until_ended_by(number: signal.Signals, process: "subprocess.Popen[str]") -> str:
    """Its standard error up to the end.

    The signal is sent again: Python may lose one that comes just before it begins to read.
    """
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        process.send_signal(number)
        try:
            return process.communicate(timeout=AGAIN_S)[1]
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"it goes on after {number.name}")


@dataclass
class Logged:
    """A command whose output is in a file while it runs."""

    process: "subprocess.Popen[bytes]"
    log: Path

    @classmethod
    def start(
        cls, folder: Path, command: str, *args: object, env: Mapping[str, str] | None = None
    ) -> Self:
        log = folder / f"{command}-{time.monotonic_ns()}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [BIN / command, *map(str, args)], cwd=folder, stdin=subprocess.DEVNULL, stdout=file,
                stderr=file, env=env,
            )  # fmt: skip
        return cls(process, log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def output(self) -> str:
        return self.log.read_text("utf-8")

    def until(self, met: Callable[[], object]) -> None:
        ends = time.monotonic() + PATIENCE_S
        while not met():
            assert time.monotonic() < ends, f"waited in vain: {self.output}"
            time.sleep(0.02)

    def wait_for(self, words: str) -> None:
        self.until(lambda: words in self.output or self.process.poll() is not None)
        assert words in self.output, self.output

    def wait(self) -> int:
        return self.process.wait(PATIENCE_S)

    def leave(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()


@contextmanager
def logged(
    folder: Path, command: str, *args: object, env: Mapping[str, str] | None = None
) -> Iterator[Logged]:
    """A command that runs in this folder while the block lasts."""
    running = Logged.start(folder, command, *args, env=env)
    try:
        yield running
    finally:
        running.kill()
