"""How sources speak HTTP: answers, tokens, lines, server-sent events and web sockets."""

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
from newsift.web.addresses import MAX_CHARS, excerpt, parse_address, retry_after
from newsift.web.client import read_limited
from worker.config.secret import Secret, read_secret
from worker.errors import AccessError, ConfigError

D = TypeVar("D")
RESPONSE_TIMEOUT_S = 120.0  # for an answer that ends
ERROR_BYTES = 2**12  # of an answer that is an error


class TooLargeError(LostError):
    pass


def endpoint(url: str, *schemes: str) -> URL:
    """Parse --url. Raises InputError for other schemes; it hides login and query."""
    if (parsed := parse_address(url, *schemes)) is None:
        bare = url.partition("?")[0].rpartition("@")[2][:MAX_CHARS]
        raise InputError(f"--url: {bare!r}; give an address with {' or '.join(schemes)}")
    return parsed


def without_login(url: URL) -> URL:
    """The token identifies the client, so the address may hold no login."""
    if url.user or url.password:
        raise InputError("--url: holds a login, but the token says who asks; leave the login out")
    return url


def read_token(variable: str, file: Path | None, env: Mapping[str, str] = os.environ) -> Secret:
    """From a file, else from an environment variable."""
    if file is not None:
        return read_secret(file, "--token-file")
    value = env.get(variable, "").strip()
    if not value:
        raise ConfigError(f"{variable}: is not set; set it to the token, or give --token-file FILE")
    if not (value.isascii() and value.isprintable()):
        raise ConfigError(f"{variable}: holds what is no token; set the token alone")
    return Secret(value)


def is_refusal(status: int) -> bool:
    """Whether a retry is useless: the request or the client is refused."""
    return 400 <= status < 500 and status not in (408, 425, 429)


def answer_error(
    host: str | None, status: int, headers: Mapping[str, str], words: str, remedy: str
) -> LostError | AccessError:
    """LostError for a status that allows a retry, else AccessError. `words` are the server's."""
    message = f"{host} answers {status}{f' ({words})' if words else ''}"
    if is_refusal(status):
        return AccessError(f"{message}; {remedy}")
    return LostError(LIMITED if status == 429 else BUSY, message, retry_after(headers))


async def check_answer(answer: aiohttp.ClientResponse, remedy: str) -> None:
    """Raise the error for a status other than 2xx; `remedy` is for a 4xx."""
    if not 200 <= answer.status < 300:
        words = excerpt(await answer.content.read(ERROR_BYTES))
        raise answer_error(answer.url.host, answer.status, answer.headers, words, remedy)


async def read_body(answer: aiohttp.ClientResponse, largest: int) -> bytes:
    """In bounded memory and time."""
    parts: list[bytes] = []
    async with timeout(RESPONSE_TIMEOUT_S):  # some drip
        if not await read_limited(answer, largest, parts.append):
            message = f"{answer.url.host} answers more than {largest:,} bytes"
            raise TooLargeError(MALFORMED, message)
    return b"".join(parts)


def decode_answer(decoder: msgspec.json.Decoder[D], body: bytes, what: str) -> D:
    """Raises LostError for an answer that is not as documented."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise LostError(
            MALFORMED, f"{what} is not as documented ({excerpt(str(error))})"
        ) from error


@contextmanager
def connection_errors(place: str) -> Iterator[None]:
    """Turn the errors of a connection into LostError."""
    try:
        yield
    except NewsiftError:
        raise
    except TimeoutError as error:
        raise LostError(STALLED, f"{place}: nothing came for too long") from error
    except aiohttp.ClientPayloadError as error:
        raise LostError(CLOSED, f"{place}: closed in the middle of an answer") from error
    # What these say by themselves holds the address, and in its query perhaps a token.
    except aiohttp.TooManyRedirects as error:
        raise LostError(MALFORMED, f"{place}: redirects again and again") from error
    except aiohttp.InvalidURL as error:
        raise LostError(MALFORMED, f"{place}: redirects to what is no address") from error
    except aiohttp.ClientResponseError as error:
        message = f"{excerpt(error.message)} ({error.status})"
        raise LostError(UNREACHABLE, f"{place}: {message}") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise LostError(UNREACHABLE, f"{place}: {excerpt(str(error)) or 'broke off'}") from error


MAX_LINE_BYTES = 2**22  # bytes of a line


class LineParser:
    """Lines of at most `largest` bytes, whatever the chunks."""

    def __init__(self, largest: int = MAX_LINE_BYTES) -> None:
        self._largest = largest
        self._rest = bytearray()  # of a line whose end has not come

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
        if len(self._rest) > self._largest:
            raise LostError(MALFORMED, f"a line has more than {self._largest:,} bytes")


class EventParser:
    """Server-sent events: name and data. A comment, such as a heartbeat, has neither."""

    def __init__(self, largest: int = MAX_LINE_BYTES) -> None:
        self._largest, self._lines = largest, LineParser(largest)
        self._skip_lf = False  # the last line ended with CR: an LF would be of the same end
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
        if self._size > self._largest:
            raise LostError(MALFORMED, f"an event has more than {self._largest:,} bytes")
        field, _, value = line.partition(b":")
        if field == b"event":
            self._name = value.removeprefix(b" ")
        elif field == b"data":
            self._data.append(value.removeprefix(b" "))


class UnreadableFrameError(LostError):
    """A frame is no text or too large; requested again, it comes again."""


async def socket_texts(
    socket: ClientWebSocketResponse, place: str, silent_s: float | None = None
) -> AsyncIterator[bytes]:
    """Raises LostError when the connection ends.

    A ping counts as a sign of life unless `silent_s` limits the time without a text.
    """
    while True:
        with connection_errors(place):
            async with timeout(silent_s):
                message = await socket.receive()
        if message.type is not WSMsgType.TEXT:
            raise _socket_error(socket, message, place)
        yield message.data.encode()


def _socket_error(socket: ClientWebSocketResponse, message: WSMessage, place: str) -> LostError:
    if message.type is WSMsgType.BINARY:
        return LostError(MALFORMED, f"{place}: sends binary frames, which nobody asked for")
    if isinstance(message.data, WebSocketError):
        detail = excerpt(str(message.data))
        return UnreadableFrameError(MALFORMED, f"{place}: sends what cannot be read ({detail})")
    why = message.extra or message.data
    detail = f" ({excerpt(str(why))})" if why and why != socket.close_code else ""
    return LostError(CLOSED, f"{place}: closed the connection with {socket.close_code}{detail}")
