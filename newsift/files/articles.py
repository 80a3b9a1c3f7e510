"""Articles in files and pages of the web: text, Markdown, HTML."""

import codecs
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from encoder.errors import InputError
from newsift.files.article_checks import (
    MIN_ARTICLE_WORDS,
    count_words,
    known_words,
    other_language,
    rejection_reason,
    remove_notices,
    too_few_words,
)
from newsift.files.read import input_name, read_whole, text_in
from newsift.files.subprocesses import MAX_SECONDS, run_in_subprocess
from worker.text import one_line, shorten

MAX_EXCERPT_CHARS = 80


@dataclass(frozen=True, slots=True)
class Article:
    title: str
    text: str
    url: str | None = None
    doubt: str | None = None  # what the text looks like if it is probably no article

    def objection(self, model: str) -> str | None:
        """Why it may not be an article that the model can read, or None."""
        if self.doubt or not self.text.strip():
            return self.doubt
        return too_few_words(self.text) or other_language(self.text, known_words(model))

    def require_article(self, name: str, remedy: str = "") -> "Article":
        """Raises InputError if it is probably no article."""
        if self.doubt is not None:
            message = f"{name}: looks like {self.doubt} ({self._excerpt!r})"
            raise InputError(f"{message}; save the text and add the file{remedy}")
        return self

    def require_seed(self, name: str, model: str, remedy: str = "") -> "Article":
        """Raises InputError if it is probably no article, or too short or foreign for a seed."""
        if not self.doubt and self.text.strip():
            if few := too_few_words(self.text):
                raise InputError(f"{name}: has {few} ({self._excerpt!r}); write more{remedy}")
            if language := other_language(self.text, known_words(model)):
                problem = f"{name}: looks like {language} ({self._excerpt!r})"
                raise InputError(f"{problem}; give an article in English{remedy}")
        return self.require_article(name, remedy)

    @property
    def _excerpt(self) -> str:
        return shorten(one_line(self.text), MAX_EXCERPT_CHARS)


HEAD_BYTES = 65_536  # in which markup is recognised
CHARSET_BYTES = 4_096  # in which a page names its character set
META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE
)
XML_CHARSET = re.compile(rb"\s*<\?xml[^>]{1,100}?encoding\s*=\s*[\"']([\w.:-]{1,40})")
PREAMBLE = re.compile(rb"(?>(?:\s++|<!--.*?-->|<\?[^>]*+>)*)", re.DOTALL)
PAGE_START = re.compile(rb"<(?:!doctype\s+html|html|head|body|title|meta)\b", re.IGNORECASE)
START_TAG = re.compile(rb"<[a-z]\w*+[\s>]", re.IGNORECASE)
END_TAG = re.compile(rb"</(?:p|div|a|article|section|span|li|h[1-6]|td|script)\s*>", re.IGNORECASE)
MIN_END_TAGS = 3
# As browsers interpret these names.
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
OTHER_TYPES = {  # by their first bytes
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
    url: str  # after redirects, or the name of a file
    body: bytes
    charset: str | None = None  # of the HTTP header

    @property
    def is_markup(self) -> bool:
        head = self.body[:HEAD_BYTES]
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            head = head.decode("utf-16", "ignore").encode()
        head = head.removeprefix(codecs.BOM_UTF8)
        preamble = PREAMBLE.match(head)
        start = preamble.end() if preamble else 0
        if PAGE_START.match(head, start):
            return True
        return bool(START_TAG.match(head, start)) and len(END_TAG.findall(head)) >= MIN_END_TAGS

    @property
    def other_type(self) -> str | None:
        """Its type if it is neither HTML nor text."""
        for magic, name in OTHER_TYPES.items():
            if self.body.startswith(magic):
                return name
        if MHTML.match(self.body) and b"multipart/related" in self.body[:CHARSET_BYTES].lower():
            return "a page saved as MHTML"
        is_utf16 = self.body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        is_utf16 = is_utf16 or (self.charset or "").lower().startswith("utf-16")
        return "no text but bytes" if b"\0" in self.body[:HEAD_BYTES] and not is_utf16 else None


def decode_page(page: WebPage) -> str:
    """Decodes by the byte order mark, the HTTP header, `<meta>`, or as UTF-8."""
    for bom, charset in BOMS.items():
        if page.body.startswith(bom):
            return page.body.decode(charset, "replace")
    charsets = [charset for charset in _named_charsets(page) if _is_charset(charset)]
    for charset in (*charsets, "utf-8"):
        try:
            return page.body.decode(charset)
        except UnicodeError:
            continue
    # Invalid bytes are replaced, and the rest of the page can be read.
    return page.body.decode(charsets[0] if charsets else "cp1252", "replace")


def _named_charsets(page: WebPage) -> list[str]:
    """The character sets of the HTTP header and of the page."""
    head = page.body[:CHARSET_BYTES]
    declaration = XML_CHARSET.match(head) or META_CHARSET.search(head)
    from_page = declaration[1].decode("ascii", "ignore").lower() if declaration else ""
    if from_page.startswith("utf-16"):
        from_page = "utf-8"  # in UTF-16 the name would not have been found
    from_header = (page.charset or "").strip().lower()
    return [
        CHARSET_ALIASES.get(charset, charset) for charset in (from_header, from_page) if charset
    ]


def _is_charset(charset: str) -> bool:
    try:
        return bool(codecs.decode(b"", charset) == "")
    except (LookupError, ValueError, TypeError):
        return False


REMEDY = "; save the text and add the file"
MAX_TITLE_CHARS = 300
MAX_PAYWALL_SEARCH_CHARS = 2**20
SAVED_FROM = re.compile(
    r"<!--\s*saved from url=\(\d{1,6}\)(https?://[^\s>]{1,2000})", re.IGNORECASE
)
# A saved page may hold megabytes of pictures.
PICTURE = re.compile(rb"data:[\w/+.-]{0,80};base64,[A-Za-z0-9+/=\s%]++")

# Scripts mention paywalls on pages without one. JSON-LD is kept, which says if there is one.
SCRIPT = re.compile(
    r"<(script|style)\b(?![^>]{0,200}ld\+json).*?(?:</\1|\Z)", re.IGNORECASE | re.DOTALL
)


def extract_article(page: WebPage, seconds: float = MAX_SECONDS) -> Article:
    """Extract the article in a subprocess, with limits on time and memory."""
    content = run_in_subprocess(
        _extract_from_bytes, page.body, page.url, page.charset, seconds=seconds, remedy=REMEDY
    )
    return msgspec.json.decode(content, type=Article)


def _extract_from_bytes(body: bytes, url: str, charset: str | None) -> Article:
    return extract_in_process(WebPage(url, body, charset))


def extract_in_process(page: WebPage) -> Article:
    """Raises InputError for a page without text."""
    if other_type := page.other_type:
        raise _refusal(page.url, f"is {other_type}")
    text = decode_page(WebPage(page.url, PICTURE.sub(b"data:,", page.body), page.charset))
    if "<" not in text:
        article = Article("", text.strip(), _address(page.url), rejection_reason("", text))
    else:
        article = _extract(text, page.url, False)
        if _is_poor(article) and not _is_poor(other := _extract(text, page.url, True)):
            article = other
    if not article.text.strip():
        raise _refusal(page.url, "holds no text that can be read")
    return article


def _is_poor(article: Article) -> bool:
    return bool(article.doubt or too_few_words(article.text))


def _extract(markup: str, url: str, from_tables: bool) -> Article:
    """`from_tables` also extracts text from tables and margins."""
    import trafilatura

    logging.getLogger("trafilatura").addHandler(logging.NullHandler())
    logging.getLogger("trafilatura").propagate = False
    address = _address(url)
    document = trafilatura.bare_extraction(
        markup, url=address, with_metadata=True, include_comments=False,
        include_tables=from_tables, favor_recall=from_tables,
    )  # fmt: skip
    title = one_line((document.title if document else None) or "")[:MAX_TITLE_CHARS]
    text = ((document.text if document else None) or "").strip()
    if from_tables:  # each cell on a line
        cells = (cell.strip() for cell in text.replace("|", "\n").split("\n"))
        text = "\n".join(cell for cell in cells if cell.strip("- "))
    without_notices = remove_notices(text)
    if count_words(without_notices) >= MIN_ARTICLE_WORDS:
        text = without_notices
    saved_from = SAVED_FROM.search(markup[:4096])
    address = address or (saved_from[1] if saved_from else None)
    address = address or _address(document.url if document else None)
    rest_of_page = SCRIPT.sub(" ", markup[:MAX_PAYWALL_SEARCH_CHARS])
    return Article(title, text, address, rejection_reason(title, text, rest_of_page))


def _address(url: str | None) -> str | None:
    """None for anything but http and https."""
    try:
        return url if url and urlsplit(url).scheme in ("http", "https") else None
    except ValueError:
        return None


def _refusal(url: str, reason: str) -> InputError:
    return InputError(f"{url}: {reason}{REMEDY}")


PAGE_ENDINGS = (".html", ".htm", ".xhtml")


def read_article(file: Path) -> Article:
    """Raises InputError if it is probably no article."""
    article = article_from(read_page(file), is_page=file.suffix.lower() in PAGE_ENDINGS)
    return article.require_article(input_name(file))


def read_page(file: Path) -> WebPage:
    return WebPage(input_name(file), read_whole(file))


def article_from(page: WebPage, is_page: bool = False) -> Article:
    """`is_page` says that the file's name is a page's: its markup may start anywhere."""
    if other_type := page.other_type:
        raise _refusal(page.url, f"is {other_type}")
    if page.is_markup or (is_page and b"<" in page.body):
        return extract_article(page)
    text = text_in(page.body, page.url).strip()
    first, _, rest = text.partition("\n")
    if first.startswith("# "):  # the title
        return Article(first.lstrip("# "), rest.strip())
    return Article("", text)
