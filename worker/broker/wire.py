"""Frames, request headers and responses: what stands between a socket and a handler."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from worker.broker.settings import Cluster

API_VERSIONS = 18
TLS_HANDSHAKE = 0x1603  # what would be a frame of 350 MB
HEAD = struct.Struct(">hhi")


class BadFrameError(Exception):
    """Bytes that are no request of the protocol; the connection they came by is closed."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request with its header read: who asks, in which version, for what."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    body: Any
    client: "Client"
    is_unsupported: bool = False  # only of ApiVersions, which then answers with what there is


@dataclass(frozen=True, slots=True)
class Client:
    """The other end of a connection."""

    peer: str
    host: str  # what it is told the broker's address is
    port: int
    has_hung_up: Callable[[], bool]


Handler = Callable[[Cluster, Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Api:
    """A kind of request: its class, the versions that are served, and what answers it."""

    request: Any
    low: int
    high: int
    handler: Handler


Table = Mapping[int, Api]


async def read_frame(reader: asyncio.StreamReader, limit: int) -> bytes | None:
    """The next frame, or None when the other side has hung up between two."""
    try:
        size = int.from_bytes(await reader.readexactly(4), signed=True)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BadFrameError("hung up inside the length of a frame") from error
        return None
    if size >> 16 == TLS_HANDSHAKE:
        raise BadFrameError("a client that wants TLS, which this broker has not")
    if not HEAD.size <= size <= limit:
        raise BadFrameError(f"a frame of {size} bytes is not within {HEAD.size} and {limit}")
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        raise BadFrameError(f"hung up inside a frame of {size} bytes") from error


def read_call(frame: bytes, table: Table, client: Client) -> Call:
    """The request that a frame holds; anything else is a bad frame."""
    api_key, version, correlation_id = HEAD.unpack_from(frame)
    api = table.get(api_key)
    if api is None:
        raise BadFrameError(f"request {api_key} is not served")
    if not api.low <= version <= api.high:
        if api_key == API_VERSIONS:
            return Call(api_key, 0, correlation_id, "", None, client, is_unsupported=True)
        raise BadFrameError(f"{api.request.name} version {version} is not served")
    try:
        client_id, at = _client_id(frame, HEAD.size)
        if api.request.flexible_version_q(version):
            at = _skip_tags(frame, at)
        body = api.request.decode(memoryview(frame)[at:], version=version)
    except Exception as error:  # decoding wild bytes can fail in any way
        raise BadFrameError(f"{api.request.name}: malformed ({type(error).__name__})") from error
    return Call(api_key, version, correlation_id, client_id, body, client)


def framed(call: Call, response: Any) -> bytes:
    """The response as a frame; the handler made it in the version that was asked for."""
    response.with_header(correlation_id=call.correlation_id)
    data: bytes = response.encode(header=True, framed=True)
    return data


def _client_id(frame: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", frame, at)
    end = at + 2 + max(length, 0)
    if end > len(frame):
        raise ValueError(length)
    return frame[at + 2 : end].decode(), end


def _skip_tags(frame: bytes, at: int) -> int:
    count, at = _varint(frame, at)
    for _ in range(count):
        _, at = _varint(frame, at)
        size, at = _varint(frame, at)
        at += size
    return at


def _varint(frame: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than five bytes")
