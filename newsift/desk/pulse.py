"""The pulse: which parts of the desk have changed, for every page that is open.

A page that hears of a new number asks for what it shows by itself: so a thousand matches a second
cost it a few questions, and however many pages are open nothing is queued for any of them.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from threading import Lock

PARTS = ("events", "matches", "labels", "seeds", "health")
APART_S = 0.25  # between two beats
QUIET_S = 15.0  # after which a beat without news shows that both sides are there


class Pulse:
    """A number for each part, which grows with each change; safe to be moved by any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._numbers = dict.fromkeys(PARTS, 0)
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def moved(self, *parts: str) -> None:
        """Tell all pages that these parts are not what they were."""
        with self._lock:
            for part in parts:
                self._numbers[part] += 1
            for loop, event in self._waiting:
                loop.call_soon_threadsafe(event.set)

    async def beats(self) -> AsyncIterator[bytes]:
        """Server-sent events with the numbers: at once, with every change, and now and then."""
        with self._woken() as event:
            while True:
                event.clear()
                yield b"event: beat\ndata: %s\n\n" % json.dumps(self._numbers).encode()
                await asyncio.sleep(APART_S)
                try:
                    async with asyncio.timeout(QUIET_S):
                        await event.wait()
                except TimeoutError:
                    continue

    @contextmanager
    def _woken(self) -> Iterator[asyncio.Event]:
        entry = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            self._waiting.add(entry)
        try:
            yield entry[1]
        finally:
            with self._lock:
                self._waiting.discard(entry)
