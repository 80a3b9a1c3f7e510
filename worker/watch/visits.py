"""The visits to a web server: few at a time, each short, small, and of one request."""

import asyncio
from collections.abc import Callable
from ipaddress import ip_address
from typing import cast
from urllib.parse import urlsplit

MOST = 64  # at a time; the next one ends the oldest
LONGEST_S = 10.0
LARGEST = 2**14  # bytes of a request
BACKLOG = 32  # accepted at once


class Visits:
    """Makes the protocol of each connection, around that of aiohttp, and knows which are open."""

    def __init__(self, make: Callable[[], asyncio.Protocol]) -> None:
        self._make = make
        self._open: dict[Visit, asyncio.Transport] = {}

    def __call__(self) -> "Visit":
        """The protocol of a new connection."""
        return Visit(self._make(), self)

    def begin(self, visit: "Visit", transport: asyncio.Transport) -> None:
        """Note a visit; the oldest gives way if there are too many."""
        self._open[visit] = transport
        if len(self._open) > MOST:
            oldest = next(iter(self._open))
            self._open.pop(oldest).abort()

    def end(self, visit: "Visit") -> None:
        """Forget a visit."""
        self._open.pop(visit, None)


class Visit(asyncio.Protocol):
    """One connection: what aiohttp makes of it, within bounds of time and bytes."""

    def __init__(self, inner: asyncio.Protocol, visits: Visits) -> None:
        self._inner, self._visits = inner, visits
        self._room = LARGEST
        self._transport: asyncio.Transport | None = None
        self._overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, and set the time at which it is over."""
        self._transport = cast(asyncio.Transport, transport)
        self._visits.begin(self, self._transport)
        self._overdue = asyncio.get_running_loop().call_later(LONGEST_S, self._transport.abort)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Hand on what came, unless it is more than a request may have."""
        self._room -= len(data)
        if self._room >= 0:
            self._inner.data_received(data)
        elif self._transport is not None:
            self._transport.abort()

    def eof_received(self) -> bool | None:
        """The visitor says no more."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """The visitor reads too slowly."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The visitor has read on."""
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """It is over."""
        if self._overdue is not None:
            self._overdue.cancel()
        self._visits.end(self)
        self._inner.connection_lost(error)


def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def asks_for_loopback(header: str) -> bool:
    """Whether a Host header names this machine: a page of the web that was led here does not."""
    try:
        return is_loopback(urlsplit(f"//{header}").hostname or "")
    except ValueError:
        return False
