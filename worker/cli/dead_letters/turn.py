"""One retry at a time on a host: each looks first at what was sent before it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from encoder.support.files import cache_root
from worker.cli.terminal import say

LOCK = "retry.lock"


@contextmanager
def in_turn() -> Iterator[None]:
    """Wait until no other retry of this user is under way; without a place for a lock, go on."""
    path, lock = cache_root() / LOCK, None
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = path.open("ab")
    if lock is None:
        yield
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another retry is under way; waiting for its end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
