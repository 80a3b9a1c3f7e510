"""Plain posts: {"id", "text"} and optional keys."""

from collections.abc import Sequence
from typing import Any

import msgspec

from worker.posts.attachments import attachments_of, decode_or_none
from worker.posts.checks import Draft, make_post
from worker.posts.outcome import Reading


class OnlyPlain(Draft, forbid_unknown_fields=True, gc=False):
    """A value without other keys is of no other form, and nests nothing."""


class WithAttachments(Draft, gc=False):
    """Attachments stand under the keys that a match record has."""

    alt: msgspec.Raw = msgspec.Raw()
    card: msgspec.Raw = msgspec.Raw()
    links: msgspec.Raw = msgspec.Raw()


decode = msgspec.json.Decoder(WithAttachments).decode
ANYTHING: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
decode_lines = msgspec.json.Decoder(OnlyPlain).decode_lines
USUAL_STARTS = (b'{"id"', b'{"text"')  # of a plain post; most other forms start otherwise


def read(value: bytes) -> Reading:
    draft = decode(value)
    raw = {"alt": draft.alt, "card": draft.card, "links": draft.links}
    values = {name: decode_or_none(value, ANYTHING) for name, value in raw.items()}
    return make_post("plain", draft, attachments_of(values))


def read_plain_lines(values: Sequence[bytes | None], most: int) -> list[Reading] | None:
    """Read plain posts quickly, as the lines of one text.

    None if a value has other keys or a line break, or if all have more than `most` bytes.
    """
    if not values or not (values[0] or b"").startswith(USUAL_STARTS):
        return None  # an exception costs as much as the decoding
    try:
        lines = b"\n".join(values)  # type: ignore[arg-type]  # None raises
        if len(lines) > most or lines.count(b"\n") >= len(values):
            return None
        posts = decode_lines(lines)  # an object ends its line: as many as lines is one on each
        if len(posts) != len(values):
            return None
        return [make_post("plain", post) for post in posts]
    except (TypeError, ValueError, msgspec.MsgspecError):
        return None
