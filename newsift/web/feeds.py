"""Feeds of articles, RSS or Atom, and requests that respect robots.txt (RFC 9309, Crawl-delay)."""

import calendar
import hashlib
import io
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from html import unescape
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import aiohttp
import msgspec
from yarl import URL

from encoder.errors import InputError
from newsift.files.subprocesses import run_in_subprocess
from newsift.web.addresses import PrivateFirst, retry_after
from newsift.web.client import (
    PAGE_HEADERS,
    RequestLimits,
    StatusError,
    WebAnswer,
    follow_redirects,
    parse_web_address,
    run_with_timeout,
    send,
)
from worker.seeds.record import MAX_TITLE_CHARS, MAX_URL_CHARS
from worker.text import one_line

FEED_TYPES = ("application/rss+xml", "application/atom+xml")
CHARACTER_REFERENCE = re.compile(rb"&#(x[0-9a-f]{1,64}|[0-9]{1,64});?", re.IGNORECASE)
MAX_INTERVAL_S = 86_400.0
MAX_ENTRIES, MAX_NAMED_FEEDS = 1000, 5


class Entry(NamedTuple):
    link: str
    title: str
    published_at: int | None  # milliseconds
    digest: str  # changes when the feed corrects the entry


class NewsFeed(NamedTuple):
    entries: list[Entry]  # newest first
    interval: float = 0.0  # seconds between two requests that the feed asks for
    without_link: int = 0


def read_feed(body: bytes, url: str, content_type: str) -> NewsFeed:
    """Raises InputError for a page that is not a feed."""
    import feedparser

    # A stream, as bytes may name a file. feedparser fails for references to no character.
    content = io.BytesIO(CHARACTER_REFERENCE.sub(_valid_reference, body))
    headers = {"content-type": content_type, "content-location": url}
    try:
        page = feedparser.parse(
            content, response_headers=headers, resolve_relative_uris=False, sanitize_html=False
        )
    except Exception as error:  # feedparser catches only some of its parsers' errors
        raise InputError(f"{url}: cannot be read as a feed ({type(error).__name__})") from error
    if not (page.get("version") or page.entries):
        links = (link for link in dict.get(page.feed, "links") or [] if link.get("href"))
        feeds = [urljoin(url, link["href"]) for link in links if link.get("type") in FEED_TYPES]
        names = ", ".join(one_line(name[:MAX_URL_CHARS]) for name in feeds[:MAX_NAMED_FEEDS])
        remedy = f", but the page names these: {names}" if feeds else " (RSS or Atom)"
        raise InputError(f"{url}: is not a feed{remedy}")
    entries = [_entry(item, url) for item in page.entries]
    usable = [entry for entry in entries if 0 < len(entry.link.encode()) <= MAX_URL_CHARS]
    newest = sorted(usable, key=lambda entry: -(entry.published_at or 0))[:MAX_ENTRIES]
    ttl = re.fullmatch(r"\d{1,6}", _text(page.feed, "ttl").strip(), re.ASCII)
    interval = min(60.0 * int(ttl[0]), MAX_INTERVAL_S) if ttl else 0.0
    return NewsFeed(newest, interval, len(entries) - len(usable))


def _valid_reference(reference: re.Match[bytes]) -> bytes:
    return b"&#65533;" if unescape(reference[0].decode()) == "\ufffd" else reference[0]


def _entry(item: dict[str, Any], url: str) -> Entry:
    texts = [_text(item, key) for key in ("title", "summary", "updated", "published")]
    digest = hashlib.sha256("\n".join(texts).encode("utf-8", "replace")).hexdigest()[:12]
    # The article's original address, not one that counts clicks.
    text = (_text(item, "feedburner_origlink") or _text(item, "link")).strip()
    try:
        link = urljoin(url, text) if text else ""
    except ValueError:
        link = ""
    title = one_line(texts[0][:MAX_TITLE_CHARS])
    return Entry(link if link.isprintable() else "", title, _published_at(item), digest)


def _published_at(item: dict[str, Any]) -> int | None:
    keys = ("published_parsed", "created_parsed", "updated_parsed")
    times: list[Any] = [parsed for key in keys if (parsed := dict.get(item, key)) is not None]
    try:
        return calendar.timegm(times[0]) * 1000 if times else None
    except (ValueError, OverflowError):
        return None


def _text(item: dict[str, Any], key: str) -> str:
    value = dict.get(item, key)  # feedparser's `get` returns the value of a similar key
    return value if isinstance(value, str) else ""


PROGRAM = "newsift"  # our name in a robots.txt
MAX_ROBOTS_BYTES, ROBOTS_LIFETIME_S, MAX_DELAY_S = 2**19, 86_400.0, 600.0
PAUSE_S = 2.0  # between two requests to one site
MAX_SITES = 100


class RobotsRule(NamedTuple):
    allows: bool
    delay: float  # seconds between two requests


def read_robots(body: bytes, url: str) -> RobotsRule:
    """What a robots.txt says of an address."""
    from protego import Protego

    rules = Protego.parse(body.decode("utf-8-sig", "replace"))
    delay = rules.crawl_delay(PROGRAM) or 0.0
    return RobotsRule(rules.can_fetch(url, PROGRAM), min(delay, MAX_DELAY_S) if delay > 0 else 0.0)


def is_temporary(error: InputError) -> bool:
    """Whether a retry may help: after network errors and statuses such as 503."""
    if isinstance(error, StatusError):
        return error.status >= 500 or error.status in (408, 425, 429)
    cause = error.__cause__ or error.__context__
    return isinstance(cause, OSError | aiohttp.ClientError | EOFError)


@dataclass(slots=True)
class SiteState:
    """The times are of the clock of PoliteWeb."""

    robots: bytes = b""
    robots_expire_at: float = 0.0
    delay: float = 0.0
    next_request_at: float = 0.0


@dataclass(slots=True)
class PoliteWeb:
    """Sends one request at a time, with pauses, and obeys robots.txt."""

    limits: RequestLimits
    private_host: URL | None = None  # the host that may have a private address
    pause_s: float = PAUSE_S
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _sites: dict[str, SiteState] = field(default_factory=dict, init=False)

    def get(self, url: str, headers: Mapping[str, str] = PAGE_HEADERS) -> WebAnswer:
        """Raises InputError if robots.txt forbids the address or the request fails."""
        limits = self.limits
        if self.private_host is not None:
            limits = replace(limits, allow=PrivateFirst(self.private_host, limits.allow))

        def request(target: str) -> WebAnswer:
            self._check_robots(target, limits)
            return self._send(target, headers, limits)

        return follow_redirects(url, request)

    def _check_robots(self, url: str, limits: RequestLimits) -> None:
        site = self._site(url)
        if self.clock() >= site.robots_expire_at:
            file = urljoin(url, "/robots.txt")
            try:
                answer = follow_redirects(file, lambda to: self._send(to, PAGE_HEADERS, limits))
                site.robots = answer.body[:MAX_ROBOTS_BYTES]
            except StatusError as error:
                if is_temporary(error):
                    raise
                site.robots = b""  # a site without the file has no rules
            site.robots_expire_at = self.clock() + ROBOTS_LIFETIME_S
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

    def _site(self, url: str) -> SiteState:
        """If there are too many, the site of the oldest request is dropped."""
        parse_web_address(url)
        name = urlsplit(url)._replace(path="", query="", fragment="").geturl()
        site = self._sites[name] = self._sites.pop(name, SiteState())
        if len(self._sites) > MAX_SITES:
            del self._sites[next(iter(self._sites))]
        return site
