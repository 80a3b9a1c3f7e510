"""A proxy of the web, where the environment names one for a host."""

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from socket import inet_aton
from urllib.parse import SplitResult

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
    from worker.sources.http import environment_proxy, proxy_login

    place = target.netloc if target.port else f"{target.netloc}:{PORTS[target.scheme]}"
    if (found := environment_proxy(target.scheme, place)) is None:
        return None
    return Proxy(found.host or "", found.port or 80, proxy_login(found))


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
