"""Who acts: whoever sits at this machine, or the person for whom a face of ours does something."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from getpass import getuser

_who: ContextVar[str] = ContextVar("who", default="")


@contextmanager
def acting_as(by: str) -> Iterator[None]:
    """What is done in this context is done by this person; by no name, by whoever sits here."""
    token = _who.set(by)
    try:
        yield
    finally:
        _who.reset(token)


def current_user() -> str:
    """The name of who acts; else of whoever sits here, as the system knows it."""
    if by := _who.get():
        return by
    try:
        return getuser()
    except (KeyError, OSError, ImportError):  # a container may have no name for its user
        return "somebody"
