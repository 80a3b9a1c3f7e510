"""Questions, colour and single keys at a terminal."""

import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from encoder.errors import InputError
from newsift.operations.messages import notify
from worker.text import escape_invisible


def use_colour() -> bool:
    """Whether stdout is a terminal and NO_COLOR is not set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def at_terminal() -> bool:
    return sys.stdin.isatty()


def require_yes(yes: bool, command: str) -> None:
    """Refuse to publish without --yes where nobody can be asked."""
    if not yes and not at_terminal():
        raise InputError(
            f"{command} asks before it publishes, and there is no terminal; give --yes"
        )


def confirm_publish(yes: bool, question: str) -> bool:
    if yes or click.confirm(escape_invisible(question), err=True):
        return True
    notify("nothing was published")
    return False


def prompt_for_text() -> None:
    if at_terminal():
        notify("reading one text a line; Ctrl-D on an empty line ends it")


@contextmanager
def single_keys() -> Iterator[Callable[[], str]]:
    """Yields a function that returns pressed keys, several if they come fast; "" after hang-up.

    The terminal mode is set once: setting it for each key would lose keys pressed in between.
    """
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield lambda: os.read(terminal, 32).decode("utf-8", "replace")
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
