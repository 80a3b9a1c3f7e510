"""Requests that respect robots.txt (RFC 9309, and Crawl-delay): one at a time, with pauses."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

import aiohttp

from encoder.errors import InputError
from newsift.web.addresses import PORTS, OwnNetwork, retry_after
from newsift.web.client import REQUEST, Bounds, WebAnswer, send, web_address, within

MAX_ROBOTS_BYTES = 512 * 2**10  # bytes; what comes after them does not count
MAX_DELAY_S = 600.0
MAX_RULES = 10_000  # of one program; the others do not count
SECONDS = re.compile(r"\d{1,9}(\.\d{1,6})?", re.ASCII)
EVERYONE = "*"
SAFE_CHARACTERS = "/%:@!$&'()*+,;=~?"


@dataclass(frozen=True, slots=True)
class Robots:
    rules: tuple[tuple[str, bool], ...] = ()  # path pattern, whether it allows
    delay: float = 0.0  # seconds between two requests

    @classmethod
    def read(cls, body: bytes, program: str) -> Self:
        """The rules for this program, or else those for all."""
        rules: dict[str, list[tuple[str, bool]]] = {EVERYONE: []}  # by program
        delays: dict[str, float] = {}
        names: list[str] = []  # the programs that the lines are for
        has_rule = False  # whether they have a rule, so that the next name opens a new group
        for key, value in _lines(body[:MAX_ROBOTS_BYTES]):
            if key == "user-agent":
                names = [] if has_rule else names
                has_rule = False
                names.append(value.lower())
                rules.setdefault(value.lower(), [])
            elif key in ("allow", "disallow"):
                has_rule = True
                for own in (rules[name] for name in names if value):
                    if len(own) < MAX_RULES:
                        own.append((_normalise_path(value), key == "allow"))
            elif key == "crawl-delay":
                has_rule = True
                seconds = min(float(value), MAX_DELAY_S) if SECONDS.fullmatch(value) else 0.0
                delays |= {name: max(seconds, delays.get(name, 0.0)) for name in names}
        name = program.lower() if program.lower() in rules else EVERYONE
        return cls(tuple(rules[name]), delays.get(name, 0.0))

    def allow(self, url: str) -> bool:
        """The longest matching pattern decides; of equals, the one that allows."""
        parts = urlsplit(url)
        path = _normalise_path(parts.path or "/") + (
            f"?{_normalise_path(parts.query)}" if parts.query else ""
        )
        fits = [(len(rule), allows) for rule, allows in self.rules if _matches(rule, path)]
        return max(fits, default=(0, True))[1]


def _lines(body: bytes) -> list[tuple[str, str]]:
    text = body.decode("utf-8-sig", "replace")
    pairs = (line.partition("#")[0].partition(":") for line in text.splitlines())
    return [(key.strip().lower(), value.strip()) for key, colon, value in pairs if colon]


def _normalise_path(path: str) -> str:
    """A path in one spelling, whichever of its characters are written as %XX."""
    return quote(unquote(path), safe=SAFE_CHARACTERS)


def _matches(rule: str, path: str) -> bool:
    """* matches anything, $ at the end matches the end."""
    ends = rule.endswith("$")
    first, *others = rule.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    last = others.pop() if ends and others else None
    for part in others:
        at = path.find(part, at)
        if at < 0:
            return False
        at += len(part)
    if last is not None:
        return len(path) - len(last) >= at and path.endswith(last)
    return not ends or at == len(path)


PROGRAM = "newsift"  # as robots.txt names us
PAUSE = 2.0  # seconds between two requests to one site
NO_ANSWER_S = 60.0  # that a site is left alone which does not answer
ROBOTS_S = 86_400.0  # that a robots.txt is believed
MAX_SITES = 100
PERMANENT = (301, 308)
TEMPORARY = (408, 425, 429)


class StatusError(InputError):
    """A status other than 200, and the seconds to stay away."""

    def __init__(self, message: str, status: int, wait: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.wait = status, wait


def is_temporary(error: InputError) -> bool:
    """Whether a retry may help: network errors, and sites that are out of order."""
    if isinstance(error, StatusError):
        return error.status >= 500 or error.status in TEMPORARY
    why = error.__cause__ or error.__context__
    return isinstance(why, OSError | aiohttp.ClientError | EOFError)


@dataclass(slots=True)
class SiteState:
    robots: Robots | None = None
    read: float = 0.0  # when its robots.txt was
    free: float = 0.0  # when it may be asked again
    closed: float = 0.0  # until when it is left alone


@dataclass(slots=True)
class PoliteWeb:
    bounds: Bounds
    inside: SplitResult | None = None  # whose host may stand in the own network
    pause: float = PAUSE
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _sites: dict[str, SiteState] = field(default_factory=dict, init=False)

    def get(self, url: str, headers: Mapping[str, str] = REQUEST) -> WebAnswer:
        """Raises InputError for what may not or cannot be read."""
        permanent_url, is_permanent, bounds = url, True, self.bounds
        if self._is_inside(url):
            bounds = replace(bounds, allow=OwnNetwork())
        for _ in range(bounds.redirects + 1):
            self._allowed(url, bounds)
            answer = self._one(url, headers, bounds)
            if not answer.location:
                return replace(answer, permanent_url=permanent_url)
            url = answer.location
            bounds = self._after(bounds, url)
            is_permanent = is_permanent and answer.status in PERMANENT
            permanent_url = url if is_permanent else permanent_url
        raise InputError(f"{url}: redirects more than {self.bounds.redirects} times")

    def closed(self, url: str) -> bool:
        """Whether a site asked to be left alone for a while, or does not answer."""
        try:
            return self._site(url).closed > self.clock()
        except InputError:
            return False  # whoever asks is told why

    def _allowed(self, url: str, bounds: Bounds) -> None:
        """Raises InputError if robots.txt disallows the address."""
        site = self._site(url)
        if site.robots is None or self.clock() - site.read > ROBOTS_S:
            site.robots, site.read = self._robots(url, bounds), self.clock()
        if not site.robots.allow(url):
            raise InputError(f"{url}: the site's robots.txt asks programs not to read it")

    def _robots(self, url: str, bounds: Bounds) -> Robots:
        """A site without the file has no rules; if it cannot be read, the site waits."""
        parts = urlsplit(url)
        url = urlunsplit((parts.scheme, parts.netloc, "/robots.txt", "", ""))
        try:
            for _ in range(bounds.redirects + 1):
                answer = self._one(url, REQUEST, bounds)
                if not answer.location:
                    return Robots.read(answer.body, PROGRAM)
                url = answer.location
                bounds = self._after(bounds, url)
        except StatusError as error:
            if is_temporary(error):
                raise
        return Robots()

    def _one(self, url: str, headers: Mapping[str, str], bounds: Bounds) -> WebAnswer:
        """Waits for the site's turn."""
        site = self._site(url)
        if (pause := site.closed - self.clock()) > 0:
            raise StatusError(f"{url}: the site is left alone for {pause:.0f} s", 429, pause)
        if (wait := site.free - self.clock()) > 0:
            self.sleep(wait)
        try:
            return within(bounds, lambda: _answer(url, headers, bounds), url)
        except InputError as error:
            if is_temporary(error):  # the others of this site need not wait as long as this one
                wait = error.wait if isinstance(error, StatusError) else NO_ANSWER_S
                site.closed = self.clock() + wait
            raise
        finally:
            delay = site.robots.delay if site.robots else 0.0
            site.free = self.clock() + max(self.pause, delay)

    def _after(self, bounds: Bounds, url: str) -> Bounds:
        """Where a redirect may lead."""
        return bounds if self._is_inside(url) else self.bounds

    def _is_inside(self, url: str) -> bool:
        """Whether this host may be in the private network, at its port or the usual ones."""
        parts, home = web_address(url), self.inside
        if home is None or parts.hostname != home.hostname:
            return False
        return _port(parts) in (_port(home), *PORTS.values())

    def _site(self, url: str) -> SiteState:
        """The least recently requested of too many sites is dropped."""
        parts = web_address(url)
        name = f"{parts.scheme}://{parts.netloc}"
        site = self._sites[name] = self._sites.pop(name, SiteState())
        if len(self._sites) > MAX_SITES:
            del self._sites[next(iter(self._sites))]
        return site


def _answer(url: str, headers: Mapping[str, str], bounds: Bounds) -> WebAnswer:
    answer = send(url, bounds, headers)
    if answer.location or answer.status in (200, 304):
        return answer
    wait = retry_after(answer.headers) if answer.status in (429, 503) else 0.0
    message = f"{url}: answers {answer.status} {answer.reason}"
    raise StatusError(message, answer.status, wait)


def _port(parts: SplitResult) -> int:
    return parts.port or PORTS[parts.scheme]
