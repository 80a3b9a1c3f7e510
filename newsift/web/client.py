"""The HTTP client: sessions for sources and webhooks, and single requests with limits.

All use the proxy of the environment and keep no cookies. A single request connects only to
addresses that were checked, and is bounded in time and size.
"""

import asyncio
import os
import re
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from email.message import Message
from importlib.metadata import version
from typing import TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from encoder.errors import InputError, NewsiftError
from newsift.files.articles import WebPage
from newsift.files.read import DamagedError, gunzip
from newsift.web.addresses import (
    environment_proxy,
    excerpt,
    is_public,
    literal_address,
    proxy_login,
)

MAX_CONNECT_S = 20.0
MAX_HEADER_LINE_BYTES = 2**16  # as in Python's own client
T = TypeVar("T")


def client_session(
    timeout: aiohttp.ClientTimeout,
    connections: int = 100,
    resolver: AbstractResolver | None = None,
    auto_decompress: bool = True,
) -> aiohttp.ClientSession:
    """A session with at most `connections` open connections; 0 for any number."""
    return aiohttp.ClientSession(
        timeout=timeout,
        headers={"User-Agent": f"newsift/{version('newsift')}"},
        connector=aiohttp.TCPConnector(limit=connections, resolver=resolver),
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(_use_proxy,),
        auto_decompress=auto_decompress,
        max_line_size=MAX_HEADER_LINE_BYTES,
        max_field_size=MAX_HEADER_LINE_BYTES,
    )


def stream_timeout(stall_s: float) -> aiohttp.ClientTimeout:
    """Limits connecting and silence, not the total time."""
    return aiohttp.ClientTimeout(total=None, connect=MAX_CONNECT_S, sock_read=stall_s)


async def _use_proxy(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    # aiohttp's trust_env would also send logins of ~/.netrc, and has no proxy for web sockets.
    proxy = environment_proxy(request.url)
    if proxy is not None:
        login = proxy_login(proxy)
        request.update_proxy(proxy.with_user(None), None, login)
        if not request.is_ssl():
            request.headers.update(login)
    return await send(request)


MAX_REQUEST_S = 20.0
MAX_SILENCE_S = 8.0  # while connecting, and between two parts of an answer
GRACE_S = 1.0  # by which the request itself may take longer than its caller waits
MAX_ADDRESSES = 4  # of a host, to which a connection is tried
MAX_PAGE_BYTES = 5 * 2**20
MAX_REDIRECTS = 5
REDIRECT_STATUSES = (301, 302, 303, 307, 308)
PUBLIC_ADDRESS = "1.1.1.1"  # in the place of the address of a name that only the proxy resolves
MAX_TARGET_CHARS = 8000  # of a redirect, as RFC 9110 recommends; errors name it
NOT_UTF8 = re.compile("[\udc80-\udcff]")  # bytes in a header, as aiohttp decodes them
MAX_CONTENT_TYPE_CHARS = 1000  # Message fails for a number of thousands of digits
PAGE_TYPES = ("text/html", "application/xhtml+xml", "text/plain")
PAGE_HEADERS = {
    "User-Agent": "newsift (seed articles)",
    "Accept": ", ".join(PAGE_TYPES),
    "Accept-Encoding": "gzip",
    "Connection": "close",
}
SAVE_THE_TEXT = "save the text and add the file"


def resolve(host: str, port: int) -> list[str]:
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


@dataclass(frozen=True, slots=True)
class RequestLimits:
    max_seconds: float = MAX_REQUEST_S
    max_bytes: int = MAX_PAGE_BYTES
    resolve: Callable[[str, int], list[str]] = resolve
    # Whether a target may be requested at an IP address.
    allow: Callable[[URL, str], bool] = lambda _, address: is_public(address)
    remedy: str = SAVE_THE_TEXT

    def check(self, target: URL, address: str) -> None:
        if not self.allow(target, address):
            host = target.raw_host or ""
            where = host if host == address else f"{host} is at {address}, which"
            problem = f"{where} is not a public address"
            raise InputError(f"{problem}; {self.remedy}")


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """The body is empty unless the status is 200."""

    url: str
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def location(self) -> str | None:
        """The target of a redirect. Raises InputError if it is invalid."""
        location = self.headers.get("Location") if self.status in REDIRECT_STATUSES else None
        if location and len(location) > MAX_TARGET_CHARS:
            size = f"{len(location):,} characters, {MAX_TARGET_CHARS:,} are allowed"
            raise InputError(f"{self.url}: redirects to an address of {size}; give another one")
        try:
            return urljoin(self.url, NOT_UTF8.sub(_percent, location)) if location else None
        except ValueError as error:
            raise InputError(f"{self.url}: redirects to an invalid address") from error

    def page(self, limits: RequestLimits) -> WebPage:
        """Raises InputError for what is no text."""
        header = self.headers.get("Content-Type", "text/plain")[:MAX_CONTENT_TYPE_CHARS]
        kind = header.partition(";")[0].strip().lower()
        if kind not in PAGE_TYPES and kind.count("/") == 1:
            raise InputError(f"{self.url}: is {excerpt(kind)}, not text; {limits.remedy}")
        return WebPage(self.url, self.body, _charset_of(header))


def _charset_of(content_type: str) -> str | None:
    """None without one, or for one that cannot be read."""
    message = Message()  # the one class of Python that can parse the header
    message["Content-Type"] = content_type
    try:
        return message.get_content_charset()
    except (TypeError, ValueError):
        return None


def _percent(byte: re.Match[str]) -> str:
    return f"%{ord(byte[0]) - 0xDC00:02X}"


def fetch(url: str, limits: RequestLimits = RequestLimits()) -> WebPage:
    """Raises InputError if the page cannot be fetched."""

    def request(target: str) -> WebAnswer:
        answer = send(target, limits)
        if answer.location is None and answer.status != 200:
            problem = f"answers {answer.status} {answer.reason}; {limits.remedy}"
            raise InputError(f"{target}: {problem}")
        return answer

    return run_with_timeout(lambda: follow_redirects(url, request).page(limits), url, limits)


class StatusError(InputError):
    def __init__(self, message: str, status: int, wait: float = 0.0) -> None:
        """`wait`: seconds before the site may be requested again."""
        super().__init__(message)
        self.status, self.wait = status, wait


def follow_redirects(url: str, request: Callable[[str], WebAnswer]) -> WebAnswer:
    for _ in range(MAX_REDIRECTS + 1):
        answer = request(url)
        if answer.location is None:
            return answer
        url = answer.location
    problem = f"redirects more than {MAX_REDIRECTS} times; give the last address"
    raise StatusError(f"{url}: {problem}", answer.status)


def run_with_timeout(work: Callable[[], T], url: str, limits: RequestLimits) -> T:
    """Raises InputError after `limits.max_seconds`, whatever `work` waits for."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return result.result(limits.max_seconds)
    except TimeoutError:
        message = f"{url}: took longer than {limits.max_seconds:g} s; {limits.remedy}"
        raise InputError(message) from None


def parse_web_address(url: str) -> SplitResult:
    """Raises InputError unless it is an http or https address without a login."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InputError(f"{url}: is not an address of the web ({error})") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{url}: is not an address of the web; give one as https://…")
    if parts.username is not None or parts.password is not None:
        raise InputError(f"{parts.scheme}://…@{parts.hostname}: holds a login; give one without")
    return parts


class CheckedResolver(AbstractResolver):
    """Resolves a name to addresses that were checked: a second look-up could give others."""

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None: ...


def send(
    url: str,
    limits: RequestLimits,
    headers: Mapping[str, str] = PAGE_HEADERS,
) -> WebAnswer:
    """Send one request, without following redirects. Raises InputError if it fails."""
    parse_web_address(url)
    proxy = None
    try:
        target = URL(url)
        proxy = environment_proxy(target)
        resolver = None
        if proxy is None:
            resolver = CheckedResolver(_resolve_and_check(target, limits))
        else:  # the proxy resolves and checks names
            limits.check(target, literal_address(target.raw_host or "") or PUBLIC_ADDRESS)
        return asyncio.run(_send(target, url, limits, headers, resolver))
    except NewsiftError:
        raise
    except aiohttp.ClientPayloadError as error:
        raise InputError(f"{url}: ends early; try again") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        by = f", by the proxy {proxy.host}:{proxy.port}" if proxy else ""
        raise InputError(f"{url}: cannot be fetched ({_reason(error)}{by})") from error


def _resolve_and_check(target: URL, limits: RequestLimits) -> list[str]:
    host = target.raw_host or ""
    if host.replace(".", "").isdigit() and literal_address(host) is None:
        raise InputError(f"{target}: is not an address of the web; give one as https://…")
    addresses = limits.resolve(host, target.port or 0)
    if not addresses:
        raise OSError("the name has no address")
    for address in addresses:
        limits.check(target, address)
    return addresses[:MAX_ADDRESSES]


async def _send(
    target: URL,
    url: str,
    limits: RequestLimits,
    headers: Mapping[str, str],
    resolver: AbstractResolver | None,
) -> WebAnswer:
    timeout = aiohttp.ClientTimeout(
        total=limits.max_seconds + GRACE_S, sock_connect=MAX_SILENCE_S, sock_read=MAX_SILENCE_S
    )
    session = client_session(timeout, resolver=resolver, auto_decompress=False)
    async with session, session.get(target, headers=headers, allow_redirects=False) as answer:
        parts: list[bytes] = []
        if answer.status == 200 and not await read_limited(answer, limits.max_bytes, parts.append):
            raise _too_large(url, limits)
        encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
        body = _unpack(url, b"".join(parts), encoding, limits) if parts else b""
        return WebAnswer(url, answer.status, excerpt(answer.reason or ""), answer.headers, body)


async def read_limited(
    answer: aiohttp.ClientResponse, max_bytes: int, write: Callable[[bytes], object]
) -> bool:
    """Write the body of an answer. Returns False for one that is larger than `max_bytes`."""
    if (answer.content_length or 0) > max_bytes:
        return False
    left = max_bytes
    async for piece in answer.content.iter_any():
        left -= len(piece)
        if left < 0:
            return False
        write(piece)
    return True


def _unpack(url: str, body: bytes, encoding: str, limits: RequestLimits) -> bytes:
    """Raises InputError for an unknown encoding, and for a result that is too large."""
    if encoding == "identity":
        return body
    if encoding not in ("gzip", "x-gzip"):
        raise InputError(f"{url}: is packed as {encoding!r}; {limits.remedy}")
    parts, left = list[bytes](), limits.max_bytes
    try:
        for part in gunzip(iter([body])):
            left -= len(part)
            if left < 0:
                raise _too_large(url, limits)
            parts.append(part)
    except DamagedError as error:
        raise InputError(f"{url}: {error.problem}; try again") from EOFError()
    return b"".join(parts)


def _too_large(url: str, limits: RequestLimits) -> InputError:
    return InputError(f"{url}: is larger than {limits.max_bytes / 2**20:g} MiB; {limits.remedy}")


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        verify_message = getattr(error.certificate_error, "verify_message", "")
        return f"its certificate is not trusted: {verify_message}"
    if isinstance(error, aiohttp.ServerTimeoutError):
        return f"no answer within {MAX_SILENCE_S:g} s"
    if isinstance(error, TimeoutError):
        return "took too long"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{error.status} {excerpt(error.message)}"
    number = getattr(error, "errno", None) or 0
    text = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or str(error)
    return excerpt(text) or type(error).__name__
