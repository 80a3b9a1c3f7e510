"""A turn: what one does at a time, and who waits for it keeps none of the desk's hands for long."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from worker.errors import BrokerError

PATIENCE_S = 5.0


@contextmanager
def one_at_a_time(lock: Lock, why: str) -> Iterator[None]:
    """Hold a lock; refused with the reason where another holds it for too long."""
    if not lock.acquire(timeout=PATIENCE_S):
        raise BrokerError(f"{why}; try again")
    try:
        yield
    finally:
        lock.release()
