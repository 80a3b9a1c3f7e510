"""A page of the web, fetched or saved: whether some bytes are one, and what they say as text."""

import codecs
import re
from dataclasses import dataclass

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
ENOUGH_TAGS = 3
# What browsers take these names for, as the pages that state them do.
MEANT = {
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
class Page:
    """A page as it was found: where it stood in the end, its bytes, and its character set."""

    url: str  # or the name of the file that it is saved in
    body: bytes
    charset: str | None = None

    @property
    def is_markup(self) -> bool:
        """Whether this is a page for a browser, whatever it is called, and no plain text."""
        head = self.body[:HEAD]
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            head = head.decode("utf-16", "ignore").encode()
        head = head.removeprefix(codecs.BOM_UTF8)
        before = BEFORE.match(head)
        start = before.end() if before else 0
        if PAGE.match(head, start):
            return True
        return bool(MARKUP.match(head, start)) and len(END_TAG.findall(head)) >= ENOUGH_TAGS

    @property
    def other_kind(self) -> str | None:
        """What this is where it is neither a page nor text."""
        for begins, kind in KINDS.items():
            if self.body.startswith(begins):
                return kind
        if MHTML.match(self.body) and b"multipart/related" in self.body[:STATED].lower():
            return "a page saved as MHTML"
        wide = self.body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        wide = wide or (self.charset or "").lower().startswith("utf-16")
        return "no text but bytes" if b"\0" in self.body[:HEAD] and not wide else None


def decoded(page: Page) -> str:
    """The page as text, by its byte order mark, its header, its head, or as UTF-8."""
    for mark, charset in BOMS.items():
        if page.body.startswith(mark):
            return page.body.decode(charset, "replace")
    stated = [charset for charset in _stated(page) if _is_known(charset)]
    for charset in (*stated, "utf-8"):
        try:
            return page.body.decode(charset)
        except UnicodeError:
            continue
    # A few bytes that are wrong spoil a character each, not the page.
    return page.body.decode(stated[0] if stated else "cp1252", "replace")


def _stated(page: Page) -> list[str]:
    """The character sets that the header and the head name, as browsers understand them."""
    head = page.body[:STATED]
    named = XML_CHARSET.match(head) or META_CHARSET.search(head)
    inside = named[1].decode("ascii", "ignore").lower() if named else ""
    if inside.startswith("utf-16"):
        inside = "utf-8"  # or the name could not have been read
    given = (page.charset or "").strip().lower()
    return [MEANT.get(charset, charset) for charset in (given, inside) if charset]


def _is_known(charset: str) -> bool:
    try:
        return bool(codecs.decode(b"", charset) == "")
    except (LookupError, ValueError, TypeError):
        return False
