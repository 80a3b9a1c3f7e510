"""Plain posts: {"id", "text"} and optional keys."""

import msgspec

from worker.posts.checks import make_post
from worker.posts.outcome import Reading


class Plain(msgspec.Struct):
    id: str | int | None = None
    text: str | None = None
    author: str | None = None
    created_at: str | int | float | None = None
    lang: str | None = None
    url: str | None = None


DECODER = msgspec.json.Decoder(Plain)


def read(value: bytes) -> Reading:
    post = DECODER.decode(value)
    return make_post("plain", post.id, post.text, post.author, post.created_at, post.lang, post.url)
