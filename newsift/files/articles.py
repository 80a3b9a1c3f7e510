"""Articles in files and pages of the web: text, Markdown, HTML."""

import codecs
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from encoder.errors import InputError
from newsift.files.apart import SECONDS, run_in_subprocess
from newsift.files.article_checks import (
    MIN_WORDS,
    rejection_reason,
    too_few_words,
    without_notices,
    words_in,
)
from newsift.files.read import input_name, read_whole, text_in
from worker.text import one_line

EXCERPT = 80  # characters of what is taken for no article


@dataclass(frozen=True, slots=True)
class Article:
    """`doubt` says what the text looks like if it is probably no article."""

    title: str
    text: str
    url: str | None = None
    doubt: str | None = None  # what it looks like instead

    def require_article(self, name: str, remedy: str = "") -> "Article":
        """Raises InputError if it looks like something else."""
        if self.doubt is not None:
            message = f"{name}: looks like {self.doubt} ({self._beginning!r})"
            raise InputError(f"{message}; save the text and add the file{remedy}")
        return self

    def require_seed(self, name: str, remedy: str = "") -> "Article":
        """Raises InputError if it looks like something else or is too short for a seed."""
        if not self.doubt and self.text.strip() and (few := too_few_words(self.text)):
            raise InputError(f"{name}: has {few} ({self._beginning!r}); write more{remedy}")
        return self.require_article(name, remedy)

    @property
    def _beginning(self) -> str:
        begins = one_line(self.text)
        return begins if len(begins) <= EXCERPT else begins[: EXCERPT - 1] + "…"


HEAD = 65_536  # bytes that are looked at to see what this is
STATED = 4_096  # bytes that may name the character set
META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE
)
XML_CHARSET = re.compile(rb"\s*<\?xml[^>]{1,100}?encoding\s*=\s*[\"']([\w.:-]{1,40})")
BEFORE = re.compile(rb"(?:\s++|<!--.*?-->|<\?[^>]*+>)*+", re.DOTALL)
PAGE = re.compile(rb"<(?:!doctype\s+html|html|head|body|title|meta)\b", re.IGNORECASE)
MARKUP = re.compile(rb"<[a-z]\w*+[\s>]", re.IGNORECASE)
END_TAG = re.compile(rb"</(?:p|div|a|article|section|span|li|h[1-6]|td|script)\s*>", re.IGNORECASE)
MIN_TAGS = 3
# What browsers take these names for, as the pages that state them do.
CHARSET_ALIASES = {
    **dict.fromkeys(
        ("ascii", "us-ascii", "iso-8859-1", "iso8859-1", "iso_8859-1", "latin-1", "latin1"),
        "cp1252",
    ),
    **dict.fromkeys(("gb2312", "gbk", "x-gbk"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "x-sjis", "sjis"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987"), "cp949"),
    "big5": "big5hkscs",
    "iso-8859-9": "cp1254",
    "iso-8859-11": "cp874",
    "tis-620": "cp874",
}
BOMS = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
KINDS = {
    b"%PDF-": "a PDF",
    b"PK\x03\x04": "an archive, as .docx, .odt, .epub and .zip are",
    b"\xd0\xcf\x11\xe0": "a document of Word",
    b"{\\rtf": "a document in RTF",
    b"bplist00": "a web archive of Safari",
    b"\x1f\x8b": "packed by gzip",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"RIFF": "a picture or a recording",
}
MHTML = re.compile(rb"\s*(?:From: <Saved by|MIME-Version:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WebPage:
    """The final address of a page, its bytes, and its character set."""

    url: str  # or the name of the file that it is saved in
    body: bytes
    charset: str | None = None

    @property
    def is_markup(self) -> bool:
        """Whether it is HTML, whatever its name."""
        head = self.body[:HEAD]
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            head = head.decode("utf-16", "ignore").encode()
        head = head.removeprefix(codecs.BOM_UTF8)
        before = BEFORE.match(head)
        start = before.end() if before else 0
        if PAGE.match(head, start):
            return True
        return bool(MARKUP.match(head, start)) and len(END_TAG.findall(head)) >= MIN_TAGS

    @property
    def other_kind(self) -> str | None:
        """What it is if it is neither HTML nor text."""
        for begins, kind in KINDS.items():
            if self.body.startswith(begins):
                return kind
        if MHTML.match(self.body) and b"multipart/related" in self.body[:STATED].lower():
            return "a page saved as MHTML"
        wide = self.body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        wide = wide or (self.charset or "").lower().startswith("utf-16")
        return "no text but bytes" if b"\0" in self.body[:HEAD] and not wide else None


def decode_page(page: WebPage) -> str:
    """By byte order mark, header, `<meta>`, or as UTF-8."""
    for mark, charset in BOMS.items():
        if page.body.startswith(mark):
            return page.body.decode(charset, "replace")
    stated = [charset for charset in _named_charsets(page) if _is_charset(charset)]
    for charset in (*stated, "utf-8"):
        try:
            return page.body.decode(charset)
        except UnicodeError:
            continue
    # A few bytes that are wrong spoil a character each, not the page.
    return page.body.decode(stated[0] if stated else "cp1252", "replace")


def _named_charsets(page: WebPage) -> list[str]:
    """The character sets of the header and of the page, as browsers interpret them."""
    head = page.body[:STATED]
    declaration = XML_CHARSET.match(head) or META_CHARSET.search(head)
    inside = declaration[1].decode("ascii", "ignore").lower() if declaration else ""
    if inside.startswith("utf-16"):
        inside = "utf-8"  # or the name could not have been read
    from_header = (page.charset or "").strip().lower()
    return [CHARSET_ALIASES.get(charset, charset) for charset in (from_header, inside) if charset]


def _is_charset(charset: str) -> bool:
    try:
        return bool(codecs.decode(b"", charset) == "")
    except (LookupError, ValueError, TypeError):
        return False


REMEDY = "; save the text and add the file"
MAX_TITLE_CHARS = 300  # characters
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


def extract_article(page: WebPage, seconds: float = SECONDS) -> Article:
    """Extract the article in a subprocess, with limits on time and memory."""
    about = page.url, page.charset
    content = run_in_subprocess(article_in, page.body, *about, seconds=seconds, remedy=REMEDY)
    return msgspec.json.decode(content, type=Article)


def article_in(body: bytes, url: str, charset: str | None) -> Article:
    return extract_here(WebPage(url, body, charset))


def extract_here(page: WebPage) -> Article:
    """Raises InputError for a page without text."""
    if kind := page.other_kind:
        raise _refusal(page.url, f"is {kind}")
    text = decode_page(WebPage(page.url, PICTURE.sub(b"data:,", page.body), page.charset))
    if "<" not in text:
        article = Article("", text.strip(), _address(page.url), rejection_reason("", text))
    else:
        tries = [_extract(text, page.url, False)]
        if _is_poor(tries[0]):
            tries.append(_extract(text, page.url, True))
        article = next((each for each in tries if not _is_poor(each)), tries[0])
    if not article.text.strip():
        raise _refusal(page.url, "holds no text that can be read")
    return article


def _is_poor(article: Article) -> bool:
    return bool(article.doubt or too_few_words(article.text))


def _extract(markup: str, url: str, everywhere: bool) -> Article:
    """With `everywhere` also from tables and margins."""
    import trafilatura

    logging.getLogger("trafilatura").addHandler(logging.NullHandler())
    logging.getLogger("trafilatura").propagate = False
    address = _address(url)
    document = trafilatura.bare_extraction(
        markup, url=address, with_metadata=True, include_comments=False,
        include_tables=everywhere, favor_recall=everywhere,
    )  # fmt: skip
    title = one_line((document.title if document else None) or "")[:MAX_TITLE_CHARS]
    whole = ((document.text if document else None) or "").strip()
    if everywhere:  # the cells of text tables, each on a line
        cells = (cell.strip() for cell in whole.replace("|", "\n").split("\n"))
        whole = "\n".join(cell for cell in cells if cell.strip("- "))
    bare = without_notices(whole)
    text = bare if words_in(bare) >= MIN_WORDS else whole
    origin = SAVED_FROM.search(markup[:4096])
    place = address or (origin and origin[1]) or _address(document.url if document else None)
    beside = SCRIPT.sub(" ", markup[:BESIDE])
    return Article(title, text, place or None, rejection_reason(title, text, beside))


def _address(url: str | None) -> str | None:
    """None for anything but http and https."""
    try:
        return url if url and urlsplit(url).scheme in ("http", "https") else None
    except ValueError:
        return None


def _refusal(url: str, why: str) -> InputError:
    return InputError(f"{url}: {why}{REMEDY}")


PAGES = (".html", ".htm", ".xhtml")


def read_article(file: Path) -> Article:
    """Raises InputError if a page looks like no article."""
    return read_possible_article(file).require_article(input_name(file))


def read_possible_article(file: Path) -> Article:
    """A page by its ending or content, else a text."""
    return article_from(read_page(file), is_page=file.suffix.lower() in PAGES)


def read_page(file: Path) -> WebPage:
    return WebPage(input_name(file), read_whole(file))


def article_from(page: WebPage, is_page: bool = False) -> Article:
    """With `is_page` markup may start anywhere."""
    if kind := page.other_kind:
        raise _refusal(page.url, f"is {kind}")
    if page.is_markup or (is_page and b"<" in page.body):
        return extract_article(page)
    return _text_article(page)


def _text_article(page: WebPage) -> Article:
    """A first line that starts with "# " is the title."""
    text = text_in(page.body, page.url).strip()
    first, _, rest = text.partition("\n")
    if first.startswith("# "):
        return Article(first.lstrip("# "), rest.strip())
    return Article("", text)
