"""The HTTP client: sessions for sources and webhooks, and single requests with limits.

All use the proxy of the environment and keep no cookies. A single request connects only to
addresses that were checked, and is bounded in time and size.
"""

import asyncio
import os
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
from newsift.files.read import DamagedError, gunzipped
from newsift.web.addresses import (
    environment_proxy,
    excerpt,
    is_public,
    literal_address,
    proxy_login,
)

CONNECT_S = 20.0
HEADER_BYTES = 2**16  # of a line, as in Python's own client
T = TypeVar("T")


def client_session(
    timeout: aiohttp.ClientTimeout,
    connections: int = 100,
    resolver: AbstractResolver | None = None,
    auto_decompress: bool = True,
) -> aiohttp.ClientSession:
    """`connections` at a time; 0 for any number."""
    return aiohttp.ClientSession(
        timeout=timeout,
        headers={"User-Agent": f"newsift/{version('newsift')}"},
        connector=aiohttp.TCPConnector(limit=connections, resolver=resolver),
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(_by_proxy,),
        auto_decompress=auto_decompress,
        max_line_size=HEADER_BYTES,
        max_field_size=HEADER_BYTES,
    )


def limits(stall_s: float) -> aiohttp.ClientTimeout:
    """Limits on connecting and on silence, not on the total time."""
    return aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=stall_s)


async def _by_proxy(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    # Not by aiohttp's trust_env: that reads ~/.netrc too, whose login is refused beside a token,
    # and knows no proxy for a web socket.
    proxy = environment_proxy(request.url)
    if proxy is not None:
        login = proxy_login(proxy)
        request.update_proxy(proxy.with_user(None), None, login)
        if not request.is_ssl():
            request.headers.update(login)
    return await send(request)


SECONDS = 20.0
STEP_SECONDS = 8.0  # for one answer of the network
GRACE_S = 1.0  # after the caller has given up
MAX_TRIED = 4  # addresses of a host
MAX_PAGE_BYTES = 5 * 2**20
REDIRECTS = 5
REDIRECTED = (301, 302, 303, 307, 308)
BEYOND_A_PROXY = "1.1.1.1"  # a public address, for names that only the proxy resolves
PAGES = ("text/html", "application/xhtml+xml", "text/plain")
REQUEST = {
    "User-Agent": "newsift (seed articles)",
    "Accept": ", ".join(PAGES),
    "Accept-Encoding": "gzip",
    "Connection": "close",
}
SAVE_THE_TEXT = "save the text and add the file"


def resolve(host: str, port: int) -> list[str]:
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a request, and where it may go."""

    seconds: float = SECONDS
    size: int = MAX_PAGE_BYTES
    redirects: int = REDIRECTS
    resolve: Callable[[str, int], list[str]] = resolve
    allow: Callable[[str], bool] = is_public
    remedy: str = SAVE_THE_TEXT

    def check(self, host: str, address: str) -> None:
        """Raises InputError for an address that is not allowed."""
        if not self.allow(address):
            raise InputError(
                f"{host} is at {address}, which is no address of the open Internet; {self.remedy}"
            )


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """The body is empty unless the status is 200."""

    url: str
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes = b""
    permanent_url: str = ""  # where permanent redirects lead

    @property
    def location(self) -> str | None:
        """The next address of a redirect. Raises InputError if it is invalid."""
        location = self.headers.get("Location") if self.status in REDIRECTED else None
        try:
            return urljoin(self.url, location) if location else None
        except ValueError as error:
            message = f"{self.url}: redirects to what is no address of the web"
            raise InputError(message) from error

    @property
    def content(self) -> Message:
        message = Message()
        message["Content-Type"] = self.headers.get("Content-Type", "text/plain")
        return message


def fetch(url: str, bounds: Bounds = Bounds()) -> WebPage:
    """Raises InputError with the reason."""
    return within(bounds, lambda: _fetch(url, bounds), url)


def within(bounds: Bounds, work: Callable[[], T], url: str) -> T:
    """Gives up after the seconds of the bounds, whatever `work` waits for."""
    result: Future[T] = Future()

    def attempt() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            result.set_exception(error)

    threading.Thread(target=attempt, daemon=True).start()
    try:
        return result.result(bounds.seconds)
    except TimeoutError:
        message = f"{url}: took longer than {bounds.seconds:g} s; {bounds.remedy}"
        raise InputError(message) from None


def _fetch(url: str, bounds: Bounds) -> WebPage:
    for _ in range(bounds.redirects + 1):
        answer = send(url, bounds)
        if answer.location is None:
            return _page(answer, bounds)
        url = answer.location
    raise InputError(f"{url}: redirects more than {bounds.redirects} times; give the last address")


def _page(answer: WebAnswer, bounds: Bounds) -> WebPage:
    if answer.status != 200:
        raise InputError(f"{answer.url}: answers {answer.status} {answer.reason}; {bounds.remedy}")
    kind = answer.content.get_content_type()
    if kind not in PAGES:
        raise InputError(f"{answer.url}: is no page of text but {kind}; {bounds.remedy}")
    return WebPage(answer.url, answer.body, answer.content.get_content_charset())


def web_address(url: str) -> SplitResult:
    """Raises InputError for what is no http or https address."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InputError(f"{url}: is no address of the web ({error})") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{url}: is no address of the web; give one as https://…")
    if parts.username is not None or parts.password is not None:
        raise InputError(f"{parts.scheme}://…@{parts.hostname}: holds a login; give one without")
    return parts


class CheckedAddresses(AbstractResolver):
    """Connects a name to addresses that were checked: a second look-up could give others."""

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
    bounds: Bounds,
    headers: Mapping[str, str] = REQUEST,
    write: Callable[[bytes], object] | None = None,
) -> WebAnswer:
    """The answer to one request, without redirects. Raises InputError.

    With `write` the body goes there as it arrives, else it is in the answer, decompressed.
    """
    web_address(url)
    proxy = None
    try:
        target = URL(url)
        proxy = environment_proxy(target)
        resolver = None
        if proxy is None:
            resolver = CheckedAddresses(_checked_addresses(target, bounds))
        else:  # the proxy resolves and checks names
            host = target.raw_host or ""
            bounds.check(host, literal_address(host) or BEYOND_A_PROXY)
        return asyncio.run(_send(target, url, bounds, headers, resolver, write))
    except NewsiftError:
        raise
    except aiohttp.ClientPayloadError as error:
        raise InputError(f"{url}: ends early; try again") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        by = f", by the proxy {proxy.host}:{proxy.port}" if proxy else ""
        raise InputError(f"{url}: cannot be fetched ({_reason(error)}{by})") from error


def _checked_addresses(target: URL, bounds: Bounds) -> list[str]:
    host = target.raw_host or ""
    if host.replace(".", "").isdigit() and literal_address(host) is None:
        raise InputError(f"{target}: is no address of the web; give one as https://…")
    addresses = bounds.resolve(host, target.port or 0)
    if not addresses:
        raise OSError("the name has no address")
    for address in addresses:
        bounds.check(host, address)
    return addresses[:MAX_TRIED]


async def _send(
    target: URL,
    url: str,
    bounds: Bounds,
    headers: Mapping[str, str],
    resolver: AbstractResolver | None,
    write: Callable[[bytes], object] | None,
) -> WebAnswer:
    timeout = aiohttp.ClientTimeout(
        total=bounds.seconds + GRACE_S, sock_connect=STEP_SECONDS, sock_read=STEP_SECONDS
    )
    session = client_session(timeout, resolver=resolver, auto_decompress=False)
    async with session, session.get(target, headers=headers, allow_redirects=False) as answer:
        parts: list[bytes] = []
        if answer.status == 200 and not await read_limited(
            answer, bounds.size, write or parts.append
        ):
            raise _too_large(url, bounds)
        coding = answer.headers.get("Content-Encoding", "identity").strip().lower()
        body = _unpack(url, b"".join(parts), coding, bounds) if parts else b""
        return WebAnswer(url, answer.status, excerpt(answer.reason or ""), answer.headers, body)


async def read_limited(
    answer: aiohttp.ClientResponse, size: int, write: Callable[[bytes], object]
) -> bool:
    """Whether the whole body, of at most this many bytes, was written."""
    if (answer.content_length or 0) > size:
        return False
    left = size
    async for piece in answer.content.iter_any():
        left -= len(piece)
        if left < 0:
            return False
        write(piece)
    return True


def _unpack(url: str, body: bytes, coding: str, bounds: Bounds) -> bytes:
    """Raises InputError if it is too large."""
    if coding == "identity":
        return body
    if coding not in ("gzip", "x-gzip"):
        raise InputError(f"{url}: is packed as {coding!r}; {bounds.remedy}")
    parts, left = list[bytes](), bounds.size
    try:
        for part in gunzipped(iter([body])):
            left -= len(part)
            if left < 0:
                raise _too_large(url, bounds)
            parts.append(part)
    except DamagedError as error:
        raise InputError(f"{url}: {error.what}; try again") from EOFError()
    return b"".join(parts)


def _too_large(url: str, bounds: Bounds) -> InputError:
    return InputError(f"{url}: is larger than {bounds.size / 2**20:g} MiB; {bounds.remedy}")


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        verify_message = getattr(error.certificate_error, "verify_message", "")
        return f"its certificate is not trusted: {verify_message}"
    if isinstance(error, aiohttp.ServerTimeoutError):
        return f"no answer within {STEP_SECONDS:g} s"
    if isinstance(error, TimeoutError):
        return "took too long"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{error.status} {excerpt(error.message)}"
    number = getattr(error, "errno", None) or 0
    words = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or str(error)
    return excerpt(words) or type(error).__name__
