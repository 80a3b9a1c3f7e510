"""Messages to the user: captured per request, otherwise printed to stderr. Progress lines."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from worker.text import escaped

if TYPE_CHECKING:
    from worker.seeds.state import ControlState

CLEAR = "\r\x1b[K"
SHOW_EVERY_S = 0.2  # seconds
MOST_LINES = 100  # that a listener hears
MOST_CHARS = 1_000  # of a line

_capture: ContextVar[list[str] | None] = ContextVar("heard", default=None)


@contextmanager
def capture() -> Iterator[list[str]]:
    """Collect what is said in this context, and in threads that take it over, and show nothing."""
    lines: list[str] = []
    token = _capture.set(lines)
    try:
        yield lines
    finally:
        _capture.reset(token)


def notify(message: str) -> None:
    """Tell something: on standard error in the place of a line of progress, unless one listens."""
    lines = _capture.get()
    if lines is None:
        _show(f"{CLEAR * _at_terminal()}newsift: {escaped(message)}\n")
    elif len(lines) < MOST_LINES:
        lines.append(escaped(message[:MOST_CHARS]))


def notify_version(state: "ControlState") -> None:
    """Say which version of the control topic was read before something was published to it."""
    notify(f"the control topic was read to {state.version}")


class ProgressLine:
    """How much is done, how fast, and how long it takes; shown now and then on a terminal."""

    def __init__(self, share: Callable[[int], float] = lambda _: 0.0) -> None:
        self.done = 0
        self._share = share  # of all, given what is done; 0 where nobody knows
        self._began = time.monotonic()
        self._last_shown = 0.0

    def add(self, count: int, what: str, more: str = "", quiet: bool = False) -> None:
        """Count what was done, and show it on a terminal; quietly where that shows the data."""
        self.done += count
        now = time.monotonic()
        if (
            not quiet
            and _capture.get() is None
            and _at_terminal()
            and now - self._last_shown > SHOW_EVERY_S
        ):
            self._last_shown = now
            message = f"{self.done:,} {what}{more}, {self.rate()}{self._left(now - self._began)}"
            _show(f"{CLEAR}{message}")

    def rate(self, unit: str = "/s") -> str:
        """How many a second since the start."""
        return f"{self.done / max(time.monotonic() - self._began, 1e-3):,.0f}{unit}"

    def _left(self, spent: float) -> str:
        """How long the rest takes at this rate, where it is known how much that is."""
        share = self._share(self.done)
        return f", {format_span(spent / share - spent)} left" if 0 < share < 1 else ""


def format_span(seconds: float) -> str:
    """A span of time as a person says it: 40 s, 12 min, 3 h."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"


def format_counts(counts: Counter[str]) -> str:
    """What was counted, the most first."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common())


def _at_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
