"""Sites asked as they wish to be: within robots.txt, one request at a time, and with pauses."""

import http.client
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.message import Message
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from encoder.errors import InputError
from worker.actions.seeds.addresses import OwnNetwork
from worker.actions.seeds.fetch import (
    REDIRECTED,
    REQUEST,
    Bounds,
    body_of,
    opened,
    web_address,
    within,
)
from worker.actions.seeds.proxy import PORTS
from worker.sources.robots import Robots

PROGRAM = "newsift"  # as robots.txt names us
PAUSE = 2.0  # seconds between two requests to one site
NO_ANSWER_S = 60.0  # that a site is left alone which does not answer
ROBOTS_S = 86_400.0  # that a robots.txt is believed
MOST_SITES = 100
FOR_GOOD = (301, 308)
FOR_NOW = (408, 425, 429)


class StatusError(InputError):
    """A site answers with a status instead, and may say how many seconds to stay away."""

    def __init__(self, said: str, status: int, wait: float = 0.0) -> None:
        super().__init__(said)
        self.status, self.wait = status, wait


def for_now(error: InputError) -> bool:
    """Whether what failed may go well later: the network, or a site that is out of order."""
    if isinstance(error, StatusError):
        return error.status >= 500 or error.status in FOR_NOW
    why = error.__cause__ or error.__context__
    return isinstance(why, OSError | http.client.HTTPException | EOFError)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a site has answered: a status, the headers, and the body that came with 200."""

    url: str
    status: int
    headers: Message
    body: bytes = b""
    moved: str = ""  # the address that stands for the first one from now on

    @property
    def there(self) -> str | None:
        """Where a redirect leads."""
        return self.headers["Location"] if self.status in REDIRECTED else None


@dataclass(slots=True)
class Visited:
    """What is known of one site."""

    robots: Robots | None = None
    read: float = 0.0  # when its robots.txt was
    free: float = 0.0  # when it may be asked again
    closed: float = 0.0  # until when it is left alone


@dataclass(slots=True)
class PoliteWeb:
    """The web for a program that comes again and again."""

    bounds: Bounds
    inside: SplitResult | None = None  # whose host may stand in the own network
    pause: float = PAUSE
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _sites: dict[str, Visited] = field(default_factory=dict, init=False)

    def get(self, url: str, asked: Mapping[str, str] = REQUEST) -> Answer:
        """What stands at an address; refused with a reason where it may not or cannot be read."""
        moved, for_good, bounds = url, True, self._bounds(url)
        for _ in range(bounds.redirects + 1):
            self._allowed(url, bounds)
            answer = self._one(url, asked, bounds)
            if not answer.there:
                return replace(answer, moved=moved)
            url = _next(url, answer.there)
            bounds = self._after(bounds, url)
            for_good = for_good and answer.status in FOR_GOOD
            moved = url if for_good else moved
        raise InputError(f"{url}: redirects more than {self.bounds.redirects} times")

    def closed(self, url: str) -> bool:
        """Whether a site is left alone for a while: it asks for that, or does not answer."""
        try:
            return self._site(url).closed > self.clock()
        except InputError:
            return False  # whoever asks is told why

    def _allowed(self, url: str, bounds: Bounds) -> None:
        """Refuse an address that its site does not want to be read by programs."""
        site = self._site(url)
        if site.robots is None or self.clock() - site.read > ROBOTS_S:
            site.robots, site.read = self._robots(url, bounds), self.clock()
        if not site.robots.allow(url):
            raise InputError(f"{url}: the site's robots.txt asks programs not to read it")

    def _robots(self, url: str, bounds: Bounds) -> Robots:
        """The rules of a site; it has none without such a file, and all wait for one that fails."""
        parts = urlsplit(url)
        url = urlunsplit((parts.scheme, parts.netloc, "/robots.txt", "", ""))
        try:
            for _ in range(bounds.redirects + 1):
                answer = self._one(url, REQUEST, bounds)
                if not answer.there:
                    return Robots.read(answer.body, PROGRAM)
                url = _next(url, answer.there)
                bounds = self._after(bounds, url)
        except StatusError as error:
            if for_now(error):
                raise
        return Robots()

    def _one(self, url: str, asked: Mapping[str, str], bounds: Bounds) -> Answer:
        """One answer, when the site's turn has come."""
        site = self._site(url)
        if (closed := site.closed - self.clock()) > 0:
            raise StatusError(f"{url}: the site is left alone for {closed:.0f} s", 429, closed)
        if (wait := site.free - self.clock()) > 0:
            self.sleep(wait)
        try:
            return within(bounds.seconds, lambda: _answer(url, asked, bounds), url)
        except InputError as error:
            if for_now(error):  # the others of this site need not wait as long as this one
                wait = error.wait if isinstance(error, StatusError) else NO_ANSWER_S
                site.closed = self.clock() + wait
            raise
        finally:
            delay = site.robots.delay if site.robots else 0.0
            site.free = self.clock() + max(self.pause, delay)

    def _bounds(self, url: str) -> Bounds:
        """Where an address and its redirects may lead."""
        return replace(self.bounds, allow=OwnNetwork()) if self._is_inside(url) else self.bounds

    def _after(self, bounds: Bounds, url: str) -> Bounds:
        """The same after a redirect: from outside none leads in again."""
        return bounds if self._is_inside(url) else self.bounds

    def _is_inside(self, url: str) -> bool:
        """Whether this is the host that may stand inside, at its port or a page's usual ones."""
        parts, home = web_address(url), self.inside
        if home is None or parts.hostname != home.hostname:
            return False
        return _port(parts) in (_port(home), *PORTS.values())

    def _site(self, url: str) -> Visited:
        """What is known of an address's site; of far too many the one asked longest ago goes."""
        parts = web_address(url)
        name = f"{parts.scheme}://{parts.netloc}"
        site = self._sites[name] = self._sites.pop(name, Visited())
        if len(self._sites) > MOST_SITES:
            del self._sites[next(iter(self._sites))]
        return site


def _answer(url: str, asked: Mapping[str, str], bounds: Bounds) -> Answer:
    from worker.sources.http import retry_after

    with opened(url, bounds, asked) as answer:
        found = Answer(url, answer.status, answer.headers)
        if found.there or answer.status == 304:
            return found
        if answer.status == 200:
            return replace(found, body=body_of(url, answer, bounds.size))
        told = {"Retry-After": answer.headers["Retry-After"] or ""}
        wait = retry_after(told) if answer.status in (429, 503) else 0.0
        said = f"{url}: answers {answer.status} {answer.reason[:80]}"
        raise StatusError(said, answer.status, wait)


def _port(parts: SplitResult) -> int:
    return parts.port or PORTS[parts.scheme]


def _next(url: str, there: str) -> str:
    """The address that a redirect names."""
    try:
        return urljoin(url, there)
    except ValueError as error:
        raise InputError(f"{url}: redirects to what is no address of the web") from error
