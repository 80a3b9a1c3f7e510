"""What a command says to whoever sits before it: a line, how far it is, in colour or without."""

import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from encoder.errors import InputError
from worker.actions.told import ProgressLine, say
from worker.visible import escaped

__all__ = [
    "ProgressLine", "at_terminal", "colour_wanted", "consented", "prompt_for_text",
    "refuse_unasked", "say", "single_keys",
]  # fmt: skip


def colour_wanted() -> bool:
    """Whether standard output is a terminal whose user has not set NO_COLOR."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def at_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty()


def refuse_unasked(yes: bool, what: str) -> None:
    """Refuse to publish where nobody sits who could be asked, and none has said yes."""
    if not yes and not at_terminal():
        raise InputError(f"{what} asks before it publishes, and there is no terminal; give --yes")


def consented(yes: bool, question: str) -> bool:
    """Whether whoever sits there agrees, or has said so before."""
    if yes or click.confirm(escaped(question), err=True):
        return True
    say("nothing was published")
    return False


def prompt_for_text() -> None:
    """Say what is waited for, should somebody sit at standard input."""
    if at_terminal():
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
