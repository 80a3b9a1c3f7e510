"""Requests that respect robots.txt (RFC 9309 and Crawl-delay): one at a time, with pauses."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

import aiohttp

from encoder.errors import InputError
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

MAX_ROBOTS_BYTES = 512 * 2**10  # the rest of a longer file is ignored
MAX_DELAY_S = 600.0
MAX_RULES = 10_000  # of one program; the others are ignored
SECONDS = re.compile(r"\d{1,9}(\.\d{1,6})?", re.ASCII)
ALL_PROGRAMS = "*"
SAFE_CHARACTERS = "/%:@!&'()+,;=~?"  # * and $ are operators of a rule, and encoded elsewhere


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules of a robots.txt for one program."""

    rules: tuple[tuple[str, bool], ...] = ()  # path pattern, whether it allows
    delay: float = 0.0  # seconds between two requests

    @classmethod
    def parse(cls, body: bytes, program: str) -> Self:
        """The rules for this program, or else those for all."""
        rules: dict[str, list[tuple[str, bool]]] = {ALL_PROGRAMS: []}  # by program
        delays: dict[str, float] = {}
        names = set[str]()  # of `program` and ALL_PROGRAMS, those of the current group
        has_rule = False  # whether the current group has one; the next name then opens a new group
        for key, value in _parse_lines(body[:MAX_ROBOTS_BYTES]):
            if key == "user-agent":
                if has_rule:
                    names.clear()
                has_rule = False
                if (name := value.lower()) in (program.lower(), ALL_PROGRAMS):
                    names.add(name)
                    rules.setdefault(name, [])
            elif key in ("allow", "disallow"):
                has_rule = True
                for name in names if value else ():
                    if len(rules[name]) < MAX_RULES:
                        rules[name].append((_normalise_rule(value), key == "allow"))
            elif key == "crawl-delay":
                has_rule = True
                seconds = min(float(value), MAX_DELAY_S) if SECONDS.fullmatch(value) else 0.0
                delays |= {name: max(seconds, delays.get(name, 0.0)) for name in names}
        name = program.lower() if program.lower() in rules else ALL_PROGRAMS
        return cls(tuple(rules[name]), delays.get(name, 0.0))

    def allow(self, url: str) -> bool:
        """The longest matching pattern decides. Of two of equal length, the one that allows."""
        parts = urlsplit(url)
        path = _normalise_path(parts.path or "/") + (
            f"?{_normalise_path(parts.query)}" if parts.query else ""
        )
        matching = [(len(rule), allows) for rule, allows in self.rules if _matches(rule, path)]
        return max(matching, default=(0, True))[1]


def _parse_lines(body: bytes) -> list[tuple[str, str]]:
    """Keys and values."""
    text = body.decode("utf-8-sig", "replace")
    pairs = (line.partition("#")[0].partition(":") for line in text.splitlines())
    return [(key.strip().lower(), value.strip()) for key, colon, value in pairs if colon]


def _normalise_path(path: str) -> str:
    """All spellings of a path, with or without %XX, become one."""
    return quote(unquote(path), safe=SAFE_CHARACTERS)


def _normalise_rule(rule: str) -> str:
    """An encoded * or $ is no operator, and a $ is one at the end alone."""
    parts = map(_normalise_path, rule.removesuffix("$").split("*"))
    return "*".join(parts) + ("$" if rule.endswith("$") else "")


def _matches(rule: str, path: str) -> bool:
    """* matches anything, $ at the end matches the end."""
    has_end = rule.endswith("$")
    first, *others = rule.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    position = len(first)
    last = others.pop() if has_end and others else None
    for part in others:
        position = path.find(part, position)
        if position < 0:
            return False
        position += len(part)
    if last is not None:
        return len(path) - len(last) >= position and path.endswith(last)
    return not has_end or position == len(path)


PROGRAM = "newsift"  # our name in a robots.txt
PAUSE_S = 2.0  # between two requests to one site
NO_ANSWER_PAUSE_S = 60.0
ROBOTS_LIFETIME_S = 86_400.0  # a robots.txt is read again after this time
MAX_SITES = 100
PERMANENT_STATUSES = (301, 308)
TEMPORARY_STATUSES = (408, 425, 429)


class StatusError(InputError):
    def __init__(self, message: str, status: int, wait: float = 0.0) -> None:
        """`wait`: seconds before the site may be requested again."""
        super().__init__(message)
        self.status, self.wait = status, wait


def is_temporary(error: InputError) -> bool:
    """Whether a retry may help: after network errors and statuses such as 503."""
    if isinstance(error, StatusError):
        return error.status >= 500 or error.status in TEMPORARY_STATUSES
    cause = error.__cause__ or error.__context__
    return isinstance(cause, OSError | aiohttp.ClientError | EOFError)


@dataclass(slots=True)
class SiteState:
    """The times are of the clock of PoliteWeb."""

    robots: Robots | None = None
    robots_read_at: float = 0.0
    next_request_at: float = 0.0
    closed_until: float = 0.0  # no request before, as the site does not answer or asks for a pause


@dataclass(slots=True)
class PoliteWeb:
    limits: RequestLimits
    private_host: SplitResult | None = None  # the host that may have a private address
    pause_s: float = PAUSE_S
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _sites: dict[str, SiteState] = field(default_factory=dict, init=False)

    def get(self, url: str, headers: Mapping[str, str] = PAGE_HEADERS) -> WebAnswer:
        """Raises InputError if robots.txt forbids the address or the request fails."""
        permanent_url, is_permanent, limits = url, True, self.limits
        if self._may_be_private(url):
            limits = replace(limits, allow=PrivateFirst())
        for _ in range(MAX_REDIRECTS + 1):
            self._check_robots(url, limits)
            answer = self._send(url, headers, limits)
            if not answer.location:
                return replace(answer, permanent_url=permanent_url)
            url = answer.location
            limits = limits if self._may_be_private(url) else self.limits
            is_permanent = is_permanent and answer.status in PERMANENT_STATUSES
            permanent_url = url if is_permanent else permanent_url
        raise InputError(f"{url}: redirects more than {MAX_REDIRECTS} times")

    def is_closed(self, url: str) -> bool:
        """Whether a site asked for a pause, or does not answer."""
        try:
            return self._site(url).closed_until > self.clock()
        except InputError:
            return False  # `get` raises it

    def _check_robots(self, url: str, limits: RequestLimits) -> None:
        site = self._site(url)
        if site.robots is None or self.clock() - site.robots_read_at > ROBOTS_LIFETIME_S:
            site.robots, site.robots_read_at = self._fetch_robots(url, limits), self.clock()
        if not site.robots.allow(url):
            raise InputError(f"{url}: the site's robots.txt asks programs not to read it")

    def _fetch_robots(self, url: str, limits: RequestLimits) -> Robots:
        """A site without the file has no rules. Raises StatusError if a retry may help."""
        parts = urlsplit(url)
        url = urlunsplit((parts.scheme, parts.netloc, "/robots.txt", "", ""))
        try:
            for _ in range(MAX_REDIRECTS + 1):
                answer = self._send(url, PAGE_HEADERS, limits)
                if not answer.location:
                    return Robots.parse(answer.body, PROGRAM)
                url = answer.location
                limits = limits if self._may_be_private(url) else self.limits
        except StatusError as error:
            if is_temporary(error):
                raise
        return Robots()

    def _send(self, url: str, headers: Mapping[str, str], limits: RequestLimits) -> WebAnswer:
        """Send one request after the pause that the site asks for."""
        site = self._site(url)
        if (pause := site.closed_until - self.clock()) > 0:
            raise StatusError(f"{url}: no request to this site for {pause:.0f} s", 429, pause)
        if (wait := site.next_request_at - self.clock()) > 0:
            self.sleep(wait)
        try:
            return run_with_timeout(lambda: _send_once(url, headers, limits), url, limits)
        except InputError as error:
            if is_temporary(error):
                wait = error.wait if isinstance(error, StatusError) else NO_ANSWER_PAUSE_S
                site.closed_until = self.clock() + wait
            raise
        finally:
            delay = site.robots.delay if site.robots else 0.0
            site.next_request_at = self.clock() + max(self.pause_s, delay)

    def _may_be_private(self, url: str) -> bool:
        """Whether this is the private host, at its port or a default one."""
        parts, host = parse_web_address(url), self.private_host
        if host is None or parts.hostname != host.hostname:
            return False
        return _port(parts) in (_port(host), *DEFAULT_PORTS.values())

    def _site(self, url: str) -> SiteState:
        """If there are too many, the site of the oldest request is dropped."""
        parts = parse_web_address(url)
        name = f"{parts.scheme}://{parts.netloc}"
        site = self._sites[name] = self._sites.pop(name, SiteState())
        if len(self._sites) > MAX_SITES:
            del self._sites[next(iter(self._sites))]
        return site


def _send_once(url: str, headers: Mapping[str, str], limits: RequestLimits) -> WebAnswer:
    answer = send(url, limits, headers)
    if answer.location or answer.status in (200, 304):
        return answer
    wait = retry_after(answer.headers) if answer.status in (429, 503) else 0.0
    message = f"{url}: answers {answer.status} {answer.reason}"
    raise StatusError(message, answer.status, wait)


def _port(parts: SplitResult) -> int:
    return parts.port or DEFAULT_PORTS[parts.scheme]
