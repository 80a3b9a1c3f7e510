"""Connections to a web server: few at a time, short, with bounded bytes and one request each.

The header lines are collected and measured here and reach aiohttp's parser only when they are
complete: a request that is too large costs no more than reading its first bytes.
"""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import ip_address
from typing import cast

MAX_HEAD_BYTES = 2**15  # request line and header lines together
MAX_CONNECTIONS = 64  # of each kind: with an incomplete request, and with a complete one
MAX_REQUEST_S = 10.0
MAX_DISCARDED_BYTES = 2**25  # After a refusal input is discarded, so that the client reads it.
DISCARD_PAUSE_S = 0.005  # Without a pause discarding would use up a core.
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::[0-9]*)?")  # of IPv6, or any other
ACCEPT_BACKLOG = 16  # connections accepted in one turn of the event loop
KERNEL_BACKLOG = 1024  # connections that the kernel holds until they are accepted

# Of these lines a request has one at most; the framing of its body rests on them.
FRAMING_HEADERS = re.compile(
    rb"\r\n(host|content-length|transfer-encoding|upgrade)[ \t]*:([^\r\n]*)", re.IGNORECASE
)
CONTENT_LENGTH = re.compile(rb"[0-9]{1,18}")
AMBIGUOUS_LINE_END = re.compile(rb"\r(?!\n)|(?<!\r)\n|\r\n[ \t]")


@dataclass(slots=True)
class Connections:
    """Oldest first, by whether their request is complete."""

    waiting: "dict[Visit, asyncio.Transport]" = field(default_factory=dict)
    answering: "dict[Visit, asyncio.Transport]" = field(default_factory=dict)

    def drop(self, visit: "Visit") -> None:
        self.waiting.pop(visit, None)
        self.answering.pop(visit, None)

    def end(self) -> None:
        """The server does not know connections with incomplete requests."""
        for transport in list(self.waiting.values()):
            transport.abort()


class Visit(asyncio.Protocol):
    """One connection, around aiohttp's protocol."""

    def __init__(
        self,
        make_protocol: Callable[[], asyncio.Protocol],
        connections: Connections,
        body_bytes: int,
    ) -> None:
        self._make_protocol, self._connections = make_protocol, connections
        self._protocol: asyncio.Protocol | None = None
        self._head = bytearray()
        self._body_left = 0  # bytes of the body that have not come yet
        self._bytes_left = body_bytes
        self._refused = False
        self._transport: asyncio.Transport | None = None
        self._timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the timeout; the oldest connection is closed if there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        _register(self._connections.waiting, self, self._transport)
        loop = asyncio.get_running_loop()
        self._timeout = loop.call_later(MAX_REQUEST_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        """Collects the header lines, then passes on as much of a body as they declare."""
        if self._transport is None:
            return
        if self._protocol is None and not self._refused:
            data = self._collect(data)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self._transport.abort()
        elif self._refused:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(DISCARD_PAUSE_S, self._transport.resume_reading)
        elif self._protocol is not None and (body := data[: self._body_left]):
            self._body_left -= len(body)
            self._protocol.data_received(body)

    def _collect(self, data: bytes) -> bytes:
        """Takes the bytes of the header lines; returns those after them."""
        assert self._transport is not None
        begin = max(0, len(self._head) - 3)
        before = len(self._head)
        self._head += data[: MAX_HEAD_BYTES - before]
        end = self._head.find(b"\r\n\r\n", begin) + 4
        if end < 4:
            if not self._head[:1].isalpha():  # nothing of HTTP, TLS for instance
                self._refuse(HTTPStatus.BAD_REQUEST, "request: is not HTTP")
            elif len(self._head) == MAX_HEAD_BYTES:
                self._refuse(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                    f"headers: have more than {MAX_HEAD_BYTES:,} bytes together; send fewer",
                )
            return b""
        head = bytes(self._head[:end])
        self._head.clear()
        try:
            self._body_left = body_length(head)
        except HeadError as error:
            self._refuse(error.status, str(error))
            return b""
        self._connections.drop(self)
        _register(self._connections.answering, self, self._transport)
        self._protocol = self._make_protocol()
        self._protocol.connection_made(self._transport)
        self._protocol.data_received(head)
        return data[end - before :]

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        """Further input is discarded, so that the client can read the answer."""
        assert self._transport is not None
        self._refused, self._bytes_left = True, MAX_DISCARDED_BYTES
        self._head.clear()
        self._transport.write(_refusal_bytes(status, reason))
        self._transport.write_eof()

    def eof_received(self) -> bool | None:
        return None if self._protocol is None else self._protocol.eof_received()

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    def disable_timeout(self) -> None:
        """The handler bounds such connections itself."""
        if self._timeout is not None:
            self._timeout.cancel()
        self._connections.drop(self)

    def restart_timeout(self) -> None:
        """There is an answer to send."""
        if self._transport is not None:
            self.disable_timeout()
            self._timeout = asyncio.get_running_loop().call_later(
                MAX_REQUEST_S, self._transport.abort
            )

    def connection_lost(self, error: Exception | None) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
        self._connections.drop(self)
        self._transport = None
        if self._protocol is not None:
            self._protocol.connection_lost(error)


class HeadError(Exception):
    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def body_length(head: bytes) -> int:
    """Refuses headers that parsers read differently."""
    if AMBIGUOUS_LINE_END.search(head):
        raise HeadError(HTTPStatus.BAD_REQUEST, "headers: a line is folded or ends without CR LF")
    rows = [(name.lower(), value.strip()) for name, value in FRAMING_HEADERS.findall(head)]
    lines = dict(rows)
    if len(lines) < len(rows):
        raise HeadError(HTTPStatus.BAD_REQUEST, "headers: Host or Content-Length is there twice")
    if b"transfer-encoding" in lines:
        reason = "transfer-encoding: is not taken; send a Content-Length"
        raise HeadError(HTTPStatus.LENGTH_REQUIRED, reason)
    length = lines.get(b"content-length", b"0")
    if not CONTENT_LENGTH.fullmatch(length):
        raise HeadError(HTTPStatus.BAD_REQUEST, "content-length: is not a number")
    if int(length) and (b"upgrade" in lines or head.startswith(b"CONNECT ")):
        raise HeadError(HTTPStatus.BAD_REQUEST, "upgrade: is not taken with a body")
    return int(length)


def _refusal_bytes(status: HTTPStatus, reason: str) -> bytes:
    body = json.dumps({"reason": reason}).encode()
    lines = [
        f"HTTP/1.1 {status} {status.phrase}", "Content-Type: application/json; charset=utf-8",
        f"Content-Length: {len(body)}", "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff", "Connection: close", "", "",
    ]  # fmt: skip
    return "\r\n".join(lines).encode() + body


def _register(
    connections: dict[Visit, asyncio.Transport], visit: Visit, transport: asyncio.Transport
) -> None:
    connections[visit] = transport
    if len(connections) > MAX_CONNECTIONS:
        connections.pop(next(iter(connections))).abort()


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def names_loopback(header: str) -> bool:
    """The Host header of a foreign page that was rebound to this machine does not."""
    found = HOST.fullmatch(header.lower())
    return found is not None and is_loopback(found[1] or found[2])
