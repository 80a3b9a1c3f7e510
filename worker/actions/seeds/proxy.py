"""A proxy of the web, where the environment names one for a host."""

import base64
import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from socket import inet_aton
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from encoder.errors import InputError

PORT = 80
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy, and how it is asked to let us pass."""

    host: str
    port: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def connection(
        self, target: SplitResult, secure: ssl.SSLContext | None, seconds: float
    ) -> http.client.HTTPConnection:
        """A connection to the target by this proxy; what is secure goes through a tunnel."""
        if secure is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        tunnel = http.client.HTTPSConnection(self.host, self.port, timeout=seconds, context=secure)
        tunnel.set_tunnel(target.hostname or "", target.port or 443, dict(self.headers))
        return tunnel

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def proxy_for(target: SplitResult) -> Proxy | None:
    """The proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names, unless NO_PROXY has the host."""
    known = getproxies_environment()
    named = known.get(target.scheme) or known.get("all")
    place = target.netloc if target.port else f"{target.netloc}:{PORTS[target.scheme]}"
    if not named or proxy_bypass(place):
        return None
    return _read(named, f"{target.scheme.upper()}_PROXY")


def literal(host: str) -> str | None:
    """The address that a host's name is already, in any form that a resolver would take."""
    bare = host if host.isascii() else host.encode("idna").decode()  # ① is 1 there
    bare = bare.rstrip(".").lower()
    if bare == "localhost" or bare.endswith(".localhost"):
        return "127.0.0.1"
    if ":" in bare:
        return bare
    try:
        return str(IPv4Address(inet_aton(bare)))
    except OSError:
        return None


def _read(named: str, key: str) -> Proxy:
    """The proxy in a variable of the environment; a login in it is never said."""
    try:
        parts = urlsplit(named if "://" in named else f"http://{named}")
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        host, port, parts = None, PORT, urlsplit("")
    if parts.scheme != "http" or not host:
        raise InputError(f"{key}: names no HTTP proxy; give one as http://host:port")
    if parts.username is None:
        return Proxy(host, port)
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return Proxy(host, port, {"Proxy-Authorization": f"Basic {base64.b64encode(login).decode()}"})
