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
from newsift.web.addresses import DEFAULT_PORTS
from worker.posts.times import HOUR_MS
from worker.seeds.record import MAX_TITLE_CHARS, MAX_URL_CHARS
from worker.text import one_line

# Parameters that campaigns, social networks and publishers append to track readers.
TRACKING_PARAMETER = re.compile(
    r"(utm|mtm|at|hsa)_\w+|ns_(campaign|mchannel|source|linkname|fee)|mc_[ce]id|[gw]braid"
    r"|pk_(campaign|keyword|kwd|source|medium|content)|(fb|g|d|ms|y|tw|tt)clid|igsh(id)?"
    r"|cmp(id)?|xtor|ref_(src|url)|ftag|smid|ito|s_cid|wprov|__twitter_impression",
    re.IGNORECASE,
)


def clean_link(link: str) -> str:
    """The link without its fragment and tracking parameters."""
    link = link.strip()
    try:
        parts = urlsplit(link)
    except ValueError:
        return link
    parameters = [
        parameter for parameter in parts.query.split("&")
        if not TRACKING_PARAMETER.fullmatch(parameter.split("=")[0])
    ]  # fmt: skip
    return urlunsplit(parts._replace(query="&".join(parameters), fragment=""))


def link_identity(link: str) -> str:
    """The same text for all spellings of one address."""
    link = clean_link(link)
    try:
        parts = urlsplit(link)
        default = DEFAULT_PORTS.get(parts.scheme)
        port = "" if parts.port in (None, default) else f":{parts.port}"
    except ValueError:
        return link
    if parts.scheme not in DEFAULT_PORTS:
        return link
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.hostname}{port}{parts.path or '/'}{query}"


DAY_S = 86_400.0
PERIODS_S = {"hourly": 3600.0, "daily": DAY_S, "weekly": 7 * DAY_S, "monthly": 30 * DAY_S}
MAX_ENTRIES = 1000  # the newest ones
MAX_NAMED_FEEDS = 5
FEED_TYPES = ("application/rss+xml", "application/atom+xml")
CHARACTER_REFERENCE = re.compile(rb"&#(x[0-9a-f]{1,64}|[0-9]{1,64});?", re.IGNORECASE)
COUNT = re.compile(r"\d{1,6}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Entry:
    link: str
    title: str
    published_at: int | None  # milliseconds
    digest: str  # changes when the feed corrects the entry


@dataclass(frozen=True, slots=True)
class NewsFeed:
    entries: tuple[Entry, ...]  # newest first
    interval: float = 0.0  # seconds between two requests that the feed asks for
    without_link: int = 0


def read_feed(body: bytes, url: str, content_type: str) -> NewsFeed:
    """Raises InputError for a page that is not a feed."""
    document = _parse(CHARACTER_REFERENCE.sub(_valid_reference, body), url, content_type)
    if not (document.get("version") or document.entries):
        raise InputError(f"{url}: {_remedy(document.feed, url)}")
    entries = [_entry(item, url) for item in document.entries]
    usable = [entry for entry in entries if 0 < len(entry.link.encode()) <= MAX_URL_CHARS]
    newest = sorted(usable, key=lambda entry: -(entry.published_at or 0))[:MAX_ENTRIES]
    return NewsFeed(tuple(newest), _interval(document.feed), len(entries) - len(usable))


def _parse(body: bytes, url: str, content_type: str) -> Any:
    import feedparser

    headers = {"content-type": content_type, "content-location": url}
    try:
        # feedparser would take plain bytes for the name of a file.
        return feedparser.parse(
            io.BytesIO(body), response_headers=headers, resolve_relative_uris=False,
            sanitize_html=False,
        )  # fmt: skip
    except Exception as error:  # feedparser catches only some of its parsers' errors
        raise InputError(f"{url}: cannot be read as a feed ({type(error).__name__})") from error


def _valid_reference(reference: re.Match[bytes]) -> bytes:
    """An invalid character reference becomes the replacement character."""
    digits = reference[1].lower()
    number = int(digits[1:], 16) if digits.startswith(b"x") else int(digits)
    is_character = 0 < number < 0xD800 or 0xDFFF < number <= sys.maxunicode
    return reference[0] if is_character else b"&#65533;"


def _entry(item: dict[str, Any], url: str) -> Entry:
    texts = [_text(item, key) for key in ("title", "summary", "updated", "published")]
    digest = hashlib.sha256("\n".join(texts).encode("utf-8", "replace")).hexdigest()[:12]
    return Entry(_link(item, url), one_line(texts[0][:MAX_TITLE_CHARS]), _entry_time(item), digest)


def _link(item: dict[str, Any], url: str) -> str:
    """The article's original address, not one that counts clicks; "" if there is none."""
    text = (_text(item, "feedburner_origlink") or _text(item, "link")).strip()
    try:
        link = urljoin(url, text) if text else ""
    except ValueError:
        return ""
    return link if link.isprintable() else ""


def _entry_time(item: dict[str, Any]) -> int | None:
    for key in ("published_parsed", "created_parsed", "updated_parsed"):
        if (time := _value(item, key)) is not None:
            try:
                return calendar.timegm(time) * 1000
            except (ValueError, OverflowError):
                continue
    return None


def _interval(feed: dict[str, Any]) -> float:
    """Seconds between two requests, by `ttl` or the syndication module."""
    ttl = 60.0 * (_number(feed, "ttl") or 0)
    period = PERIODS_S.get(_text(feed, "sy_updateperiod").strip().lower(), 0.0)
    frequency = _number(feed, "sy_updatefrequency") or 1
    return min(max(ttl, period / frequency), DAY_S)


def _number(feed: dict[str, Any], key: str) -> int | None:
    match = COUNT.fullmatch(_text(feed, key).strip())
    return int(match[0]) if match else None


def _text(item: dict[str, Any], key: str) -> str:
    value = _value(item, key)
    return value if isinstance(value, str) else ""


def _value(item: dict[str, Any], key: str) -> Any:
    return dict.get(item, key)  # feedparser's `get` returns the value of a similar key


def _remedy(page: dict[str, Any], url: str) -> str:
    """A page that is not a feed often links to its feeds."""
    feeds = [
        urljoin(url, link["href"]) for link in _value(page, "links") or []
        if link.get("type") in FEED_TYPES and link.get("href")
    ]  # fmt: skip
    if not feeds:
        return "is not a feed (RSS or Atom); look on the site for the address of one"
    unique = dict.fromkeys(feeds[:MAX_NAMED_FEEDS])
    names = ", ".join(one_line(feed[:MAX_URL_CHARS]) for feed in unique)
    return f"is not a feed, but the page names these: {names}"


FIRST_RETRY_MS = HOUR_MS // 4
MAX_RETRIES = 6  # over 16 hours, as the pauses double
REREAD_MS = 6 * HOUR_MS
MAX_ARTICLES = 10_000


class FollowedArticle(msgspec.Struct):
    """An article of a followed feed. Its times are milliseconds; its fields are on disk."""

    link: str
    title: str
    published_at: int
    digest: str  # of the latest entry about it
    seen_at: int  # when the feed last listed it
    read: int | None = None
    news: bool = False  # whether the entry has changed since the article was read
    again: int = 0  # how often the article was read after the first time
    failing: bool = False  # the last attempt failed, but a retry may help
    refusal: str | None = None  # the last reported reason
    seed: str | None = None  # the id of the seed that was made of it
    version: str | None = None  # of that seed
    left: bool = False  # it is not read again, as its seed belongs to somebody else or was changed

    def due(self, now: int) -> bool:
        """Whether it should be read now; the intervals grow, even if it changes each time."""
        if self.left:
            return False
        if self.read is None:
            return True
        if self.failing and self.again < MAX_RETRIES:
            return now >= self.read + (FIRST_RETRY_MS << self.again)
        if self.news:
            return now >= self.read + HOUR_MS * self.again
        return self.seed is not None and now >= self.read + REREAD_MS * (self.again + 1)

    def count_attempt(self, now: int, *, failing: bool = False) -> None:
        self.again += self.read is not None
        self.read, self.news, self.failing = now, False, failing

    def leave(self) -> None:
        """Do not read it again, and do not change its seed."""
        self.seed, self.left = None, True


class FeedState(msgspec.Struct):
    """The state of a followed feed. Its times are milliseconds; its fields are on disk."""

    feed: str  # the user's address of it
    address: str  # the same, or the target of its permanent redirects
    etag: str | None = None
    last_modified: str | None = None
    interval: float = 0.0  # seconds between two requests that the feed asks for
    failures: int = 0  # consecutive ones
    wait_until: int = 0
    seen_at: int = 0  # when its entries were last read
    articles: dict[str, FollowedArticle] = msgspec.field(default_factory=dict)

    def note(self, entries: Iterable[Entry], now: int, keep: int) -> int:
        """Add the entries of a feed. Returns how many articles are new and recent enough."""
        self.seen_at, new_count = now, 0
        names = set[str]()
        for entry in entries:
            name = link_identity(entry.link)
            if name in names:
                continue
            names.add(name)
            if (article := self.articles.get(name)) is not None:
                article.seen_at = now
                if article.digest != entry.digest:
                    article.digest, article.news = entry.digest, True
            elif (at := min(entry.published_at or now, now)) + keep > now:
                new_count += 1
                link = clean_link(entry.link)
                self.articles[name] = FollowedArticle(link, entry.title, at, entry.digest, now)
        remaining = [
            (name, article) for name, article in self.articles.items()
            if article.seen_at >= now - keep or article.seed is not None
        ]  # fmt: skip
        if len(remaining) > MAX_ARTICLES:  # the oldest without a seed go
            remaining.sort(key=lambda item: (item[1].seed is None, -item[1].seen_at))
        self.articles = dict(remaining[:MAX_ARTICLES])
        return new_count

    def due_articles(self, now: int, keep: int, most: int) -> list[FollowedArticle]:
        """The articles to read now, new ones first."""
        entries = (article for article in self.articles.values() if article.seen_at == self.seen_at)
        candidates = [
            article for article in entries if article.published_at + keep > now and article.due(now)
        ]
        return sorted(candidates, key=lambda article: (article.read or 0, -article.published_at))[
            :most
        ]

    def ended_articles(self, before: int, keep: int) -> list[FollowedArticle]:
        """The articles whose seeds should have expired by then."""
        return [
            article for article in self.articles.values()
            if article.seed is not None and article.published_at + keep <= before
        ]  # fmt: skip


def parse_feed_state(content: bytes, where: str) -> FeedState:
    """Raises InputError for damaged bytes; `where` names their file."""
    try:
        return msgspec.json.decode(content, type=FeedState)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InputError(
            f"{where}: is not a state of a feed; move it away, and the feed is read from the start"
        ) from None
