"""Tells open pages which parts of the desk have changed.

A page that sees a new number asks for what it shows: a thousand matches a second cost it a few
requests, and nothing is queued for any page.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from threading import Lock

PARTS = ("events", "matches", "labels", "seeds", "health", "projects")
MIN_INTERVAL_S = 0.25
KEEPALIVE_S = 15.0


class Changes:
    """A version number for each part of the desk. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._start = secrets.token_hex(8).encode()  # Numbers count from 0 at each start.
        self._numbers = dict.fromkeys(PARTS, 0)
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def notify(self, *parts: str) -> None:
        with self._lock:
            for part in parts:
                self._numbers[part] += 1
            for loop, event in self._waiting:
                loop.call_soon_threadsafe(event.set)

    async def stream(self) -> AsyncIterator[bytes]:
        """Server-sent events with all numbers: at once, after each change, and as keepalive."""
        event = asyncio.Event()
        entry = asyncio.get_running_loop(), event
        with self._lock:
            self._waiting.add(entry)
        try:
            while True:
                event.clear()
                numbers = json.dumps(self._numbers).encode()
                yield b"event: change\nid: %s\ndata: %s\n\n" % (self._start, numbers)
                await asyncio.sleep(MIN_INTERVAL_S)
                try:
                    async with asyncio.timeout(KEEPALIVE_S):
                        await event.wait()
                except TimeoutError:
                    continue
        finally:
            with self._lock:
                self._waiting.discard(entry)
