"""Messages to the user: captured per request, otherwise printed to stderr. Progress lines."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from worker.text import escape_invisible

if TYPE_CHECKING:
    from worker.seeds.state import ControlState

CLEAR_LINE = "\r\x1b[K"
SHOW_EVERY_S = 0.2
MAX_CAPTURED_LINES = 100
MAX_MESSAGE_CHARS = 1_000

_capture: ContextVar[list[str] | None] = ContextVar("capture", default=None)


@contextmanager
def capture() -> Iterator[list[str]]:
    """Collects the messages of this context, and of threads that inherit it."""
    lines: list[str] = []
    token = _capture.set(lines)
    try:
        yield lines
    finally:
        _capture.reset(token)


def notify(message: str) -> None:
    """Goes to the capture, else to stderr in the place of the progress line."""
    lines = _capture.get()
    if lines is None:
        _write(f"{CLEAR_LINE * sys.stderr.isatty()}newsift: {escape_invisible(message)}\n")
    elif len(lines) < MAX_CAPTURED_LINES:
        lines.append(escape_invisible(message[:MAX_MESSAGE_CHARS]))


def notify_version(state: "ControlState") -> None:
    notify(f"before this change the control topic was at {state.version}")


class ProgressLine:
    """Shown on a terminal, at intervals."""

    def __init__(self, share: Callable[[int], float] = lambda _: 0.0) -> None:
        """`share` gives the share of all that a count is, or 0."""
        self.count = 0
        self._share = share
        self._began = time.monotonic()
        self._shown_at = 0.0

    def add(self, count: int, what: str, more: str = "", quiet: bool = False) -> None:
        """`quiet` is for a terminal that shows the data."""
        self.count += count
        now = time.monotonic()
        visible = not quiet and _capture.get() is None and sys.stderr.isatty()
        if visible and now - self._shown_at > SHOW_EVERY_S:
            self._shown_at = now
            share, seconds = self._share(self.count), now - self._began
            left = f", {format_span(seconds / share - seconds)} left" if 0 < share < 1 else ""
            _write(f"{CLEAR_LINE}{self.count:,} {what}{more}, {self.rate()}{left}")

    def rate(self, unit: str = "/s") -> str:
        return f"{self.count / max(time.monotonic() - self._began, 1e-3):,.0f}{unit}"


def format_span(seconds: float) -> str:
    """Such as 40 s, 12 min or 3 h."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"


def format_counts(counts: Counter[str]) -> str:
    """The largest first."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common())


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
