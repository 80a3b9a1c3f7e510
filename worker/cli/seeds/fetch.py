"""A page of the web: bounded in time and size, and never from inside the own network."""

import http.client
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeVar
from urllib.parse import SplitResult, quote, urljoin, urlsplit, urlunsplit

from encoder.errors import InputError
from worker.files.articles.page import Page

SECONDS = 20.0
STEP_SECONDS = 8.0  # for one answer of the network
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
NAT64 = IPv6Network("64:ff9b::/96")
# Inside two clouds these answer with the machine's own secrets, though their ranges are public.
METADATA = (IPv4Network("192.0.0.0/24"), IPv4Network("168.63.129.16/32"))

T = TypeVar("T")
Resolve = Callable[[str, int], list[str]]


def resolved(host: str, port: int) -> list[str]:
    """The addresses of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_public(address: str) -> bool:
    """Whether an address is one of the open Internet: not private, local, reserved or multicast."""
    found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if found in NAT64:
            inner = IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if found.is_site_local:
            return False
    if any(found in network for network in METADATA):
        return False
    return found.is_global and not (found.is_multicast or found.is_reserved)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a fetch may cost, and where it may go."""

    seconds: float = SECONDS
    size: int = LARGEST_PAGE
    redirects: int = REDIRECTS
    resolve: Resolve = resolved
    allow: Callable[[str], bool] = is_public


def fetch(url: str, bounds: Bounds = Bounds()) -> Page:
    """The page behind an address of the web; refused with a reason where it cannot be had."""
    return within(bounds.seconds, lambda: _fetch(url, bounds), url)


def within(seconds: float, work: Callable[[], T], url: str) -> T:
    """The result of the work, given up after so many seconds, whatever it is waiting for."""
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
        said = f"{url}: took longer than {seconds:g} s; save the text and add the file"
        raise InputError(said) from None


def _fetch(url: str, bounds: Bounds) -> Page:
    for _ in range(bounds.redirects + 1):
        with opened(url, bounds) as answer:
            there = answer.getheader("Location")
            if answer.status not in REDIRECTED or not there:
                return _page(url, answer, bounds.size)
            url = urljoin(url, there)
    raise InputError(f"{url}: redirects more than {bounds.redirects} times; give the last address")


@contextmanager
def opened(
    url: str, bounds: Bounds, asked: Mapping[str, str] = REQUEST
) -> Iterator[http.client.HTTPResponse]:
    """The answer to one request, redirects not followed; what fails is refused with a reason."""
    try:
        with _opened(_target(url), bounds, asked) as answer:
            yield answer
    except InputError:
        raise
    except (OSError, http.client.HTTPException, ValueError, zlib.error) as error:
        raise InputError(f"{url}: cannot be fetched ({_reason(error)})") from error


def _target(url: str) -> SplitResult:
    """The parts of an address that may be fetched."""
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
    target: SplitResult, bounds: Bounds, asked: Mapping[str, str]
) -> Iterator[http.client.HTTPResponse]:
    """The answer to a request that goes to a checked address of the host, and to no other."""
    secure = target.scheme == "https"
    host = target.hostname or ""
    port = target.port or (443 if secure else 80)
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(host, port)
    # The socket is ours: resolving the name a second time could give another address.
    connection.sock = _connected(host, port, bounds)
    with closing(connection):
        if secure:
            context = ssl.create_default_context()
            connection.sock = context.wrap_socket(connection.sock, server_hostname=host)
        path = urlunsplit(("", "", target.path or "/", target.query, ""))
        connection.request("GET", quote(path, safe="/%:@!$&'()*+,;=~?"), headers=dict(asked))
        with connection.getresponse() as answer:
            yield answer


def _connected(host: str, port: int, bounds: Bounds) -> socket.socket:
    addresses = bounds.resolve(host, port)
    for address in addresses:
        if not bounds.allow(address):
            raise InputError(
                f"{host} is at {address}, which is no address of the open Internet; "
                "save the text and add the file"
            )
    failed = OSError("the name has no address")
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout=STEP_SECONDS)
        except OSError as error:
            failed = error
    raise failed


def _page(url: str, answer: http.client.HTTPResponse, size: int) -> Page:
    if answer.status != 200:
        raise InputError(f"{url}: answers {answer.status} {answer.reason}; save the text instead")
    kind = answer.headers.get_content_type()
    if kind not in PAGES:
        raise InputError(f"{url}: is no page of text but {kind}; save the text and add the file")
    return Page(url, body_of(url, answer, size), answer.headers.get_content_charset())


def body_of(url: str, answer: http.client.HTTPResponse, size: int) -> bytes:
    """The body of an answer, unpacked, whole, and never more than the size."""
    body = answer.read(size + 1) if (answer.length or 0) <= size else b""
    if len(body) > size or (answer.length or 0) > size:
        raise _too_large(url, size)
    if answer.length:
        raise InputError(f"{url}: ends {answer.length} bytes early; try again")
    coding = (answer.getheader("Content-Encoding") or "identity").strip().lower()
    if coding in ("gzip", "x-gzip"):
        body = _unpacked(url, body, size)
    elif coding != "identity":
        raise InputError(f"{url}: is packed as {coding!r}; save the text and add the file")
    return body


def _unpacked(url: str, body: bytes, size: int) -> bytes:
    """The body without its compression, never more than the size."""
    unpack = zlib.decompressobj(GZIP)
    found = unpack.decompress(body, size + 1)
    if len(found) > size:
        raise _too_large(url, size)
    if not unpack.eof:
        raise InputError(f"{url}: ends early; try again")
    return found


def _too_large(url: str, size: int) -> InputError:
    return InputError(f"{url}: is larger than {size / 2**20:g} MiB; save the text and add the file")


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return f"no answer within {STEP_SECONDS:g} s"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
