"""Frames, request headers and responses: what stands between a socket and a handler."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kafka.protocol.producer import ProduceRequest

from worker.broker.settings import Cluster

API_VERSIONS = 18
TLS_HANDSHAKE = 0x1603  # what would be a frame of 350 MB
HEAD = struct.Struct(">hhi")
CHUNK = 2**16
PRODUCE = 0
ACKS_AND_TIMEOUT = 6  # bytes
LONGEST_QUESTION = 2**20  # bytes of a request that brings no records
MOST_TAGS = 100
MOST_NAMED = 10_000  # things in one request: as many as there may be partitions


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
    refused: str = ""  # why; then the body holds the first of what was named alone


@dataclass(frozen=True, slots=True)
class Client:
    """The other end of a connection."""

    peer: str
    host: str  # what it is told the broker's address is
    port: int


Handler = Callable[[Cluster, Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Api:
    """A kind of request: its class, the versions that are served, and what answers it."""

    request: Any
    low: int
    high: int
    handler: Handler


Table = Mapping[int, Api]


@dataclass(slots=True)
class HeldBytes:
    """The bytes that all connections hold: frames not yet whole, and answers not yet taken."""

    most: int
    used: int = 0

    def more(self, size: int) -> None:
        """Hold so many more, or refuse the frame that they belong to."""
        if self.used + size > self.most:
            raise BadFrameError(f"connections would hold more than {self.most} bytes")
        self.used += size


async def read_frame(
    reader: asyncio.StreamReader, limit: int, held: HeldBytes, idle_s: float, frame_s: float
) -> bytes | None:
    """The next frame, or None when the other side has hung up or been idle between two."""
    try:
        async with asyncio.timeout(idle_s):
            size = int.from_bytes(await reader.readexactly(4), signed=True)
    except TimeoutError:
        return None
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BadFrameError("hung up inside the length of a frame") from error
        return None
    if size >> 16 == TLS_HANDSHAKE:
        raise BadFrameError("a client that wants TLS, which this broker has not")
    if not HEAD.size <= size <= limit:
        raise BadFrameError(f"a frame of {size} bytes is not within {HEAD.size} and {limit}")
    try:
        async with asyncio.timeout(frame_s):
            return await _rest(reader, size, held)
    except TimeoutError as error:
        raise BadFrameError(f"a frame of {size} bytes was not whole in {frame_s:g} s") from error


async def _rest(reader: asyncio.StreamReader, size: int, held: HeldBytes) -> bytes:
    """So many bytes; only those that have come are held."""
    parts, have = [], 0
    try:
        while have < size:
            part = await reader.read(min(size - have, CHUNK))
            if not part:
                raise BadFrameError(f"hung up inside a frame of {size} bytes")
            held.more(len(part))
            have += len(part)
            parts.append(part)
        return b"".join(parts)
    finally:
        held.used -= have


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
        if compact := api.request.flexible_version_q(version):
            at = _skip_tags(frame, at)
        if api_key != PRODUCE and len(frame) > LONGEST_QUESTION:
            raise BadFrameError(f"{api.request.name}: {len(frame)} bytes are too many")
        body = _overfull(frame, at, compact) if api_key == PRODUCE else None
        refused = body is not None
        if body is None:
            body = api.request.decode(memoryview(frame)[at:], version=version)
            _check_nulls(api.request.name, body, version)
            refused = len(frame) > MOST_NAMED < _named(body)
        if refused:
            _shorten(body)
    except BadFrameError:
        raise
    except Exception as error:  # decoding wild bytes can fail in any way
        raise BadFrameError(f"{api.request.name}: malformed ({type(error).__name__})") from error
    why = f"{api.request.name}: names more than {MOST_NAMED} things" if refused else ""
    return Call(api_key, version, correlation_id, client_id, body, client, refused=why)


def answer_frame(call: Call, response: Any) -> bytes:
    """The response as a frame; the handler made it in the version that was asked for."""
    response.with_header(correlation_id=call.correlation_id)
    data: bytes = response.encode(header=True, framed=True)
    return data


def _overfull(frame: bytes, at: int, compact: bool) -> Any:
    """A Produce that names more partitions than there may be, without its records; else None.

    It is looked for before each of them is made an object.
    """
    size, at = _length(frame, at, 2, compact)
    acks = int.from_bytes(frame[at + size : at + size + 2], signed=True)
    named = list(islice(_produced(frame, at + size + ACKS_AND_TIMEOUT, compact), MOST_NAMED + 1))
    if len(named) <= MOST_NAMED:
        return None
    kind = ProduceRequest.TopicProduceData
    topics = [
        kind(name=name.decode(), partition_data=[kind.PartitionProduceData(index=index)])
        for name, index in named
        if index is not None
    ]
    return ProduceRequest(transactional_id=None, acks=acks, topic_data=topics)


def _produced(frame: bytes, at: int, compact: bool) -> Iterator[tuple[bytes, int | None]]:
    """Every topic by its name, and after it every partition with its number too."""
    topics, at = _length(frame, at, 4, compact)
    for _ in range(topics):
        size, at = _length(frame, at, 2, compact)
        name = frame[at : at + size]
        yield name, None
        parts, at = _length(frame, at + size, 4, compact)
        for _ in range(parts):
            yield name, int.from_bytes(frame[at : at + 4], signed=True)
            size, at = _length(frame, at + 4, 4, compact)
            at = _skip_tags(frame, at + size) if compact else at + size
        at = _skip_tags(frame, at) if compact else at


def _length(frame: bytes, at: int, width: int, compact: bool) -> tuple[int, int]:
    """How long what follows is, 0 if it is null, and where it begins."""
    if compact:
        size, at = _varint(frame, at)
        return max(size - 1, 0), at
    return max(int.from_bytes(frame[at : at + width], signed=True), 0), at + width


def _fields(thing: Any) -> Iterator[tuple[str, Any, Any]]:
    """Every field of a decoded request, at every depth: its name, its kind and what it holds."""
    for each in thing if isinstance(thing, list) else [thing]:
        for name, kind in each._struct.fields.items() if hasattr(each, "_struct") else ():
            found = getattr(each, name, None)
            yield name, kind, found
            yield from _fields(found)


def _named(body: Any) -> int:
    """How many things the lists of a decoded request hold."""
    return sum(len(found) for _, _, found in _fields(body) if isinstance(found, list))


def _shorten(body: Any) -> None:
    """Leave of every list in a decoded request the first item alone."""
    for _, _, found in _fields(body):
        if isinstance(found, list):
            del found[1:]


def _check_nulls(request: str, body: Any, version: int) -> None:
    """Refuse what has nothing where the protocol wants something, as no client ever sends it."""
    for name, kind, found in _fields(body):
        if found is not None or kind.type_str == "uuid":  # of which all zeros are read as None
            continue
        if kind.for_version_q(version) and not kind.nullable_for_version_q(version):
            raise BadFrameError(f"{request}: malformed ({name} is null)")


def _client_id(frame: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", frame, at)
    end = at + 2 + max(length, 0)
    if end > len(frame):
        raise ValueError(length)
    return frame[at + 2 : end].decode(), end


def _skip_tags(frame: bytes, at: int) -> int:
    count, at = _varint(frame, at)
    if count > MOST_TAGS:
        raise ValueError(count)
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
