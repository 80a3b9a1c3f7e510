"""Plain posts: {"id", "text"}, and whatever else of a post's keys is there."""

import msgspec

from worker.posts.making import made
from worker.posts.outcome import Reading


class Plain(msgspec.Struct):
    """The keys of a plain post that are read."""

    id: str | int | None = None
    text: str | None = None
    author: str | None = None
    created_at: str | int | float | None = None
    lang: str | None = None
    url: str | None = None


DECODER = msgspec.json.Decoder(Plain)


def read(value: bytes) -> Reading:
    """The post in a plain object."""
    post = DECODER.decode(value)
    return made("plain", post.id, post.text, post.author, post.created_at, post.lang, post.url)
