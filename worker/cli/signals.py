"""What ends a command from outside: SIGTERM and a closed terminal end it as Ctrl-C does.

So what it has begun is concluded or cleared away, whoever ends it.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let every interrupt end the block as Ctrl-C does; what is ignored stays ignored."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled(interrupt):
        yield


@contextmanager
def unbroken() -> Iterator[None]:
    """Put off an interrupt until the block is done: nothing is started and then lost sight of."""
    seen: list[int] = []
    with _handled(lambda kind, _: seen.append(kind)):
        yield
    if seen:
        raise KeyboardInterrupt


class _Ended(BaseException):
    """SIGTERM has come."""


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block, and nothing more: for what goes on until somebody ends it."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise _Ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except _Ended:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Hear signals so within the block; only the main thread can."""
    kinds = INTERRUPTS if threading.current_thread() is threading.main_thread() else ()
    before = {kind: signal.getsignal(kind) for kind in kinds}
    heard = {kind: was for kind, was in before.items() if was not in (None, signal.SIG_IGN)}
    for kind in heard:
        signal.signal(kind, handler)
    try:
        yield
    finally:
        for kind, was in heard.items():
            signal.signal(kind, was)
