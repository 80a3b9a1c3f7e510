"""A feed of articles, RSS or Atom: from its bytes, which may be hostile, to what it names."""

import calendar
import hashlib
import io
import re
import sys
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from encoder.errors import InputError
from worker.seeds.record import TITLE_CHARS, URL_CHARS
from worker.visible import one_line

DAY = 86_400.0
PERIODS = {"hourly": 3600.0, "daily": DAY, "weekly": 7 * DAY, "monthly": 30 * DAY}
MOST_ENTRIES = 1000  # the newest; who follows a feed has seen the others
MOST_NAMED = 5
FEED_TYPES = ("application/rss+xml", "application/atom+xml")
REFERENCE = re.compile(rb"&#(x[0-9a-f]{1,64}|[0-9]{1,64});?", re.IGNORECASE)
COUNT = re.compile(r"\d{1,6}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Entry:
    """An article that a feed names."""

    link: str
    title: str
    published: int | None  # milliseconds
    mark: str  # another one once the feed says something else of it


@dataclass(frozen=True, slots=True)
class NewsFeed:
    """What a feed names, the newest first, and how long it asks to be left alone."""

    entries: tuple[Entry, ...]
    interval: float = 0.0  # seconds
    without_link: int = 0


def read_feed(body: bytes, url: str, kind: str) -> NewsFeed:
    """The feed in the answer of an address, whose header names this kind of content."""
    found = _parsed(REFERENCE.sub(_character, body), url, kind)
    if not (found.get("version") or found.entries):
        raise InputError(f"{url}: {_remedy(found.feed, url)}")
    entries = [_entry(item, url) for item in found.entries]
    usable = [entry for entry in entries if 0 < len(entry.link.encode()) <= URL_CHARS]
    newest = sorted(usable, key=lambda entry: -(entry.published or 0))[:MOST_ENTRIES]
    return NewsFeed(tuple(newest), _interval(found.feed), len(entries) - len(usable))


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
    """A reference to a character; to one that is none, a sign that there was one."""
    digits = reference[1].lower()
    number = int(digits[1:], 16) if digits.startswith(b"x") else int(digits)
    return reference[0] if _is_character(number) else b"&#65533;"


def _is_character(number: int) -> bool:
    """Whether a character has this number."""
    return 0 < number < 0xD800 or 0xDFFF < number <= sys.maxunicode


def _entry(item: dict[str, Any], url: str) -> Entry:
    said = [_text(item, key) for key in ("title", "summary", "updated", "published")]
    written = "\n".join(said).encode("utf-8", "replace")
    return Entry(
        _link(item, url),
        one_line(said[0][:TITLE_CHARS]),
        _published(item),
        hashlib.sha256(written).hexdigest()[:12],
    )


def _link(item: dict[str, Any], url: str) -> str:
    """The article's own address, not one that counts clicks; "" where there is none."""
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
    """The seconds that a feed wants between two looks, by `ttl` or by the module syndication."""
    ttl = 60.0 * (_number(about, "ttl") or 0)
    period = PERIODS.get(_text(about, "sy_updateperiod").strip().lower(), 0.0)
    times = _number(about, "sy_updatefrequency") or 1
    return min(max(ttl, period / times), DAY)


def _number(about: dict[str, Any], key: str) -> int | None:
    found = COUNT.fullmatch(_text(about, key).strip())
    return int(found[0]) if found else None


def _text(item: dict[str, Any], key: str) -> str:
    value = _value(item, key)
    return value if isinstance(value, str) else ""


def _value(item: dict[str, Any], key: str) -> Any:
    # Its own get would answer with another key's value where this one is missing, and warn of it.
    return dict.get(item, key)


def _remedy(page: dict[str, Any], url: str) -> str:
    """What to say of something that is no feed: a page of the web often names those it has."""
    named = [
        urljoin(url, link["href"]) for link in _value(page, "links") or []
        if link.get("type") in FEED_TYPES and link.get("href")
    ]  # fmt: skip
    if not named:
        return "is no feed (RSS or Atom); look on the site for the address of one"
    feeds = ", ".join(one_line(link[:URL_CHARS]) for link in dict.fromkeys(named[:MOST_NAMED]))
    return f"is no feed, but the page names these: {feeds}"
