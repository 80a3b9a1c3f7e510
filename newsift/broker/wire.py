"""The wire format: frames, request headers and responses."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.data_container import DataContainer
from kafka.protocol.producer import ProduceRequest

from newsift.broker.settings import Cluster

PRODUCE_KEY, API_VERSIONS_KEY = 0, 18
TLS_HANDSHAKE = 0x1603  # read as a length, it would be 350 MB
API_KEY_VERSION_AND_ID = struct.Struct(">hhi")
CHUNK_BYTES = 2**16
ACKS_AND_TIMEOUT, PARTITION_INDEX = struct.Struct(">hi"), struct.Struct(">i")
MAX_QUERY_BYTES = 2**20  # of a request without records
MAX_TAGS = 100
MAX_ITEMS = 10_000  # in the lists of one request: as many as there may be partitions


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
    is_unsupported: bool = False  # an ApiVersions request of a newer version


@dataclass(frozen=True, slots=True)
class Client:
    peer: str
    host: str  # of the broker, as the client sees it
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

    limit: int
    size: int = 0

    def reserve(self, size: int) -> None:
        if self.size + size > self.limit:
            raise BadFrameError(f"connections would hold more than {self.limit} bytes")
        self.size += size


async def read_frame(
    reader: asyncio.StreamReader, max_bytes: int, buffer: BufferedBytes, max_idle_s: float,
    max_frame_s: float,
) -> bytes | None:  # fmt: skip
    """None when the client has closed the connection or was idle for too long."""
    min_bytes = API_KEY_VERSION_AND_ID.size
    try:
        async with asyncio.timeout(max_idle_s):
            size = int.from_bytes(await reader.readexactly(4), signed=True)
    except TimeoutError:
        return None
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BadFrameError("the client hung up inside the length of a frame") from error
        return None
    if size >> 16 == TLS_HANDSHAKE:
        raise BadFrameError("the client wants TLS, which this broker does not have")
    if not min_bytes <= size <= max_bytes:
        raise BadFrameError(f"a frame of {size} bytes is not within {min_bytes} and {max_bytes}")
    try:
        async with asyncio.timeout(max_frame_s):
            return await _read_exactly(reader, size, buffer)
    except TimeoutError as error:
        message = f"a frame of {size} bytes was incomplete after {max_frame_s:g} s"
        raise BadFrameError(message) from error


async def _read_exactly(reader: asyncio.StreamReader, size: int, buffer: BufferedBytes) -> bytes:
    """StreamReader.readexactly would buffer more than `buffer` knows of."""
    parts, bytes_read = [], 0
    try:
        while bytes_read < size:
            part = await reader.read(min(size - bytes_read, CHUNK_BYTES))
            if not part:
                raise BadFrameError(f"the client hung up inside a frame of {size} bytes")
            buffer.reserve(len(part))
            bytes_read += len(part)
            parts.append(part)
        return b"".join(parts)
    finally:
        buffer.size -= bytes_read


def decode_call(frame: bytes, table: Table, client: Client) -> Call:
    """Raises BadFrameError for bytes that are no request."""
    api_key, version, correlation_id = API_KEY_VERSION_AND_ID.unpack_from(frame)
    api = table.get(api_key)
    if api is None:
        raise BadFrameError(f"request {api_key} is not served")
    if not api.low <= version <= api.high:
        if api_key == API_VERSIONS_KEY:
            return Call(api_key, 0, correlation_id, "", None, client, is_unsupported=True)
        raise BadFrameError(f"{api.request.name} version {version} is not served")
    try:
        name, position = _read_bytes(frame, API_KEY_VERSION_AND_ID.size, 2, compact=False)
        client_id = bytes(name or b"").decode()
        if compact := api.request.flexible_version_q(version):
            position = _skip_tags(frame, position)
        if api_key == PRODUCE_KEY:
            body = _read_produce(frame, position, compact)
        else:
            if len(frame) > MAX_QUERY_BYTES:
                raise BadFrameError(f"{api.request.name}: {len(frame)} bytes are too many")
            body = api.request.decode(memoryview(frame)[position:], version=version)
            _check_fields(api.request.name, body, version)
    except BadFrameError:
        raise
    except Exception as error:  # decoding arbitrary bytes can fail in any way
        raise BadFrameError(f"{api.request.name}: malformed ({type(error).__name__})") from error
    return Call(api_key, version, correlation_id, client_id, body, client)


def encode_answer(call: Call, response: Any) -> bytes:
    response.API_VERSION = call.version
    response.with_header(correlation_id=call.correlation_id)
    data: bytes = response.encode(header=True, framed=True)
    return data


def _read_produce(frame: bytes, position: int, compact: bool) -> Any:
    """A Produce request; its records are views of the frame.

    Each item costs an object, and a frame has room for millions.
    """
    topic_type, topics, items = ProduceRequest.TopicProduceData, list[Any](), 0
    transactional_id, position = _read_bytes(frame, position, 2, compact)
    acks, _ = ACKS_AND_TIMEOUT.unpack_from(frame, position)
    count, position = _read_length(frame, position + ACKS_AND_TIMEOUT.size, 4, compact)
    for _ in range(count or 0):
        name, position = _read_bytes(frame, position, 2, compact)
        if name is None:
            raise ValueError("a topic without a name")
        topics.append(topic_type(name=bytes(name).decode(), partition_data=[]))
        parts, position = _read_length(frame, position, 4, compact)
        items += 1 + (parts or 0)
        _check_count("Produce", items)
        for _ in range(parts or 0):
            (index,) = PARTITION_INDEX.unpack_from(frame, position)
            records, position = _read_bytes(frame, position + PARTITION_INDEX.size, 4, compact)
            position = _skip_tags(frame, position) if compact else position
            part = topic_type.PartitionProduceData(index=index, records=records)
            topics[-1].partition_data.append(part)
        position = _skip_tags(frame, position) if compact else position
    return ProduceRequest(
        transactional_id=None if transactional_id is None else bytes(transactional_id).decode(),
        acks=acks, topic_data=topics,
    )  # fmt: skip


def _check_count(request: str, items: int) -> None:
    if items > MAX_ITEMS:
        raise BadFrameError(f"{request}: names more than {MAX_ITEMS} things")


def _read_bytes(
    frame: bytes, position: int, width: int, compact: bool
) -> tuple[memoryview | None, int]:
    """The next field, None if it is null, and the position after it."""
    size, position = _read_length(frame, position, width, compact)
    if size is None:
        return None, position
    return memoryview(frame)[position : position + size], position + size


def _read_length(frame: bytes, position: int, width: int, compact: bool) -> tuple[int | None, int]:
    """The length of the next field, None if it is null, and the position of the field."""
    if compact:
        size, position = _read_varint(frame, position)
        size -= 1
    else:
        size = int.from_bytes(frame[position : position + width], signed=True)
        position += width
    if position + size > len(frame):  # each item of a list has at least one byte
        raise ValueError(size)
    return (size if size >= 0 else None), position


def _check_fields(request: str, body: Any, version: int) -> None:
    """Refuses too many items in all lists, and a null that the protocol does not allow."""
    items = 0
    for name, field, value in _fields(body):
        if isinstance(value, list):
            items += len(value)
        elif (
            value is None
            and field.type_str != "uuid"  # kafka-python decodes the zero UUID as None
            and field.for_version_q(version)
            and not field.nullable_for_version_q(version)
        ):
            raise BadFrameError(f"{request}: malformed ({name} is null)")
    _check_count(request, items)


def _fields(value: Any) -> Iterator[tuple[str, Any, Any]]:
    """Every field at every depth: name, description, value."""
    for struct_ in value if isinstance(value, list) else [value]:
        for name, field in struct_.fields.items() if isinstance(struct_, DataContainer) else ():
            inner = getattr(struct_, name, None)
            yield name, field, inner
            yield from _fields(inner)


def _skip_tags(frame: bytes, position: int) -> int:
    count, position = _read_varint(frame, position)
    if count > MAX_TAGS:
        raise ValueError(count)
    for _ in range(count):
        _, position = _read_varint(frame, position)
        size, position = _read_varint(frame, position)
        position += size
    return position


def _read_varint(frame: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number of more than five bytes")
