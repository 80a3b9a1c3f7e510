"""What ends a command from outside: SIGTERM and a closed terminal end it as Ctrl-C does.

So what it has begun is concluded or cleared away, whoever ends it.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_S = 0.1


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """Let every interrupt end the block as Ctrl-C does, and list them; what is ignored stays so."""
    heard: list[int] = []

    def interrupt(kind: int, _frame: FrameType | None) -> None:
        heard.append(kind)
        raise KeyboardInterrupt

    with _handled(interrupt), _insisting(heard):
        yield heard


@contextmanager
def _insisting(heard: list[int]) -> Iterator[None]:
    """Send an interrupt again that came within a callback of C code, where nobody can raise it."""
    main, before = threading.main_thread(), sys.unraisablehook
    coming: list[threading.Timer] = []

    def unraisable(lost: Any) -> None:
        if lost.exc_type is not KeyboardInterrupt or not heard:
            before(lost)
            return
        coming.append(threading.Timer(AGAIN_S, signal.pthread_kill, (main.ident, heard[-1])))
        coming[-1].start()

    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        for again in coming:
            again.cancel()
        sys.unraisablehook = before


@contextmanager
def unbroken() -> Iterator[None]:
    """Put off an interrupt until the block is done: nothing is started and then lost sight of."""
    seen: list[int] = []
    with _handled(lambda kind, _: seen.append(kind)):
        yield
    if seen:
        raise KeyboardInterrupt


def heed(loop: "AbstractEventLoop", leave: Callable[[int], object]) -> None:
    """Have an event loop call `leave` with each interrupt; what is ignored stays so."""
    for kind in INTERRUPTS:
        if signal.getsignal(kind) is not signal.SIG_IGN:
            loop.add_signal_handler(kind, leave, kind)


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
