"""Frames, request headers and responses."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.producer import ProduceRequest

from newsift.broker.settings import Cluster

API_VERSIONS = 18
TLS_HANDSHAKE = 0x1603  # what would be a frame of 350 MB
HEAD = struct.Struct(">hhi")
CHUNK = 2**16
PRODUCE = 0
ACKS_AND_TIMEOUT, INDEX = struct.Struct(">hi"), struct.Struct(">i")
MAX_QUERY_BYTES = 2**20  # bytes of a request that brings no records
MAX_TAGS = 100
MAX_NAMED = 10_000  # things in one request: as many as there may be partitions


class BadFrameError(Exception):
    """The bytes are no request of the protocol; the connection is closed."""


@dataclass(frozen=True, slots=True)
class Call:
    api_key: int
    version: int
    correlation_id: int
    client_id: str
    body: Any
    client: "Client"
    is_unsupported: bool = False  # only of ApiVersions, which then answers with what there is
    refusal: str = ""  # why it names too many things; the body then holds the first of them


@dataclass(frozen=True, slots=True)
class Client:
    peer: str
    host: str  # what it is told the broker's address is
    port: int


Handler = Callable[[Cluster, Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Api:
    request: Any
    low: int
    high: int
    handler: Handler


Table = Mapping[int, Api]


@dataclass(slots=True)
class BufferedBytes:
    """The bytes of incomplete frames and unsent answers of all connections."""

    most: int
    used: int = 0

    def reserve(self, size: int) -> None:
        if self.used + size > self.most:
            raise BadFrameError(f"connections would hold more than {self.most} bytes")
        self.used += size


async def read_frame(
    reader: asyncio.StreamReader, limit: int, buffered: BufferedBytes, idle_s: float, frame_s: float
) -> bytes | None:
    """None when the client has closed the connection or was idle."""
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
            return await _rest(reader, size, buffered)
    except TimeoutError as error:
        raise BadFrameError(f"a frame of {size} bytes was not whole in {frame_s:g} s") from error


async def _rest(reader: asyncio.StreamReader, size: int, buffered: BufferedBytes) -> bytes:
    """Only the bytes that have arrived are held."""
    parts, have = [], 0
    try:
        while have < size:
            part = await reader.read(min(size - have, CHUNK))
            if not part:
                raise BadFrameError(f"hung up inside a frame of {size} bytes")
            buffered.reserve(len(part))
            have += len(part)
            parts.append(part)
        return b"".join(parts)
    finally:
        buffered.used -= have


def read_call(frame: bytes, table: Table, client: Client) -> Call:
    """Raises BadFrameError for anything that is no request."""
    api_key, version, correlation_id = HEAD.unpack_from(frame)
    api = table.get(api_key)
    if api is None:
        raise BadFrameError(f"request {api_key} is not served")
    if not api.low <= version <= api.high:
        if api_key == API_VERSIONS:
            return Call(api_key, 0, correlation_id, "", None, client, is_unsupported=True)
        raise BadFrameError(f"{api.request.name} version {version} is not served")
    try:
        name, at = _read_bytes(frame, HEAD.size, 2, compact=False)
        client_id = bytes(name or b"").decode()
        if compact := api.request.flexible_version_q(version):
            at = _skip_tags(frame, at)
        if api_key == PRODUCE:
            body, too_many = _read_produce(frame, at, compact)
        else:
            if len(frame) > MAX_QUERY_BYTES:
                raise BadFrameError(f"{api.request.name}: {len(frame)} bytes are too many")
            body = api.request.decode(memoryview(frame)[at:], version=version)
            too_many = _check_fields(api.request.name, body, version)
    except BadFrameError:
        raise
    except Exception as error:  # decoding wild bytes can fail in any way
        raise BadFrameError(f"{api.request.name}: malformed ({type(error).__name__})") from error
    refusal = f"{api.request.name}: names more than {MAX_NAMED} things" if too_many else ""
    return Call(api_key, version, correlation_id, client_id, body, client, refusal=refusal)


def answer_frame(call: Call, response: Any) -> bytes:
    """The handler has made the response in the version of the request."""
    response.with_header(correlation_id=call.correlation_id)
    data: bytes = response.encode(header=True, framed=True)
    return data


def _read_produce(frame: bytes, at: int, compact: bool) -> tuple[Any, bool]:
    """A Produce request, and whether it has too many parts.

    Records are views of the frame. Of too many parts only the first is returned: each costs an
    object, and a frame has room for millions.
    """
    kind, topics, items = ProduceRequest.TopicProduceData, list[Any](), 0
    transactional_id, at = _read_bytes(frame, at, 2, compact)
    acks, _ = ACKS_AND_TIMEOUT.unpack_from(frame, at)
    count, at = _length(frame, at + ACKS_AND_TIMEOUT.size, 4, compact)
    for _ in range(count or 0):
        name, at = _read_bytes(frame, at, 2, compact)
        if name is None:
            raise ValueError("a topic without a name")
        topics.append(kind(name=bytes(name).decode(), partition_data=[]))
        parts, at = _length(frame, at, 4, compact)
        items += 1 + (parts or 0)
        for _ in range(parts or 0 if items <= MAX_NAMED else min(parts or 0, 1)):
            (index,) = INDEX.unpack_from(frame, at)
            records, at = _read_bytes(frame, at + INDEX.size, 4, compact)
            at = _skip_tags(frame, at) if compact else at
            part = kind.PartitionProduceData(index=index, records=records)
            topics[-1].partition_data.append(part)
        if items > MAX_NAMED:
            topics = [topic for topic in topics if topic.partition_data][:1]
            for topic in topics:
                del topic.partition_data[1:]
            break
        at = _skip_tags(frame, at) if compact else at
    name_of = None if transactional_id is None else bytes(transactional_id).decode()
    body = ProduceRequest(transactional_id=name_of, acks=acks, topic_data=topics)
    return body, items > MAX_NAMED


def _read_bytes(frame: bytes, at: int, width: int, compact: bool) -> tuple[memoryview | None, int]:
    """The field after its length, None if it is null, and the next position."""
    size, at = _length(frame, at, width, compact)
    return (None, at) if size is None else (memoryview(frame)[at : at + size], at + size)


def _length(frame: bytes, at: int, width: int, compact: bool) -> tuple[int | None, int]:
    """The length of the next field, None if it is null, and where the field begins."""
    if compact:
        size, at = _varint(frame, at)
        size -= 1
    else:
        size, at = int.from_bytes(frame[at : at + width], signed=True), at + width
    if at + size > len(frame):  # of a list: each item has a byte at least
        raise ValueError(size)
    return (size if size >= 0 else None), at


def _check_fields(request: str, body: Any, version: int) -> bool:
    """Whether the lists of a request have too many items; they are then cut to the first.

    Raises BadFrameError for a null that the protocol does not allow.
    """
    lists = list[list[Any]]()
    for name, kind, value in _fields(body):
        if isinstance(value, list):
            lists.append(value)
        elif (
            value is None
            and kind.type_str != "uuid"  # of which all zeros are read as None
            and kind.for_version_q(version)
            and not kind.nullable_for_version_q(version)
        ):
            raise BadFrameError(f"{request}: malformed ({name} is null)")
    too_many = sum(map(len, lists)) > MAX_NAMED
    for items in lists if too_many else ():
        del items[1:]
    return too_many


def _fields(thing: Any) -> Iterator[tuple[str, Any, Any]]:
    """Every field at every depth: name, kind, value."""
    for each in thing if isinstance(thing, list) else [thing]:
        for name, kind in each._struct.fields.items() if hasattr(each, "_struct") else ():
            value = getattr(each, name, None)
            yield name, kind, value
            yield from _fields(value)


def _skip_tags(frame: bytes, at: int) -> int:
    count, at = _varint(frame, at)
    if count > MAX_TAGS:
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
