"""A command at a terminal of its own, and a person who reads it and presses keys."""

import os
import pty
import select
import subprocess
import time
from functools import partial
from typing import Self

from tests.worker.processes import BIN

PATIENCE_S = 60.0
CTRL_C = "\x03"


class AtTerminal:
    """The command while it runs; what it has shown so far is in `shown`."""

    def __init__(self, *args: str, **env: str) -> None:
        ours, theirs = pty.openpty()
        self._terminal, self.shown = ours, ""
        self._process = subprocess.Popen(
            [BIN / "newsift", *args], preexec_fn=partial(os.login_tty, theirs),
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100", **env},
        )  # fmt: skip
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)

    def hears(self, wanted: str) -> str:
        ends = time.monotonic() + PATIENCE_S
        while wanted not in self.shown:
            assert time.monotonic() < ends, f"no {wanted!r} in {self.shown!r}"
            assert self._more(), f"it ended without {wanted!r}: {self.shown!r}"
        before, _, self.shown = self.shown.partition(wanted)
        return before

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def interrupts(self) -> int:
        """Press Ctrl-C, again after each silent second, and tell the exit code.

        Python may lose one that comes between its showing a prompt and its reading the answer.
        """
        until = time.monotonic() + PATIENCE_S
        self.press(CTRL_C)
        shown = self.shown
        while self._more():
            assert time.monotonic() < until, f"it goes on: {self.shown!r}"
            if self.shown == shown and "interrupted" not in shown:
                self.press(CTRL_C)
            shown = self.shown
        return self._process.wait(PATIENCE_S)

    def ends(self) -> int:
        until = time.monotonic() + PATIENCE_S
        while self._more():
            assert time.monotonic() < until, f"it goes on: {self.shown!r}"
        return self._process.wait(PATIENCE_S)

    def _more(self) -> bool:
        if select.select([self._terminal], [], [], 1.0)[0]:
            try:
                self.shown += os.read(self._terminal, 2**16).decode("utf-8", "replace")
            except OSError:  # as Linux tells that nobody writes to it any more
                return False
        return True
