"""A process from outside: whether it answers, its memory and its CPU time."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from newsift.operations.workers import ANSWER_ERRORS, http_get

ASKED_EVERY_S = 0.2
PATIENCE_S = 5.0  # for one answer; machines are shared
TICKS = os.sysconf("SC_CLK_TCK")


def peak_memory(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    (row,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(row.split()[1]) * 1024


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


class Witness:
    def __init__(self, port: int) -> None:
        self._port = port
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="witness", daemon=True)
        self._heard = time.monotonic()
        self._longest = 0.0

    def __enter__(self) -> Self:
        self._heard = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        at: TracebackType | None,
    ) -> None:  # fmt: skip
        self._over.set()
        self._thread.join()

    @property
    def longest_silence(self) -> float:
        """The seconds between two answers that followed each other, or since the last."""
        return max(self._longest, time.monotonic() - self._heard)

    def _ask(self) -> None:
        while not self._over.wait(ASKED_EVERY_S):
            with suppress(*ANSWER_ERRORS):
                if http_get(f"127.0.0.1:{self._port}", "/healthz", PATIENCE_S)[0] != 200:
                    continue
                now = time.monotonic()
                self._longest, self._heard = max(self._longest, now - self._heard), now
