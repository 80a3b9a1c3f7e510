"""Plain posts: {"id", "text"} and optional keys."""

from collections.abc import Callable

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


Decode = Callable[[bytes], Plain]
decode: Decode = msgspec.json.Decoder(Plain).decode
decode_only_plain: Decode = msgspec.json.Decoder(OnlyPlain).decode
USUAL_STARTS = (b'{"id"', b'{"text"')  # of a plain post; most other forms start otherwise


def read(value: bytes, decode: Decode = decode) -> Reading:
    post = decode(value)
    return make_post("plain", post.id, post.text, post.author, post.created_at, post.lang, post.url)


def read_only_plain(value: bytes) -> Reading | None:
    """The post of a value with the keys of a plain post alone, quickly; None for other values."""
    if not value.startswith(USUAL_STARTS):
        return None  # an exception costs as much as the decoding
    try:
        return read(value, decode_only_plain)
    except (msgspec.MsgspecError, ValueError):
        return None
