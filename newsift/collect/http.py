"""HTTP for the sources: answers, tokens, lines, server-sent events and web sockets."""

import os
from asyncio import timeout
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec
from aiohttp import ClientWebSocketResponse, WebSocketError, WSMessage, WSMsgType
from yarl import URL

from encoder.errors import InputError, NewsiftError
from newsift.collect.source import BUSY, CLOSED, LIMITED, MALFORMED, STALLED, UNREACHABLE, LostError
from newsift.web.addresses import MAX_EXCERPT_CHARS, excerpt, parse_address, retry_after
from newsift.web.client import read_limited
from worker.config.secret import Secret, read_secret
from worker.errors import AccessError, ConfigError

D = TypeVar("D")
MAX_RESPONSE_S = 120.0  # from the first to the last byte of an answer
MAX_ERROR_BYTES = 2**12  # read of an answer that is an error


class TooLargeError(LostError):
    pass


def parse_endpoint(url: str, *schemes: str) -> URL:
    """Raises InputError for other schemes. The message hides login and query."""
    if (address := parse_address(url, *schemes)) is None:
        bare = url.partition("?")[0].rpartition("@")[2][:MAX_EXCERPT_CHARS]
        raise InputError(f"--url: {bare!r}; give an address with {' or '.join(schemes)}")
    return address


def require_no_login(url: URL) -> URL:
    """Raises InputError for an address with a login, as the token identifies the client."""
    if url.user or url.password:
        raise InputError("--url: holds a login, but the token identifies you; leave the login out")
    return url


def read_token(variable: str, file: Path | None, env: Mapping[str, str] = os.environ) -> Secret:
    """The token in the file, or else in the environment variable."""
    if file is not None:
        return read_secret(file, "--token-file")
    value = env.get(variable, "").strip()
    if not value:
        raise ConfigError(f"{variable}: is not set; set it to the token, or give --token-file FILE")
    if not (value.isascii() and value.isprintable()):
        raise ConfigError(f"{variable}: is not a token; set it to the token alone")
    return Secret(value)


def is_refusal(status: int) -> bool:
    """Whether a retry is useless: the request or the client is refused."""
    return 400 <= status < 500 and status not in (408, 425, 429)


def answer_error(
    host: str | None, status: int, headers: Mapping[str, str], detail: str, remedy: str
) -> LostError | AccessError:
    """LostError if a retry may help, else AccessError. `detail` is the server's text."""
    message = f"{host} answers {status}{f' ({detail})' if detail else ''}"
    if is_refusal(status):
        return AccessError(f"{message}; {remedy}")
    return LostError(LIMITED if status == 429 else BUSY, message, retry_after(headers))


async def check_answer(answer: aiohttp.ClientResponse, remedy: str) -> None:
    """Raise an error for a status other than 2xx; `remedy` is for a 4xx."""
    if not 200 <= answer.status < 300:
        detail = excerpt(await answer.content.read(MAX_ERROR_BYTES))
        raise answer_error(answer.url.host, answer.status, answer.headers, detail, remedy)


async def read_body(answer: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Raises TooLargeError for a larger body, TimeoutError for one that takes too long."""
    parts: list[bytes] = []
    async with timeout(MAX_RESPONSE_S):
        if not await read_limited(answer, max_bytes, parts.append):
            message = f"{answer.url.host} answers more than {max_bytes:,} bytes"
            raise TooLargeError(MALFORMED, message)
    return b"".join(parts)


def decode_answer(kind: type[D], body: bytes, subject: str) -> D:
    """Raises LostError for an answer that is not as documented."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        message = f"{subject} is not as documented ({excerpt(str(error))})"
        raise LostError(MALFORMED, message) from error


@contextmanager
def connection_errors(place: str) -> Iterator[None]:
    """Turn the errors of a connection into LostError."""
    try:
        yield
    except NewsiftError:
        raise
    except TimeoutError as error:
        raise LostError(STALLED, f"{place}: no data arrived for too long") from error
    except aiohttp.ClientPayloadError as error:
        raise LostError(CLOSED, f"{place}: closed in the middle of an answer") from error
    # The texts of these errors hold the address, whose query may hold a token.
    except aiohttp.TooManyRedirects as error:
        raise LostError(MALFORMED, f"{place}: redirects again and again") from error
    except aiohttp.InvalidURL as error:
        raise LostError(MALFORMED, f"{place}: redirects to an invalid address") from error
    except aiohttp.ClientResponseError as error:
        message = f"{excerpt(error.message)} ({error.status})"
        raise LostError(UNREACHABLE, f"{place}: {message}") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise LostError(UNREACHABLE, f"{place}: {excerpt(str(error)) or 'broke off'}") from error


MAX_LINE_BYTES = 2**22


class LineParser:
    """Splits chunks of bytes into lines. Raises LostError for a line that is too long."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()  # the start of an incomplete line

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            self._extend(part)
            line = bytes(self._rest)
            self._rest.clear()
            yield line
        self._extend(rest)

    def _extend(self, part: bytes) -> None:
        self._rest += part
        if len(self._rest) > self._max_bytes:
            raise LostError(MALFORMED, f"a line has more than {self._max_bytes:,} bytes")


class EventParser:
    """Parses server-sent events into names and data, both empty for a comment (a heartbeat)."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes, self._lines = max_bytes, LineParser(max_bytes)
        self._skip_lf = False  # the last chunk ended with CR, so an LF belongs to the same line end
        self._name, self._data, self._size = b"", list[bytes](), 0

    def feed(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        if self._skip_lf and chunk:
            chunk, self._skip_lf = chunk.removeprefix(b"\n"), False
        if not chunk:
            return
        self._skip_lf = chunk.endswith(b"\r")
        for line in self._lines.feed(chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")):
            if line.startswith(b":"):
                yield "", b""
            elif line:
                self._add(line)
            else:
                name, data = self._name.decode("utf-8", "replace"), self._data
                self._name, self._data, self._size = b"", [], 0
                if data:
                    yield name or "message", b"\n".join(data)

    def _add(self, line: bytes) -> None:
        self._size += len(line) + 1
        if self._size > self._max_bytes:
            raise LostError(MALFORMED, f"an event has more than {self._max_bytes:,} bytes")
        field, _, value = line.partition(b":")
        if field == b"event":
            self._name = value.removeprefix(b" ")
        elif field == b"data":
            self._data.append(value.removeprefix(b" "))


class UnreadableFrameError(LostError):
    """A frame is not text or too large. A retry would get the same frame again."""


async def socket_texts(
    socket: ClientWebSocketResponse, place: str, stall_s: float | None = None
) -> AsyncIterator[bytes]:
    """The text messages of a web socket. Raises LostError when the connection ends.

    `stall_s` limits the time without a text, even while pings arrive.
    """
    while True:
        with connection_errors(place):
            async with timeout(stall_s):
                message = await socket.receive()
        if message.type is not WSMsgType.TEXT:
            raise _socket_error(socket, message, place)
        yield message.data.encode()


def _socket_error(socket: ClientWebSocketResponse, message: WSMessage, place: str) -> LostError:
    if message.type is WSMsgType.BINARY:
        return LostError(MALFORMED, f"{place}: sends binary frames instead of text")
    if isinstance(message.data, WebSocketError):
        detail = excerpt(str(message.data))
        return UnreadableFrameError(MALFORMED, f"{place}: sends an unreadable frame ({detail})")
    why = message.extra or message.data
    detail = f" ({excerpt(str(why))})" if why and why != socket.close_code else ""
    return LostError(CLOSED, f"{place}: closed the connection with {socket.close_code}{detail}")
