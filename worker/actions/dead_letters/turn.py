"""One retry at a time on a host: each looks first at what was sent before it."""

import fcntl
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from encoder.support.files import cache_root
from worker.actions.told import say
from worker.config import Config

LOCK = "retry.lock"


@contextmanager
def in_turn(config: Config) -> Iterator[None]:
    """Wait until no other retry of this user is under way there; without a lock's place, go on."""
    path, lock = cache_root() / LOCK, None
    place = zlib.crc32(f"{config.kafka.bootstrap_servers} {config.topics.posts}".encode())
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = path.open("ab")
    if lock is None:
        yield
        return
    with lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except BlockingIOError:
            say("another retry is under way; waiting for its end")
            fcntl.lockf(lock, fcntl.LOCK_EX, 1, place)
        yield
