"""Feeds of articles, RSS or Atom: their entries, and which articles are to be read."""

import calendar
import hashlib
import io
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

import msgspec

from encoder.errors import InputError
from worker.seeds.record import MAX_TITLE_CHARS, MAX_URL_CHARS
from worker.text import one_line

# What campaigns, social networks and publishers append to see where a reader comes from.
TRACKING = re.compile(
    r"(utm|mtm|at|hsa)_\w+|ns_(campaign|mchannel|source|linkname|fee)|mc_[ce]id|[gw]braid"
    r"|pk_(campaign|keyword|kwd|source|medium|content)|(fb|g|d|ms|y|tw|tt)clid|igsh(id)?"
    r"|cmp(id)?|xtor|ref_(src|url)|ftag|smid|ito|s_cid|wprov|__twitter_impression",
    re.IGNORECASE,
)
PORTS = {"http": 80, "https": 443}


def clean_link(link: str) -> str:
    """The link without its fragment and tracking parameters."""
    link = link.strip()
    try:
        parts = urlsplit(link)
    except ValueError:
        return link
    parameters = [
        each for each in parts.query.split("&") if not TRACKING.fullmatch(each.split("=")[0])
    ]
    return urlunsplit(parts._replace(query="&".join(parameters), fragment=""))


def link_identity(link: str) -> str:
    """The same for all spellings of one address."""
    link = clean_link(link)
    try:
        parts = urlsplit(link)
        port = "" if parts.port in (None, PORTS.get(parts.scheme)) else f":{parts.port}"
    except ValueError:
        return link
    if parts.scheme not in PORTS:
        return link
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.hostname}{port}{parts.path or '/'}{query}"


DAY = 86_400.0
PERIODS = {"hourly": 3600.0, "daily": DAY, "weekly": 7 * DAY, "monthly": 30 * DAY}
MAX_ENTRIES = 1000  # the newest; who follows a feed has seen the others
MAX_NAMED = 5
FEED_TYPES = ("application/rss+xml", "application/atom+xml")
REFERENCE = re.compile(rb"&#(x[0-9a-f]{1,64}|[0-9]{1,64});?", re.IGNORECASE)
COUNT = re.compile(r"\d{1,6}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Entry:
    link: str
    title: str
    published: int | None  # milliseconds
    mark: str  # another one once the feed says something else of it


@dataclass(frozen=True, slots=True)
class NewsFeed:
    """The entries of a feed, newest first, and the interval that it asks for."""

    entries: tuple[Entry, ...]
    interval: float = 0.0  # seconds
    without_link: int = 0


def read_feed(body: bytes, url: str, kind: str) -> NewsFeed:
    """`kind` is the content type of the answer."""
    parsed = _parsed(REFERENCE.sub(_character, body), url, kind)
    if not (parsed.get("version") or parsed.entries):
        raise InputError(f"{url}: {_remedy(parsed.feed, url)}")
    entries = [_entry(item, url) for item in parsed.entries]
    usable = [entry for entry in entries if 0 < len(entry.link.encode()) <= MAX_URL_CHARS]
    newest = sorted(usable, key=lambda entry: -(entry.published or 0))[:MAX_ENTRIES]
    return NewsFeed(tuple(newest), _interval(parsed.feed), len(entries) - len(usable))


def _parsed(body: bytes, url: str, kind: str) -> Any:
    import feedparser

    try:
        # Bytes that are given as they are would be tried as the name of a file.
        return feedparser.parse(
            io.BytesIO(body), response_headers={"content-type": kind, "content-location": url},
            resolve_relative_uris=False, sanitize_html=False,
        )  # fmt: skip
    except Exception as error:  # it knows of many faults, and not of all
        raise InputError(f"{url}: cannot be read as a feed ({type(error).__name__})") from error


def _character(reference: re.Match[bytes]) -> bytes:
    """An invalid character reference becomes the replacement character."""
    digits = reference[1].lower()
    number = int(digits[1:], 16) if digits.startswith(b"x") else int(digits)
    is_character = 0 < number < 0xD800 or 0xDFFF < number <= sys.maxunicode
    return reference[0] if is_character else b"&#65533;"


def _entry(item: dict[str, Any], url: str) -> Entry:
    texts = [_text(item, key) for key in ("title", "summary", "updated", "published")]
    written = "\n".join(texts).encode("utf-8", "replace")
    return Entry(
        _link(item, url),
        one_line(texts[0][:MAX_TITLE_CHARS]),
        _published(item),
        hashlib.sha256(written).hexdigest()[:12],
    )


def _link(item: dict[str, Any], url: str) -> str:
    """The article's own address, not one that counts clicks; "" if there is none."""
    named = _text(item, "feedburner_origlink") or _text(item, "link")
    try:
        link = urljoin(url, named.strip()) if named.strip() else ""
    except ValueError:
        return ""
    return link if link.isprintable() else ""


def _published(item: dict[str, Any]) -> int | None:
    for key in ("published_parsed", "created_parsed", "updated_parsed"):
        if (moment := _value(item, key)) is not None:
            try:
                return calendar.timegm(moment) * 1000
            except (ValueError, OverflowError):
                continue
    return None


def _interval(about: dict[str, Any]) -> float:
    """Seconds between two requests, by `ttl` or the syndication module."""
    ttl = 60.0 * (_number(about, "ttl") or 0)
    period = PERIODS.get(_text(about, "sy_updateperiod").strip().lower(), 0.0)
    times = _number(about, "sy_updatefrequency") or 1
    return min(max(ttl, period / times), DAY)


def _number(about: dict[str, Any], key: str) -> int | None:
    match = COUNT.fullmatch(_text(about, key).strip())
    return int(match[0]) if match else None


def _text(item: dict[str, Any], key: str) -> str:
    value = _value(item, key)
    return value if isinstance(value, str) else ""


def _value(item: dict[str, Any], key: str) -> Any:
    # Its own get would answer with another key's value where this one is missing, and warn of it.
    return dict.get(item, key)


def _remedy(page: dict[str, Any], url: str) -> str:
    """A page that is no feed often links to its feeds."""
    named = [
        urljoin(url, link["href"]) for link in _value(page, "links") or []
        if link.get("type") in FEED_TYPES and link.get("href")
    ]  # fmt: skip
    if not named:
        return "is no feed (RSS or Atom); look on the site for the address of one"
    feeds = ", ".join(one_line(link[:MAX_URL_CHARS]) for link in dict.fromkeys(named[:MAX_NAMED]))
    return f"is no feed, but the page names these: {feeds}"


HOUR = 3_600_000  # milliseconds
RETRY = HOUR // 4
MAX_ATTEMPTS = 6  # of what fails for now: over some 16 hours
LOOK_AGAIN = 6 * HOUR
MAX_ARTICLES = 10_000


class FollowedArticle(msgspec.Struct):
    link: str
    title: str
    published: int  # milliseconds, as all times here
    mark: str  # the entry's, as it was when the article was read, or is to be
    seen: int  # when the feed was found to name it
    read: int | None = None
    news: bool = False  # the entry says something else since
    again: int = 0  # how often it was read after that
    failing: bool = False  # for now, as far as one can see
    refusal: str | None = None  # as it was told
    seed: str | None = None  # that was made of it
    version: str | None = None
    left: bool = False  # alone: its seed is somebody else's, or was removed or rewritten

    def due(self, now: int) -> bool:
        """Whether it is to be read; intervals grow, even if it changes each time."""
        if self.left:
            return False
        if self.read is None:
            return True
        if self.failing and self.again < MAX_ATTEMPTS:
            return now >= self.read + (RETRY << self.again)
        if self.news:
            return now >= self.read + HOUR * self.again
        return self.seed is not None and now >= self.read + LOOK_AGAIN * (self.again + 1)

    def tried(self, now: int, *, failing: bool = False) -> None:
        """Note an attempt to read it."""
        self.again += self.read is not None
        self.read, self.news, self.failing = now, False, failing

    def leave(self) -> None:
        """Do not read it again; its seed is left alone."""
        self.seed, self.left = None, True


class Followed(msgspec.Struct):
    """A followed feed: its address, its last state, and its articles."""

    feed: str  # the address that was given
    address: str  # where it stands
    etag: str | None = None
    modified: str | None = None
    interval: float = 0.0  # seconds that the feed asks for between two looks
    failures: int = 0  # in a row
    wait_until: int = 0
    seen: int = 0  # when its entries were last read
    articles: dict[str, FollowedArticle] = msgspec.field(default_factory=dict)

    def note(self, entries: Iterable[Entry], now: int, keep: int) -> int:
        """Add the entries of a feed. Returns how many articles are new and recent enough."""
        self.seen, fresh = now, 0
        named = set[str]()
        for entry in entries:
            name = link_identity(entry.link)
            if name in named:
                continue
            named.add(name)
            if (article := self.articles.get(name)) is not None:
                article.seen = now
                if article.mark != entry.mark:
                    article.mark, article.news = entry.mark, True
            elif (published := min(entry.published or now, now)) + keep > now:
                fresh += 1
                link = clean_link(entry.link)
                self.articles[name] = FollowedArticle(link, entry.title, published, entry.mark, now)
        self._forget(now - keep)
        return fresh

    def due(self, now: int, keep: int, most: int) -> list[FollowedArticle]:
        """The articles to read now, new ones first."""
        candidates = [
            article for article in self.articles.values()
            if article.seen == self.seen and article.published + keep > now and article.due(now)
        ]  # fmt: skip
        return sorted(candidates, key=lambda article: (article.read or 0, -article.published))[
            :most
        ]

    def ended(self, before: int, keep: int) -> list[FollowedArticle]:
        """The articles whose seeds should have expired by then."""
        return [
            article for article in self.articles.values()
            if article.seed is not None and article.published + keep <= before
        ]  # fmt: skip

    def _forget(self, before: int) -> None:
        """Delete articles without a seed that are no longer listed, and the oldest of too many."""
        remaining = [
            (name, article) for name, article in self.articles.items()
            if article.seen >= before or article.seed is not None
        ]  # fmt: skip
        if len(remaining) > MAX_ARTICLES:
            remaining.sort(key=lambda item: (item[1].seed is None, -item[1].seen))
        self.articles = dict(remaining[:MAX_ARTICLES])


def read_followed(content: bytes, where: str) -> Followed:
    """Raises InputError for a damaged state file."""
    try:
        return msgspec.json.decode(content, type=Followed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InputError(
            f"{where}: is no state of a feed; move it away, and the feed is read from the start"
        ) from None
