"""Requests that respect robots.txt (RFC 9309 and Crawl-delay): one at a time, with pauses."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

import aiohttp
import msgspec

from encoder.errors import InputError
from newsift.files.subprocesses import run_in_subprocess
from newsift.web.addresses import DEFAULT_PORTS, PrivateFirst, retry_after
from newsift.web.client import (
    MAX_REDIRECTS,
    PAGE_HEADERS,
    RequestLimits,
    WebAnswer,
    parse_web_address,
    run_with_timeout,
    send,
)

PROGRAM = "newsift"  # our name in a robots.txt
MAX_ROBOTS_BYTES, ROBOTS_LIFETIME_S, MAX_DELAY_S = 2**19, 86_400.0, 600.0
PAUSE_S = 2.0  # between two requests to one site
MAX_SITES = 100


class StatusError(InputError):
    def __init__(self, message: str, status: int, wait: float = 0.0) -> None:
        """`wait`: seconds before the site may be requested again."""
        super().__init__(message)
        self.status, self.wait = status, wait


def is_temporary(error: InputError) -> bool:
    """Whether a retry may help: after network errors and statuses such as 503."""
    if isinstance(error, StatusError):
        return error.status >= 500 or error.status in (408, 425, 429)
    cause = error.__cause__ or error.__context__
    return isinstance(cause, OSError | aiohttp.ClientError | EOFError)


class RobotsRule(NamedTuple):
    allows: bool
    delay: float  # seconds between two requests


def read_robots(body: bytes, url: str) -> RobotsRule:
    """What a robots.txt says of an address."""
    from protego import Protego

    rules = Protego.parse(body.decode("utf-8-sig", "replace"))
    delay = rules.crawl_delay(PROGRAM) or 0.0
    return RobotsRule(rules.can_fetch(url, PROGRAM), min(delay, MAX_DELAY_S) if delay > 0 else 0.0)


@dataclass(slots=True)
class SiteState:
    """The times are of the clock of PoliteWeb."""

    robots: bytes | None = None
    robots_read_at: float = 0.0
    delay: float = 0.0
    next_request_at: float = 0.0


@dataclass(slots=True)
class PoliteWeb:
    """Obeys robots.txt (RFC 9309 and Crawl-delay): one request at a time, with pauses."""

    limits: RequestLimits
    private_host: SplitResult | None = None  # the host that may have a private address
    pause_s: float = PAUSE_S
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _sites: dict[str, SiteState] = field(default_factory=dict, init=False)

    def get(self, url: str, headers: Mapping[str, str] = PAGE_HEADERS) -> WebAnswer:
        """Raises InputError if robots.txt forbids the address or the request fails."""
        private = replace(self.limits, allow=PrivateFirst())
        return self._follow(url, headers, private if self._may_be_private(url) else self.limits)

    def _follow(
        self, url: str, headers: Mapping[str, str], limits: RequestLimits, is_robots: bool = False
    ) -> WebAnswer:
        for _ in range(MAX_REDIRECTS + 1):
            if not is_robots:
                self._check_robots(url, limits)
            answer = self._send(url, headers, limits)
            if not answer.location:
                return answer
            url = answer.location
            limits = limits if self._may_be_private(url) else self.limits
        raise StatusError(f"{url}: redirects more than {MAX_REDIRECTS} times", answer.status)

    def _check_robots(self, url: str, limits: RequestLimits) -> None:
        site, parts = self._site(url), urlsplit(url)
        if site.robots is None or self.clock() - site.robots_read_at > ROBOTS_LIFETIME_S:
            address = urlunsplit((parts.scheme, parts.netloc, "/robots.txt", "", ""))
            try:
                answer = self._follow(address, PAGE_HEADERS, limits, is_robots=True)
                site.robots = answer.body[:MAX_ROBOTS_BYTES]
            except StatusError as error:
                if is_temporary(error):
                    raise
                site.robots = b""  # a site without the file has no rules
            site.robots_read_at = self.clock()
        if site.robots:
            content = run_in_subprocess(read_robots, site.robots, url)
            allows, site.delay = msgspec.json.decode(content, type=RobotsRule)
            if not allows:
                raise InputError(f"{url}: the site's robots.txt asks programs not to read it")

    def _send(self, url: str, headers: Mapping[str, str], limits: RequestLimits) -> WebAnswer:
        """Send one request after the pause that the site asks for."""
        site, pause = self._site(url), 0.0
        if (wait := site.next_request_at - self.clock()) > 0:
            self.sleep(wait)
        try:
            answer = run_with_timeout(lambda: send(url, limits, headers), url, limits)
            if answer.location or answer.status in (200, 304):
                return answer
            pause = retry_after(answer.headers) if answer.status in (429, 503) else 0.0
            message = f"{url}: answers {answer.status} {answer.reason}"
            raise StatusError(message, answer.status, pause)
        finally:
            site.next_request_at = self.clock() + max(self.pause_s, site.delay, pause)

    def _may_be_private(self, url: str) -> bool:
        """Whether this is the private host, at its port or a default one."""
        parts, host = parse_web_address(url), self.private_host
        if host is None or parts.hostname != host.hostname:
            return False
        ports = [each.port or DEFAULT_PORTS[each.scheme] for each in (parts, host)]
        return ports[0] in (ports[1], *DEFAULT_PORTS.values())

    def _site(self, url: str) -> SiteState:
        """If there are too many, the site of the oldest request is dropped."""
        parts = parse_web_address(url)
        name = f"{parts.scheme}://{parts.netloc}"
        site = self._sites[name] = self._sites.pop(name, SiteState())
        if len(self._sites) > MAX_SITES:
            del self._sites[next(iter(self._sites))]
        return site
