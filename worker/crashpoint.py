"""The durable steps of a batch, by name, where a test can make the worker fail or die."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Hook = Callable[[str], None]

# In the order in which a batch reaches them; "produced" is acknowledged by the broker. What must
# hold after a death at each is tested.
BOUNDARIES = ("ingested", "decoded", "encoded", "matched", "produced", "committed")


_hook: Hook | None = None


def reached(name: str) -> None:
    """Report that a batch has reached this step."""
    if _hook is not None:
        _hook(name)


def set_hook(hook: Hook | None) -> None:
    """Call the hook at every step; None removes it."""
    global _hook
    _hook = hook


@contextmanager
def without_hook() -> Iterator[None]:
    """Suspend the hook, for work that is not a batch."""
    hook = _hook
    set_hook(None)
    try:
        yield
    finally:
        set_hook(hook)
