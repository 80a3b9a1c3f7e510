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


class Visit(asyncio.Protocol):
    """One connection: what aiohttp makes of it, within bounds of time and bytes."""

    def __init__(
        self, inner: asyncio.Protocol, links: "dict[Visit, asyncio.Transport]", largest: int
    ) -> None:
        self._inner, self._links = inner, links
        self._room = largest
        self._link: asyncio.Transport | None = None
        self._overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, and set the time at which it is over; the oldest gives way if there are many."""
        link = self._link = self._links[self] = cast(asyncio.Transport, transport)
        if len(self._links) > MOST:
            self._links.pop(next(iter(self._links))).abort()
        self._overdue = asyncio.get_running_loop().call_later(LONGEST_S, link.abort)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Hand on what came, unless it is more than a request may have."""
        self._room -= len(data)
        if self._room >= 0:
            self._inner.data_received(data)
        elif self._link is not None:
            self._link.abort()

    def eof_received(self) -> bool | None:
        """The visitor says no more."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """The visitor reads too slowly."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The visitor has read on."""
        self._inner.resume_writing()

    def stay(self) -> None:
        """Let it last: whoever answers it bounds how many do, and how much it is sent."""
        if self._overdue is not None:
            self._overdue.cancel()
        self._links.pop(self, None)

    def hurry(self) -> None:
        """Let it be over in time again: there is an answer, which has to be taken."""
        if self._link is not None:
            self.stay()
            self._overdue = asyncio.get_running_loop().call_later(LONGEST_S, self._link.abort)

    def connection_lost(self, error: Exception | None) -> None:
        """It is over."""
        if self._overdue is not None:
            self._overdue.cancel()
        self._links.pop(self, None)
        self._link = None
        self._inner.connection_lost(error)


def visits(make: Callable[[], asyncio.Protocol], largest: int = LARGEST) -> Callable[[], Visit]:
    """What makes the protocol of each connection, around that of aiohttp."""
    links: dict[Visit, asyncio.Transport] = {}
    return lambda: Visit(make(), links, largest)


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
