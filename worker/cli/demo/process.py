"""The worker as the process that `faust -A worker worker` is, and its end whatever happens."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

from worker.cli.signals import unbroken
from worker.errors import RunError

COMMAND = ("-A", "worker", "worker")
KEPT = ("NEWSIFT_CACHE", "NEWSIFT_DEBUG")  # of the user's own settings
START_S = 120.0  # the first start compiles
END_S = 15.0
LAST = 500  # characters of the log's last line, which an error quotes


class WorkerProcess:
    """A running worker: whether it is well, what its metrics say."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        self._process, self._port, self._log = process, port, log

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def wait_until_ready(self, patience: float = START_S) -> float:
        """Wait until it takes posts, and say for how many seconds."""
        began = time.monotonic()
        while not self._answer("readyz"):
            self.check()
            if time.monotonic() - began > patience:
                raise RunError(f"the worker was not ready after {patience:.0f} s: {self._last()}")
            time.sleep(0.05)
        return time.monotonic() - began

    def check(self) -> None:
        """Raise if the worker has ended."""
        code = self._process.poll()
        if code is not None:
            raise RunError(f"the worker ended with exit code {code}: {self._last()}")

    def counted(self, metric: str) -> Counter[str]:
        """A metric by the value of its label, if it has one; nothing while nobody answers."""
        line = re.compile(rf'{metric}(?:{{\w+="(.*)"}})? (.*)')
        found = map(line.fullmatch, self._answer("metrics").decode().splitlines())
        return +Counter({row[1] or "": int(float(row[2])) for row in found if row})

    def _answer(self, page: str) -> bytes:
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/{page}", timeout=2) as answer:
                return bytes(answer.read())
        except OSError:
            return b""

    def _last(self) -> str:
        said = self._log.read_text("utf-8", "replace").strip().rpartition("\n")[2]
        return said[-LAST:] or "it said nothing"


@contextmanager
def worker_process(
    kafka: str, folder: Path, settings: Mapping[str, str]
) -> Iterator[WorkerProcess]:
    """Run `faust -A worker worker` on a broker while the block lasts."""
    port, log = free_port(), folder / "worker.log"
    environment = {
        name: value for name, value in os.environ.items()
        if not name.startswith("NEWSIFT_") or name in KEPT
    }  # fmt: skip
    environment |= {"NEWSIFT_KAFKA": kafka, "NEWSIFT_WEB__PORT": str(port), **settings}
    process = None
    try:
        # A session of its own: Ctrl-C reaches the demo alone, which then ends the worker in order.
        with log.open("wb") as output, unbroken():
            process = subprocess.Popen(
                [*faust(), *COMMAND], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        yield WorkerProcess(process, port, log)
    finally:
        if process is not None:
            end_group(process)


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """End a process in order, and without asking if that takes too long."""
    try:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def faust() -> list[str]:
    """The command that starts Faust: the script beside this Python, else the module."""
    script = Path(sys.executable).with_name("faust")
    return [str(script)] if script.exists() else [sys.executable, "-m", "faust"]


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
