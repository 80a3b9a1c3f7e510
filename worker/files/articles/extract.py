"""The article of a web page, taken out by a process of its own, which can be ended."""

import logging
import re
from urllib.parse import urlsplit

import msgspec

from encoder.errors import InputError
from worker.files.apart import SECONDS, read_apart
from worker.files.articles.article import Article
from worker.files.articles.doubts import (
    FEWEST,
    doubt_of,
    too_few_words,
    without_notices,
    words_in,
)
from worker.files.articles.page import Page, decoded
from worker.visible import one_line

REMEDY = "; save the text and add the file"
LONGEST_TITLE = 300  # characters
BESIDE = 2**20  # of a page that are looked at for a wall
SAVED_FROM = re.compile(
    r"<!--\s*saved from url=\(\d{1,6}\)(https?://[^\s>]{1,2000})", re.IGNORECASE
)
# A page that was saved with its pictures inside holds megabytes of them.
PICTURE = re.compile(rb"data:[\w/+.-]{0,80};base64,[A-Za-z0-9+/=\s%]++")

# Programs may speak of walls that nobody stands before; what describes the page says if one does.
SCRIPT = re.compile(
    r"<(script|style)\b(?![^>]{0,200}ld\+json).*?(?:</\1|\Z)", re.IGNORECASE | re.DOTALL
)


def article_of(page: Page, seconds: float = SECONDS) -> Article:
    """The article of a page, within bounds of time and memory, whatever the page holds."""
    about = page.url, page.charset
    found = read_apart(article_in, page.body, *about, seconds=seconds, remedy=REMEDY)
    return msgspec.json.decode(found, type=Article)


def article_in(body: bytes, url: str, charset: str | None) -> Article:
    """The article in the bytes of a page."""
    return extracted(Page(url, body, charset))


def extracted(page: Page) -> Article:
    """The article of a page; what looks like none says so."""
    if kind := page.other_kind:
        raise _refusal(page.url, f"is {kind}")
    text = decoded(Page(page.url, PICTURE.sub(b"data:,", page.body), page.charset))
    if "<" not in text:
        found = Article("", text.strip(), _address(page.url), doubt_of("", text))
    else:
        tries = [_taken(text, page.url, False)]
        if _is_poor(tries[0]):
            tries.append(_taken(text, page.url, True))
        found = next((each for each in tries if not _is_poor(each)), tries[0])
    if not found.text.strip():
        raise _refusal(page.url, "holds no text that can be read")
    return found


def _is_poor(article: Article) -> bool:
    return bool(article.doubt or too_few_words(article.text))


def _taken(markup: str, url: str, everywhere: bool) -> Article:
    """What is taken from a page: as a rule, or from its tables and its margins too."""
    import trafilatura

    logging.getLogger("trafilatura").addHandler(logging.NullHandler())
    logging.getLogger("trafilatura").propagate = False
    address = _address(url)
    found = trafilatura.bare_extraction(
        markup, url=address, with_metadata=True, include_comments=False,
        include_tables=everywhere, favor_recall=everywhere,
    )  # fmt: skip
    title = one_line((found.title if found else None) or "")[:LONGEST_TITLE]
    whole = ((found.text if found else None) or "").strip()
    whole = _without_lines(whole) if everywhere else whole
    bare = without_notices(whole)
    text = bare if words_in(bare) >= FEWEST else whole
    saved = SAVED_FROM.search(markup[:4096])
    place = address or (saved and saved[1]) or _address(found.url if found else None)
    beside = SCRIPT.sub(" ", markup[:BESIDE])
    return Article(title, text, place or None, doubt_of(title, text, beside))


def _without_lines(text: str) -> str:
    """The text of tables as lines of their own, without what is drawn around it."""
    cells = (cell.strip() for cell in text.replace("|", "\n").split("\n"))
    return "\n".join(cell for cell in cells if cell.strip("- "))


def _address(url: str | None) -> str | None:
    """An address of the web, and nothing else that a page may name as its own."""
    try:
        return url if url and urlsplit(url).scheme in ("http", "https") else None
    except ValueError:
        return None


def _refusal(url: str, why: str) -> InputError:
    return InputError(f"{url}: {why}{REMEDY}")
