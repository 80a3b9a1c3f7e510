"""What a run says: lines that stay, and on a terminal one that is written over and over."""

import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

PAUSE = 0.2  # seconds between two states of the line that is written over


class ProgressLog:
    """Writes the log of a run to a stream; the progress line appears only on a terminal."""

    def __init__(self, stream: TextIO | None = None, live: bool | None = None) -> None:
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty() if live is None else live
        self._last = -PAUSE

    def line(self, text: str) -> None:
        """Say something that stays."""
        self.stream.write(f"\r\033[K{text}\n" if self.live else f"{text}\n")
        self.stream.flush()

    def progress(self, text: str) -> None:
        """Say how far the run is, in place of what was said so before."""
        now = time.monotonic()
        if self.live and now - self._last >= PAUSE:
            self._last = now
            self.stream.write(f"\r\033[K{text}")
            self.stream.flush()


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a run goes, counted from where this process began."""

    first: int
    count: int
    began: float = field(default_factory=time.monotonic)

    def __call__(self, done: int) -> str:
        """How far, how fast, and how long it will take."""
        rate = (done - self.first) / max(time.monotonic() - self.began, 1e-9)
        left = round((self.count - done) / max(rate, 1e-9))
        clock = f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
        return f"step {done:,} of {self.count:,}, {rate:.1f}/s, {clock} left"
