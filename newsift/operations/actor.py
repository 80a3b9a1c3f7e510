"""Who acts: the person of a request, else the user of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from getpass import getuser

from newsift.operations.times import now_text

_actor_name: ContextVar[str] = ContextVar("name", default="")


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """An empty name stands for the user of this process."""
    token = _actor_name.set(name)
    try:
        yield
    finally:
        _actor_name.reset(token)


def current_user() -> str:
    if name := _actor_name.get():
        return name
    try:
        return getuser()
    except (KeyError, OSError, ImportError):  # a container may have no name for its user
        return "somebody"


def creation_fields() -> dict[str, str]:
    """Of a record that is made now."""
    return {"at": now_text(), "by": current_user()}
