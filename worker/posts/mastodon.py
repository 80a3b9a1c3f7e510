"""Posts of Mastodon: statuses, alone or in the events of its streams."""

import html
import re

import msgspec

from encoder.text.clean import POST_CHARS
from worker.config.limits import Limits
from worker.posts.attachments import (
    Attachments,
    Preview,
    decode_or_none,
    html_links,
    make_attachments,
)
from worker.posts.checks import Draft, diagnose, make_post, refusal
from worker.posts.outcome import NO_POST, Reading

# No < inside a tag, so that no search for its end runs past the next one: linear for any bytes.
TAG = re.compile(r"""</?([a-zA-Z][a-zA-Z0-9]*+)(?>(?:[^<>"']|"[^<"]*+"|'[^<']*+')*)>|<![^<>]*+>""")
PARAGRAPH_TAGS = {"p", "blockquote", "pre", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "div"}
LINE_TAGS = {"br", "li"}
BLANK_LINES = re.compile(r"\n{3,}")
INVALID_CHARACTER = re.compile(r"&#[0-9]{20,}+;?")
MAX_HTML_CHARS = 4 * POST_CHARS

WRITE_EVENTS = ("update", "status.update")


class Account(msgspec.Struct):
    acct: str | None = None


class Medium(msgspec.Struct):
    """A picture, a film or a sound."""

    description: msgspec.Raw = msgspec.Raw()


class MastodonStatus(msgspec.Struct):
    """A status, or the one that it boosts."""

    id: str | int | None = None
    content: str | None = None
    spoiler_text: str | None = None
    account: Account | None = None
    created_at: str | None = None
    language: str | None = None
    url: str | None = None
    uri: str | None = None
    reblog: "MastodonStatus | None" = None
    card: msgspec.Raw = msgspec.Raw()
    media_attachments: msgspec.Raw = msgspec.Raw()


class StreamEvent(MastodonStatus):
    """A status, or an event that holds one."""

    event: str | None = None
    payload: msgspec.Raw = msgspec.Raw()


CARD = msgspec.json.Decoder(Preview)
MEDIA = msgspec.json.Decoder(list[Medium])
DECODER = msgspec.json.Decoder(StreamEvent)
STRING = msgspec.json.Decoder(str)


def read(value: bytes, limits: Limits) -> Reading:
    message = DECODER.decode(value)
    if message.event is None:
        return read_status(message)
    if message.event not in WRITE_EVENTS or not message.payload:
        return NO_POST
    payload = bytes(message.payload)
    if payload.startswith(b'"'):
        return _read_packed(payload, limits)
    return read_status(DECODER.decode(payload))


def _read_packed(payload: bytes, limits: Limits) -> Reading:
    """JSON inside JSON, as the streams send it."""
    status = STRING.decode(payload).encode()
    if (bad := refusal(status, limits)) is not None:
        return bad
    try:
        return read_status(DECODER.decode(status))
    except (msgspec.MsgspecError, RecursionError) as error:
        return diagnose(status, error)


def read_status(status: MastodonStatus) -> Reading:
    """A boost has the text of the boosted status."""
    original = status.reblog if status.reblog is not None else status
    author = status.account.acct if status.account is not None else None
    lang = status.language or original.language
    url = status.url or original.url or status.uri
    text = status_text(original)
    draft = Draft(status.id, text, author, status.created_at, lang, url)
    return make_post("mastodon", draft, read_attachments(original))


def read_attachments(status: MastodonStatus) -> Attachments:
    card = decode_or_none(status.card, CARD)
    media = decode_or_none(status.media_attachments, MEDIA) or []
    links = html_links((status.content or "")[:MAX_HTML_CHARS])
    return make_attachments((medium.description for medium in media), card, links)


def status_text(status: MastodonStatus) -> str | None:
    """The text of a status after its content warning."""
    if status.content is None:
        return None
    warning = (status.spoiler_text or "")[:POST_CHARS]
    return "\n\n".join(text for text in (warning, html_text(status.content)) if text)


def html_text(markup: str) -> str:
    """The text of a status: a blank line between paragraphs, whole links, resolved entities.

    Text beyond the longest accepted length is left out.

    Mastodon hides the beginning and the end of a link in spans; together they are the address.
    """
    markup = markup[:MAX_HTML_CHARS]
    if "<" in markup:
        lines = TAG.sub(_replace_tag, markup).split("\n")
        markup = BLANK_LINES.sub("\n\n", "\n".join(line.strip() for line in lines)).strip()
    if "&" not in markup:
        return markup
    return html.unescape(INVALID_CHARACTER.sub("\ufffd", markup))


def _replace_tag(tag: re.Match[str]) -> str:
    name = (tag[1] or "").lower()
    if name in PARAGRAPH_TAGS:
        return "\n\n"
    # An item is a line of its own: its opening tag alone breaks.
    return "\n" if name in LINE_TAGS and not tag[0].startswith("</") else ""
