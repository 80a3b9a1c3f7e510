"""The worker as a child process, which never outlives the block that runs it."""

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
from random import SystemRandom

from newsift.cli.signals import defer_interrupts
from newsift.cli.worker import FAUST, WORKER_ARGUMENTS
from newsift.operations.workers import ANSWER_ERRORS, ask_worker
from worker.errors import RunError
from worker.metrics.address_file import WorkerAddress

PASSED_VARIABLES = ("NEWSIFT_CACHE", "NEWSIFT_STATE", "NEWSIFT_DEBUG")
MAX_START_S = 120.0  # the very first start compiles
MAX_STOP_S = 15.0
PORTS = (15_000, 32_000)
MAX_LOG_CHARS = 500  # of the log's last line in an error
# Linux sends this process the signal when the thread that started it ends, even if it is killed.
# That holds for the program that takes the place of this one, too.
PR_SET_PDEATHSIG = 1
WITH_PARENT = f"""
import ctypes, os, sys
if os.getppid() == int(sys.argv[1]):
    ctypes.CDLL(None).prctl({PR_SET_PDEATHSIG}, {int(signal.SIGTERM)})
    os.execv(sys.argv[2], sys.argv[2:])
"""


class WorkerProcess:
    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        self._process, self._log = process, log
        self._address = WorkerAddress(f"127.0.0.1:{port}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self, timeout: float = MAX_START_S) -> float:
        """Returns the seconds that it took."""
        began = time.monotonic()
        while not self.is_ready():
            self.check()
            if time.monotonic() - began > timeout:
                raise RunError(
                    f"the worker was not ready after {timeout:.0f} s: {self._last_log_line()}"
                )
            time.sleep(0.05)
        return time.monotonic() - began

    def is_ready(self) -> bool:
        return bool(self._answer("readyz"))

    def check(self) -> None:
        """Raise if the worker has ended."""
        code = self._process.poll()
        if code is not None:
            raise RunError(f"the worker ended with exit code {code}: {self._last_log_line()}")

    def counter_values(self, metric: str) -> Counter[str]:
        """A counter by the value of its label ("" without one); empty if nothing answers."""
        line = re.compile(rf'{metric}(?:{{\w+="(.*)"}})? (.*)')
        rows = map(line.fullmatch, self._answer("metrics").decode().splitlines())
        return +Counter({row[1] or "": int(float(row[2])) for row in rows if row})

    def _answer(self, page: str) -> bytes:
        try:
            status, body = ask_worker(self._address, f"/{page}", 2.0)
        except ANSWER_ERRORS:
            return b""
        return body if status == 200 else b""

    def _last_log_line(self) -> str:
        line = self._log.read_text("utf-8", "replace").strip().rpartition("\n")[2]
        return line[-MAX_LOG_CHARS:] or "its log is empty"


@contextmanager
def worker_process(
    kafka: str, folder: Path, settings: Mapping[str, str], port: int = 0
) -> Iterator[WorkerProcess]:
    """Run `faust -A worker worker` during the block; port 0 takes a free one."""
    port, log = port or free_port(), folder / "worker.log"
    environment = {
        name: value for name, value in os.environ.items()
        if not name.startswith("NEWSIFT_") or name in PASSED_VARIABLES
    }  # fmt: skip
    environment |= {"NEWSIFT_KAFKA": kafka, "NEWSIFT_WEB__PORT": str(port), **settings}
    process = None
    try:
        # In a new session: Ctrl-C reaches only this process, which then stops the worker in order.
        with log.open("wb") as output, defer_interrupts():
            process = subprocess.Popen(
                [*with_parent(), *FAUST, *WORKER_ARGUMENTS], cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        yield WorkerProcess(process, port, log)
    finally:
        if process is not None:
            stop_group(process)


def with_parent() -> list[str]:
    """Before a command: on Linux it is asked to stop if this process is killed."""
    if sys.platform != "linux":
        return []
    return [sys.executable, "-I", "-S", "-c", WITH_PARENT, str(os.getpid())]


def stop_group(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(MAX_STOP_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    """A port below those of outgoing connections, so that none takes it before the caller does."""
    for port in SystemRandom().sample(range(*PORTS), 100):
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise RunError(f"no free port: 100 between {PORTS[0]} and {PORTS[1]} are in use")
