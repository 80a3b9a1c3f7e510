"""What a command says to whoever sits before it: a line, how far it is, in colour or without."""

import os
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from encoder.errors import InputError
from worker.visible import escaped

CLEAR = "\r\x1b[K"
TELL_EVERY = 0.2  # seconds


def say(told: str) -> None:
    """Tell something on standard error, in the place of a line of progress."""
    click.echo(f"{CLEAR * sys.stderr.isatty()}newsift: {escaped(told)}", err=True)


def colour_wanted() -> bool:
    """Whether standard output is a terminal whose user has not set NO_COLOR."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def refuse_unasked(yes: bool, what: str) -> None:
    """Refuse to publish where nobody sits who could be asked, and none has said yes."""
    if not yes and not sys.stdin.isatty():
        raise InputError(f"{what} asks before it publishes, and there is no terminal; give --yes")


def consented(yes: bool, question: str) -> bool:
    """Whether whoever sits there agrees, or has said so before."""
    if yes or click.confirm(escaped(question), err=True):
        return True
    say("nothing was published")
    return False


def prompt_for_text() -> None:
    """Say what is waited for, should somebody sit at standard input."""
    if sys.stdin.isatty():
        say("reading one text a line; Ctrl-D on an empty line ends it")


@contextmanager
def single_keys() -> Iterator[Callable[[], str]]:
    """Keys as they are pressed, several where they come fast; empty when the terminal is gone.

    The terminal is set once: whoever sets it for each key loses those pressed in between.
    """
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield lambda: os.read(terminal, 32).decode("utf-8", "replace")
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


class ProgressLine:
    """How much is done, how fast, and how long it takes; shown now and then on a terminal."""

    def __init__(self, share: Callable[[int], float] = lambda _: 0.0) -> None:
        self.done = 0
        self._share = share  # of all, given what is done; 0 where nobody knows
        self._began = time.monotonic()
        self._told = 0.0

    def add(self, count: int, what: str, more: str = "", quiet: bool = False) -> None:
        """Count what was done, and show it on a terminal; quietly where that shows the data."""
        self.done += count
        now = time.monotonic()
        if not quiet and sys.stderr.isatty() and now - self._told > TELL_EVERY:
            self._told = now
            told = f"{self.done:,} {what}{more}, {self.rate()}{self._left(now - self._began)}"
            click.echo(f"{CLEAR}{told}", nl=False, err=True)

    def rate(self, unit: str = "/s") -> str:
        """How many a second since the start."""
        return f"{self.done / max(time.monotonic() - self._began, 1e-3):,.0f}{unit}"

    def _left(self, spent: float) -> str:
        """How long the rest takes at this rate, where it is known how much that is."""
        share = self._share(self.done)
        return f", {span(spent / share - spent)} left" if 0 < share < 1 else ""


def span(seconds: float) -> str:
    """A span of time as a person says it: 40 s, 12 min, 3 h."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"
