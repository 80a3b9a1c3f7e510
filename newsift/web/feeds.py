"""Feeds of articles, RSS or Atom: their entries, and the identity of links."""

import calendar
import hashlib
import io
import re
import sys
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit, urlunsplit

from encoder.errors import InputError
from newsift.web.addresses import DEFAULT_PORTS
from worker.seeds.record import MAX_TITLE_CHARS, MAX_URL_CHARS
from worker.text import one_line

# Parameters that campaigns, social networks and publishers append to track readers.
TRACKING_PARAMETER = re.compile(
    r"(utm|mtm|at|hsa)_\w+|ns_(campaign|mchannel|source|linkname|fee)|mc_[ce]id|[gw]braid"
    r"|pk_(campaign|keyword|kwd|source|medium|content)|(fb|g|d|ms|y|tw|tt)clid|igsh(id)?"
    r"|cmp(id)?|xtor|ref_(src|url)|ftag|smid|ito|s_cid|wprov|__twitter_impression",
    re.IGNORECASE,
)
FEED_TYPES = ("application/rss+xml", "application/atom+xml")
CHARACTER_REFERENCE = re.compile(rb"&#(x[0-9a-f]{1,64}|[0-9]{1,64});?", re.IGNORECASE)
MAX_INTERVAL_S = 86_400.0
MAX_ENTRIES, MAX_NAMED_FEEDS = 1000, 5


def clean_link(link: str) -> str:
    """The link without its fragment and tracking parameters."""
    try:
        parts = urlsplit(link.strip())
    except ValueError:
        return link.strip()
    parameters = (
        p for p in parts.query.split("&") if not TRACKING_PARAMETER.fullmatch(p.split("=")[0])
    )
    return urlunsplit(parts._replace(query="&".join(parameters), fragment=""))


@lru_cache(2**17)
def link_identity(link: str) -> str:
    """The same text for all spellings of one address."""
    link = clean_link(link)
    try:
        parts = urlsplit(link)
        port = "" if parts.port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    except ValueError:
        return link
    if parts.scheme not in DEFAULT_PORTS:
        return link
    return f"{parts.hostname}{port}{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"


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

    content = io.BytesIO(CHARACTER_REFERENCE.sub(_valid_reference, body))  # bytes may name a file
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
    """An invalid character reference becomes the replacement character."""
    digits = reference[1].lower()
    number = int(digits[1:], 16) if digits.startswith(b"x") else int(digits)
    is_character = 0 < number < 0xD800 or 0xDFFF < number <= sys.maxunicode
    return reference[0] if is_character else b"&#65533;"


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
    for key in ("published_parsed", "created_parsed", "updated_parsed"):
        parsed: Any = dict.get(item, key)
        if parsed is not None:
            try:
                return calendar.timegm(parsed) * 1000
            except (ValueError, OverflowError):
                continue
    return None


def _text(item: dict[str, Any], key: str) -> str:
    value = dict.get(item, key)  # feedparser's `get` returns the value of a similar key
    return value if isinstance(value, str) else ""
