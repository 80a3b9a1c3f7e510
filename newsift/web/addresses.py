"""Checks of addresses, the environment's proxies, and the waiting times that answers ask for."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from socket import inet_aton
from time import time
from urllib.request import getproxies_environment, proxy_bypass

from yarl import URL

from worker.errors import ConfigError
from worker.links import DEFAULT_PORTS

NAT64_NETWORK = IPv6Network("64:ff9b::/96")
CARRIER_NETWORK = IPv4Network("100.64.0.0/10")
# The metadata services of clouds, which answer with secrets of the machine.
METADATA_NETWORKS = (
    IPv4Network("192.0.0.0/24"),
    IPv4Network("168.63.129.16/32"),
    IPv4Network("100.100.100.200/32"),
    IPv6Network("fd00:ec2::/32"),
    IPv6Network("fd20:ce::254/128"),
)
Address = IPv4Address | IPv6Address


def is_public(address: str) -> bool:
    """False for private, local, reserved and multicast addresses."""
    ip = _embedded_address(address)
    if isinstance(ip, IPv6Address) and ip.is_site_local:
        return False
    if _is_metadata(ip):
        return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved)


def is_private(address: str) -> bool:
    """Whether it is an address of a private network or of this machine."""
    ip = _embedded_address(address)
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified or _is_metadata(ip):
        return False
    if isinstance(ip, IPv6Address):
        return ip.is_private or ip.is_site_local
    return (ip.is_private and not ip.is_reserved) or ip in CARRIER_NETWORK


@dataclass(slots=True)
class PrivateFirst:
    """Allows private addresses only until a public host, which may redirect, was requested."""

    host: URL | None = None  # the one host that may have them, at its port or a default one
    allow: Callable[[URL, str], bool] = lambda _, address: is_public(address)
    _was_public: bool = field(default=False, init=False)

    def __call__(self, target: URL, address: str) -> bool:
        if self.allow(target, address):
            self._was_public = True
            return True
        host = self.host
        is_its_host = host is None or (
            target.host == host.host and target.port in (host.port, *DEFAULT_PORTS.values())
        )
        return is_its_host and not self._was_public and is_private(address)


def _embedded_address(address: str) -> Address:
    """The IPv4 address inside an IPv6 address, or else the address itself."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv4Address):
        return ip
    inner = ip.ipv4_mapped or ip.sixtofour
    if ip in NAT64_NETWORK:
        inner = IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip if inner is None else inner


def _is_metadata(ip: Address) -> bool:
    return any(ip in network for network in METADATA_NETWORKS)


def parse_address(url: str, *schemes: str) -> URL | None:
    """None for other schemes or an invalid address."""
    with suppress(ValueError):
        address = URL(url)
        if address.scheme in schemes and address.host and address.port is not None:
            return address
    return None


HTTP_SCHEMES = {"ws": "http", "wss": "https"}  # of the handshake of a web socket


def is_websocket(url: URL) -> bool:
    return url.scheme in HTTP_SCHEMES


def http_url(url: URL) -> URL:
    """The URL with http for ws, and https for wss."""
    return url.with_scheme(HTTP_SCHEMES.get(url.scheme, url.scheme))


def environment_proxy(url: URL) -> URL | None:
    """The proxy for a URL, also of a web socket.

    It is read from HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, unless NO_PROXY has the host.
    """
    scheme = http_url(url).scheme
    settings = getproxies_environment()
    value = settings.get(scheme) or settings.get("all")
    if not value or proxy_bypass(f"{url.host_subcomponent}:{url.port}", settings):
        return None
    if (proxy := parse_address(value if "://" in value else f"http://{value}", "http")) is None:
        key = f"{scheme.upper()}_PROXY"
        raise ConfigError(f"{key}: names no HTTP proxy; give one as http://host:port")
    return proxy


def proxy_login(proxy: URL) -> dict[str, str]:
    """The header with the login of the proxy; empty if its address has none."""
    if proxy.user is None:
        return {}
    credentials = b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
    return {"Proxy-Authorization": f"Basic {credentials}"}


def host_and_port(host: str, port: int) -> str:
    """As an address has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def literal_address(host: str) -> str | None:
    """The IP address that a host name stands for without a resolver, in any form it accepts."""
    name = host if host.isascii() else host.encode("idna").decode()  # which makes ① a 1
    name = name.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return "127.0.0.1"
    if ":" in name:
        return name
    try:
        return str(IPv4Address(inet_aton(name)))
    except OSError:
        return None


MAX_WAIT_S = 3600.0
MAX_EXCERPT_CHARS = 200


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds to wait, at most MAX_WAIT_S; 0 without the header."""
    value = headers.get("Retry-After", "").strip()
    try:
        if value.isdigit():
            return min(float(value), MAX_WAIT_S)
        return seconds_until(parsedate_to_datetime(value).timestamp(), headers)
    except (ValueError, OverflowError):
        return 0.0


def seconds_until(moment: float, headers: Mapping[str, str]) -> float:
    """Measured by the server's clock; at most MAX_WAIT_S."""
    try:
        now = parsedate_to_datetime(headers.get("Date", "")).timestamp()
    except (ValueError, OverflowError):
        now = time()
    return min(max(0.0, moment - now), MAX_WAIT_S)  # 0 where it is not a number


def excerpt(content: bytes | str) -> str:
    """The beginning of a foreign text on one line, without control characters."""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    return " ".join(
        "".join(c if c.isprintable() else " " for c in text[:MAX_EXCERPT_CHARS]).split()
    )
