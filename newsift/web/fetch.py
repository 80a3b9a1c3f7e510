"""Pages of the web, bounded in time and size; private addresses only if allowed."""

import http.client
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import SplitResult, quote, urljoin, urlsplit, urlunsplit

from encoder.errors import InputError, NewsiftError
from newsift.files.articles import WebPage
from newsift.web.addresses import PORTS, is_public, literal, proxy_for

SECONDS = 20.0
BEYOND_A_PROXY = "1.1.1.1"  # stands for what only the proxy looks up: the open Internet
STEP_SECONDS = 8.0  # for one answer of the network
GRACE_S = 1.0  # after whoever waits has given up
MOST_TRIED = 4  # addresses of a host
LARGEST_PAGE = 5 * 2**20
REDIRECTS = 5
REDIRECTED = (301, 302, 303, 307, 308)
GZIP = 16 + zlib.MAX_WBITS
PAGES = ("text/html", "application/xhtml+xml", "text/plain")
REQUEST = {
    "User-Agent": "newsift (seed articles)",
    "Accept": ", ".join(PAGES),
    "Accept-Encoding": "gzip",
    "Connection": "close",
}
T = TypeVar("T")
Resolve = Callable[[str, int], list[str]]


def resolved(host: str, port: int) -> list[str]:
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a fetch, and where it may go."""

    seconds: float = SECONDS
    size: int = LARGEST_PAGE
    redirects: int = REDIRECTS
    resolve: Resolve = resolved
    allow: Callable[[str], bool] = is_public
    besides: str = ""  # what else may be done where an address is refused


def fetch(url: str, bounds: Bounds = Bounds()) -> WebPage:
    """Raises InputError with the reason."""
    return within(bounds.seconds, lambda: _fetch(url, bounds), url)


def within(seconds: float, work: Callable[[], T], url: str) -> T:
    """Gives up after so many seconds, whatever `work` waits for."""
    result: Future[T] = Future()

    def attempt() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
            result.set_exception(error)

    threading.Thread(target=attempt, daemon=True).start()
    try:
        return result.result(seconds)
    except TimeoutError:
        message = f"{url}: took longer than {seconds:g} s; save the text and add the file"
        raise InputError(message) from None


def _fetch(url: str, bounds: Bounds) -> WebPage:
    for _ in range(bounds.redirects + 1):
        with opened(url, bounds) as answer:
            location = answer.getheader("Location")
            if answer.status not in REDIRECTED or not location:
                return _page(url, answer, bounds.size)
            url = urljoin(url, location)
    raise InputError(f"{url}: redirects more than {bounds.redirects} times; give the last address")


@contextmanager
def opened(
    url: str, bounds: Bounds, headers: Mapping[str, str] = REQUEST
) -> Iterator[http.client.HTTPResponse]:
    """The answer to one request, without redirects. Raises InputError."""
    try:
        with _opened(web_address(url), bounds, headers) as answer:
            yield answer
    except NewsiftError:
        raise
    except (OSError, http.client.HTTPException, ValueError, zlib.error) as error:
        raise InputError(f"{url}: cannot be fetched ({_reason(error)})") from error


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


@contextmanager
def _opened(
    target: SplitResult, bounds: Bounds, request_headers: Mapping[str, str]
) -> Iterator[http.client.HTTPResponse]:
    """The request goes to a checked address of the host, or to the proxy."""
    secure = ssl.create_default_context() if target.scheme == "https" else None
    path = urlunsplit(("", "", target.path or "/", target.query, ""))
    path, headers = quote(path, safe="/%:@!$&'()*+,;=~?"), dict(request_headers)
    proxy = proxy_for(target)
    if proxy is None:
        connection = _straight(target, bounds, secure)
    else:
        # Where a name leads is the proxy's to check; what is an address already is ours.
        _check(target.hostname or "", literal(target.hostname or "") or BEYOND_A_PROXY, bounds)
        connection = proxy.connection(target, secure, STEP_SECONDS)
        if secure is None:
            path, headers = f"http://{target.netloc}{path}", headers | dict(proxy.headers)
    with closing(connection):
        try:
            if connection.sock is None:
                connection.connect()
            with _broken_off(connection.sock, bounds.seconds):
                if isinstance(connection.sock, ssl.SSLSocket):
                    connection.sock.do_handshake()
                connection.request("GET", path, headers=headers)
                with connection.getresponse() as answer:
                    yield answer
        except OSError as error:
            if proxy is None:
                raise
            raise OSError(f"{_reason(error)}, by the proxy {proxy}") from error


@contextmanager
def _broken_off(connection: socket.socket, seconds: float) -> Iterator[None]:
    """Shut the connection down at the end, so that the thread does not wait for slow bytes."""
    broken = threading.Event()

    def break_off() -> None:
        broken.set()
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds + GRACE_S, break_off)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if broken.is_set():
        raise TimeoutError  # what came until then looks whole


def _straight(
    target: SplitResult, bounds: Bounds, secure: ssl.SSLContext | None
) -> http.client.HTTPConnection:
    """A connection to a checked address of the host."""
    host = target.hostname or ""
    port = target.port or PORTS[target.scheme]
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(host, port)
    # The socket is ours: resolving the name a second time could give another address.
    connection.sock = _connected(host, port, bounds)
    if secure:
        # The handshake comes later, in bounds: a server may let that drip too.
        connection.sock = secure.wrap_socket(
            connection.sock, do_handshake_on_connect=False, server_hostname=host
        )
    return connection


def _check(host: str, address: str, bounds: Bounds) -> None:
    if not bounds.allow(address):
        raise InputError(
            f"{host} is at {address}, which is no address of the open Internet; "
            f"save the text and add the file{bounds.besides}"
        )


def _connected(host: str, port: int, bounds: Bounds) -> socket.socket:
    addresses = bounds.resolve(host, port)
    for address in addresses:
        _check(host, address, bounds)
    failed = OSError("the name has no address")
    for address in addresses[:MOST_TRIED]:
        try:
            return socket.create_connection((address, port), timeout=STEP_SECONDS)
        except OSError as error:
            failed = error
    raise failed


def _page(url: str, answer: http.client.HTTPResponse, size: int) -> WebPage:
    if answer.status != 200:
        raise InputError(f"{url}: answers {answer.status} {answer.reason}; save the text instead")
    kind = answer.headers.get_content_type()
    if kind not in PAGES:
        raise InputError(f"{url}: is no page of text but {kind}; save the text and add the file")
    return WebPage(url, body_of(url, answer, size), answer.headers.get_content_charset())


def body_of(url: str, answer: http.client.HTTPResponse, size: int) -> bytes:
    """Complete and decompressed. Raises InputError if it is too large."""
    body = answer.read(size + 1) if (answer.length or 0) <= size else b""
    if len(body) > size or (answer.length or 0) > size:
        raise _too_large(url, size)
    if answer.length:
        raise InputError(f"{url}: ends {answer.length} bytes early; try again") from EOFError()
    coding = (answer.getheader("Content-Encoding") or "identity").strip().lower()
    if coding in ("gzip", "x-gzip"):
        body = _unpacked(url, body, size)
    elif coding != "identity":
        raise InputError(f"{url}: is packed as {coding!r}; save the text and add the file")
    return body


def _unpacked(url: str, body: bytes, size: int) -> bytes:
    """Raises InputError if it is too large."""
    unpack = zlib.decompressobj(GZIP)
    unpacked = unpack.decompress(body, size + 1)
    if len(unpacked) > size:
        raise _too_large(url, size)
    if not unpack.eof:
        raise InputError(f"{url}: ends early; try again") from EOFError()
    return unpacked


def _too_large(url: str, size: int) -> InputError:
    return InputError(f"{url}: is larger than {size / 2**20:g} MiB; save the text and add the file")


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return f"no answer within {STEP_SECONDS:g} s"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
