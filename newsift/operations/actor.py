"""Who acts: the person of a request, else the user of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from getpass import getuser

_name: ContextVar[str] = ContextVar("name", default="")


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Act as this person; with an empty name, as the user of this process."""
    token = _name.set(name)
    try:
        yield
    finally:
        _name.reset(token)


def current_user() -> str:
    if name := _name.get():
        return name
    try:
        return getuser()
    except (KeyError, OSError, ImportError):  # a container may have no name for its user
        return "somebody"
