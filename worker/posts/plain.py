"""Plain posts: {"id", "text"} and optional keys."""

import msgspec

from worker.posts.checks import make_post
from worker.posts.outcome import Reading


class Plain(msgspec.Struct, gc=False):
    id: str | int | None = None
    text: str | None = None
    author: str | None = None
    created_at: str | int | float | None = None
    lang: str | None = None
    url: str | None = None


class OnlyPlain(Plain, forbid_unknown_fields=True, gc=False):
    """A value without other keys is of no other form, and nests nothing."""


decode = msgspec.json.Decoder(Plain).decode
decode_only_plain = msgspec.json.Decoder(OnlyPlain).decode
USUAL_STARTS = (b'{"id"', b'{"text"')  # of a plain post; most other forms start otherwise


def read(value: bytes) -> Reading:
    return to_post(decode(value))


def to_post(post: Plain) -> Reading:
    return make_post("plain", post.id, post.text, post.author, post.created_at, post.lang, post.url)


def read_only_plain(value: bytes) -> Reading | None:
    """The post of a value with the keys of a plain post alone, quickly; None for other values."""
    if not value.startswith(USUAL_STARTS):
        return None  # an exception costs as much as the decoding
    try:
        return to_post(decode_only_plain(value))
    except (msgspec.MsgspecError, ValueError):
        return None
