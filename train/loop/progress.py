"""A run's log: permanent lines, and one progress line that is overwritten on a terminal."""

import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

MIN_INTERVAL_S = 0.2  # between updates of the progress line


class ProgressLog:
    """Writes the log of a run to a stream; the progress line appears only on a terminal."""

    def __init__(self, stream: TextIO | None = None, live: bool | None = None) -> None:
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty() if live is None else live
        self._last = -MIN_INTERVAL_S

    def line(self, text: str) -> None:
        """Write a permanent line."""
        self.stream.write(f"\r\033[K{text}\n" if self.live else f"{text}\n")
        self.stream.flush()

    def progress(self, text: str) -> None:
        """Replace the progress line."""
        now = time.monotonic()
        if self.live and now - self._last >= MIN_INTERVAL_S:
            self._last = now
            self.stream.write(f"\r\033[K{text}")
            self.stream.flush()


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed of a run since this process started it."""

    first_step: int
    total_steps: int
    unit: str = "step"
    started_at: float = field(default_factory=time.monotonic)

    def text(self, step: int) -> str:
        """What is done, the speed and the time left."""
        rate = (step - self.first_step) / max(time.monotonic() - self.started_at, 1e-9)
        left = round((self.total_steps - step) / max(rate, 1e-9))
        clock = f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
        return f"{self.unit} {step:,} of {self.total_steps:,}, {rate:.1f}/s, {clock} left"
