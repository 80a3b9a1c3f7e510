"""What a post has beside its text: descriptions of pictures, a link card, links.

Strangers write it. It is read for what it holds, cut to a bounded size, and never a reason to
reject a post: what has another form than expected is as if it were not there. What should be a
text stays raw until then: lists within lists cost far more as objects than as bytes.
"""

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec

from worker.links import MAX_LINK_CHARS

MAX_PICTURES = 20
MAX_LINKS = 50
PART_CHARS = 1000  # of a description, and of a card's title and description
BLANK_CHARS = 9000  # before one
LINK_START = re.compile(r"https?://", re.IGNORECASE)
T = TypeVar("T")


class Card(msgspec.Struct, frozen=True, gc=False):
    """The preview of a page that a post links to, as the platform shows it."""

    url: str = ""
    title: str = ""
    description: str = ""


class Attachments(NamedTuple):
    """What a post has beside its text."""

    alt: tuple[str, ...] = ()
    card: Card | None = None
    links: tuple[str, ...] = ()


NO_ATTACHMENTS = Attachments()


class Preview(msgspec.Struct, gc=False):
    """A card as platforms give it, under any of the usual keys."""

    url: msgspec.Raw = msgspec.Raw()
    uri: msgspec.Raw = msgspec.Raw()
    title: msgspec.Raw = msgspec.Raw()
    description: msgspec.Raw = msgspec.Raw()


def decode_or_none(raw: msgspec.Raw | None, decoder: "msgspec.json.Decoder[T]") -> T | None:
    """None where nothing is there, or something of another form."""
    if not raw:
        return None
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


STRING = msgspec.json.Decoder(str)


def text_of(value: object) -> str | None:
    """A text, or the text that a raw value is; None for anything else."""
    if isinstance(value, msgspec.Raw):
        return decode_or_none(value, STRING)
    return value if isinstance(value, str) else None


def attachments_of(values: Mapping[str, Any]) -> Attachments:
    """From the keys `alt`, `card` and `links`, as a match record has them."""
    lists = (values.get(name) for name in ("alt", "links"))
    alt, links = (value if isinstance(value, list | tuple) else () for value in lists)
    card = values.get("card")
    if not isinstance(card, Mapping):
        return make_attachments(alt, None, links)
    none = msgspec.Raw()
    url, title, words = (card.get(name, none) for name in ("url", "title", "description"))
    return make_attachments(alt, Preview(url, none, title, words), links)


def make_attachments(
    alt: Iterable[object] = (), card: Preview | None = None, links: Iterable[object] = ()
) -> Attachments:
    """Keeps what is text, cut to the bounds; a card without words is only a link."""
    described = tuple(islice(filter(None, map(_part, alt)), MAX_PICTURES))
    addresses = dict.fromkeys(_web_addresses(links))
    if card is None:
        return Attachments(described, None, tuple(addresses)[:MAX_LINKS])
    url = next(_web_addresses((card.url, card.uri)), "")
    title, description = _part(card.title), _part(card.description)
    if title or description:
        preview = Card(url, title, description)
        return Attachments(described, preview, tuple(addresses)[:MAX_LINKS])
    if url:
        addresses[url] = None
    return Attachments(described, None, tuple(addresses)[:MAX_LINKS])


def _part(value: object) -> str:
    return (text_of(value) or "")[: BLANK_CHARS + PART_CHARS].strip()[:PART_CHARS]


def _web_addresses(links: Iterable[object]) -> Iterator[str]:
    """Those that are texts which a browser opens as pages of the web."""
    for link in map(text_of, links):
        if link is not None and len(link) <= MAX_LINK_CHARS and LINK_START.match(link):
            yield link


ANCHOR = re.compile(r"<a\s([^<>]*+)>", re.IGNORECASE)
HREF = re.compile(r"""\bhref\s*+=\s*+(?:"([^"<>]*+)"|'([^'<>]*+)')""", re.IGNORECASE)
CLASS = re.compile(r"""\bclass\s*+=\s*+["']([^"'<>]*+)""", re.IGNORECASE)
NOT_LINKS = {"mention", "hashtag"}  # classes of links to people and to tags


def html_links(markup: str) -> list[str]:
    """The addresses of links in HTML, without those of mentions and hashtags."""
    links = []
    for anchor in ANCHOR.finditer(markup):
        address, classes = HREF.search(anchor[1]), CLASS.search(anchor[1])
        if address and not (classes and NOT_LINKS & set(classes[1].lower().split())):
            links.append(html.unescape(address[1] or address[2] or ""))
    return links
