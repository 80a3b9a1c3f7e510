"""The durable boundaries of a batch, by name, where a test can make the worker fail or die."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Hook = Callable[[str], None]

# In the order in which a batch reaches them; "produced" is acknowledged by the broker. What must
# hold after a death at each is tested.
BOUNDARIES = ("ingested", "decoded", "encoded", "matched", "produced", "committed")


def _nothing(_name: str) -> None:
    """What happens at a boundary of a worker that no test watches."""


_hook: Hook = _nothing


def reached(name: str) -> None:
    """Say that a batch has reached this boundary; nothing happens unless a test set a hook."""
    _hook(name)


def set_hook(hook: Hook | None) -> None:
    """Call this at every boundary from now on; None takes the hook away."""
    global _hook
    _hook = hook or _nothing


@contextmanager
def unwatched() -> Iterator[None]:
    """Pass boundaries without a word, for what is no batch."""
    hook = _hook
    set_hook(None)
    try:
        yield
    finally:
        set_hook(hook)
