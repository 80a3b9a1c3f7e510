"""Signals: SIGTERM and a closed terminal end a command as Ctrl-C does."""

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
RESEND_S = 0.1


class Terminated(KeyboardInterrupt):
    """By SIGTERM, which is the regular end of a command that runs until it is ended."""


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt on each signal and list the signals; ignored ones stay ignored."""
    signals: list[int] = []

    def interrupt(kind: int, _frame: FrameType | None) -> None:
        signals.append(kind)
        raise Terminated if kind == signal.SIGTERM else KeyboardInterrupt

    with _handle_signals(interrupt), _resend_lost(signals):
        yield signals


@contextmanager
def _resend_lost(signals: list[int]) -> Iterator[None]:
    """Send a signal again that arrived in a callback of C code, where its exception is lost."""
    main, before = threading.main_thread(), sys.unraisablehook
    timers: list[threading.Timer] = []

    def unraisable(event: Any) -> None:
        if not issubclass(event.exc_type, KeyboardInterrupt) or not signals:
            before(event)
            return
        timers.append(threading.Timer(RESEND_S, signal.pthread_kill, (main.ident, signals[-1])))
        timers[-1].start()

    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        sys.unraisablehook = before


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Raise an interrupt only after the block, which cannot be cut short."""
    pending: list[int] = []
    with _handle_signals(lambda kind, _: pending.append(kind)):
        yield
    if pending:
        raise KeyboardInterrupt


class Hold:
    """A block, entered often, within which interrupts wait for its end."""

    def __init__(self) -> None:
        self.is_held = False
        self.pending: list[int] = []

    def __enter__(self) -> None:
        self.is_held = True

    def __exit__(self, *_: object) -> None:
        self.is_held = False
        if self.pending:
            signal.raise_signal(self.pending.pop())


@contextmanager
def holding_interrupts() -> Iterator[Hold]:
    """The handlers are set once for all blocks, as that takes longer than to send a record."""
    hold, before = Hold(), {kind: signal.getsignal(kind) for kind in INTERRUPTS}

    def handle(kind: int, frame: FrameType | None) -> None:
        if hold.is_held:
            hold.pending.append(kind)
        elif callable(own := before[signal.Signals(kind)]):
            own(kind, frame)
        else:
            raise KeyboardInterrupt

    with _handle_signals(handle):
        yield hold


def on_interrupt(loop: "AbstractEventLoop", callback: Callable[[int], object]) -> None:
    """Call `callback` in the event loop for each signal; ignored signals stay ignored."""
    for kind in INTERRUPTS:
        if signal.getsignal(kind) is not signal.SIG_IGN:
            loop.add_signal_handler(kind, callback, kind)


@contextmanager
def _handle_signals(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Only the main thread can handle signals; elsewhere this does nothing."""
    kinds = INTERRUPTS if threading.current_thread() is threading.main_thread() else ()
    previous = {
        kind: before
        for kind in kinds
        if (before := signal.getsignal(kind)) not in (None, signal.SIG_IGN)
    }
    for kind in previous:
        signal.signal(kind, handler)
    try:
        yield
    finally:
        for kind, before in previous.items():
            signal.signal(kind, before)
