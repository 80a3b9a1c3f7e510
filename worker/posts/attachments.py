"""What a post has beside its text: descriptions of pictures, a link card, links.

Strangers write it. It is read for what it holds, cut to a bounded size, and never a reason to
reject a post: what has another form than expected is as if it were not there.
"""

import html
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeGuard, TypeVar

import msgspec

from worker.links import MAX_LINK_CHARS

MAX_PICTURES = 20
MAX_LINKS = 50
PART_CHARS = 1000  # of a description, and of a card's title and description
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

    url: Any = None
    uri: Any = None
    title: Any = None
    description: Any = None


def decode_or_none(raw: msgspec.Raw | None, decoder: "msgspec.json.Decoder[T]") -> T | None:
    """None where nothing is there, or something of another form."""
    if not raw:
        return None
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def attachments_of(values: Mapping[str, Any]) -> Attachments:
    """From the keys `alt`, `card` and `links`, as a match record has them."""
    lists = (values.get(name) for name in ("alt", "links"))
    alt, links = (value if isinstance(value, list | tuple) else () for value in lists)
    card = values.get("card")
    if not isinstance(card, Mapping):
        return make_attachments(alt, None, links)
    preview = Preview(card.get("url"), None, card.get("title"), card.get("description"))
    return make_attachments(alt, preview, links)


def make_attachments(
    alt: Iterable[object] = (), card: Preview | None = None, links: Iterable[object] = ()
) -> Attachments:
    """Keeps what is text, cut to the bounds; a card without words is only a link."""
    texts = (value.strip()[:PART_CHARS] for value in alt if isinstance(value, str))
    described = tuple(text for text in texts if text)[:MAX_PICTURES]
    addresses = dict.fromkeys(link for link in links if is_web_address(link))
    if card is None:
        return Attachments(described, None, tuple(addresses)[:MAX_LINKS])
    url = next((url for url in (card.url, card.uri) if is_web_address(url)), "")
    title, description = (
        value.strip()[:PART_CHARS] if isinstance(value, str) else ""
        for value in (card.title, card.description)
    )
    if title or description:
        preview = Card(url, title, description)
        return Attachments(described, preview, tuple(addresses)[:MAX_LINKS])
    if url:
        addresses[url] = None
    return Attachments(described, None, tuple(addresses)[:MAX_LINKS])


def is_web_address(link: object) -> TypeGuard[str]:
    """Whether it is a text that a browser opens as a page of the web."""
    return isinstance(link, str) and len(link) <= MAX_LINK_CHARS and bool(LINK_START.match(link))


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
