"""Submissions and comments of Reddit: as the dumps have them, and in the listings of its API."""

from collections.abc import Iterator

import msgspec

from worker.files.messages import plain_post

Raw = msgspec.Raw
SITE = "https://www.reddit.com"
GONE = ("[deleted]", "[removed]")
SUBMISSION, COMMENT, LISTING = "t3", "t1", "Listing"


class Thing(msgspec.Struct):
    """A submission (`title`, `selftext`) or a comment (`body`)."""

    id: str | None = None
    name: str | None = None
    title: str | None = None
    selftext: str | None = None
    body: str | None = None
    author: str | None = None
    created_utc: int | float | str | None = None
    permalink: str | None = None
    replies: Raw = Raw()


class Wrapped(msgspec.Struct):
    """Anything of the API: its kind and what it is."""

    kind: str
    data: Raw


class Listing(msgspec.Struct):
    """A page of things."""

    children: list[Wrapped]


THING = msgspec.json.Decoder(Thing)
WRAPPED = msgspec.json.Decoder(Wrapped)
OF_LISTING = msgspec.json.Decoder(Listing)


def things_of(listing: bytes) -> Iterator[bytes]:
    """The submissions and comments of a listing or of one thing, each before its replies."""
    waiting = [WRAPPED.decode(listing)]
    while waiting:
        next_one = waiting.pop()
        if next_one.kind == LISTING:
            waiting.extend(reversed(OF_LISTING.decode(next_one.data).children))
        elif next_one.kind in (SUBMISSION, COMMENT):
            yield bytes(next_one.data)
            replies = bytes(THING.decode(next_one.data).replies)
            if replies.startswith(b"{"):
                waiting.append(WRAPPED.decode(replies))


def submission_or_comment(thing: bytes) -> bytes:
    """A plain post with the title and the text of a submission, or the text of a comment."""
    found = THING.decode(thing)
    kind = SUBMISSION if found.body is None else COMMENT
    parts = (found.body,) if kind == COMMENT else (found.title, found.selftext)
    text = "\n\n".join(part for part in parts if part and part not in GONE)
    name = found.name or (f"{kind}_{found.id}" if found.id else None)
    url = f"{SITE}{found.permalink}" if found.permalink else None
    written = found.created_utc
    time = float(written) if isinstance(written, str) else written
    return plain_post(text, name, author=found.author, created_at=time, url=url)
