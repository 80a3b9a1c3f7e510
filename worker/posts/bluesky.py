"""Posts of Bluesky: the events of its Jetstream."""

import msgspec

from worker.posts.checks import rejected
from worker.posts.making import made
from worker.posts.outcome import NO_POST, Reading, Reason

POSTS = "app.bsky.feed.post"
WRITTEN = ("create", "update", "c", "u")  # in short as the first Jetstream had it


class PostRecord(msgspec.Struct):
    """What the author wrote."""

    text: str | None = None
    createdAt: str | None = None
    langs: list[str] | None = None


class Commit(msgspec.Struct):
    """One change in an author's repository."""

    operation: str | None = None
    type: str | None = None  # the first Jetstream's name of `operation`
    collection: str | None = None
    rkey: str | None = None
    record: msgspec.Raw = msgspec.Raw()


class Event(msgspec.Struct):
    """An event of the Jetstream."""

    did: str | None = None
    kind: str | None = None
    time_us: int | None = None
    commit: Commit | None = None


EVENT = msgspec.json.Decoder(Event)
POST_RECORD: msgspec.json.Decoder[PostRecord | None] = msgspec.json.Decoder(PostRecord | None)


def read(value: bytes) -> Reading:
    """The post in an event that creates or updates one."""
    event = EVENT.decode(value)
    if event.kind is None and event.time_us is None:
        return rejected(Reason.UNKNOWN_FORM, "kind: missing; this is no event of the Jetstream")
    commit = event.commit
    if commit is None or commit.collection != POSTS:
        return NO_POST
    if (commit.operation or commit.type) not in WRITTEN:
        return NO_POST
    if not event.did or not commit.rkey:
        key = "commit.rkey" if event.did else "did"
        return rejected(Reason.NO_ID, f"{key}: missing or empty")
    record = POST_RECORD.decode(commit.record) if commit.record else None
    if record is None:
        return rejected(Reason.NO_TEXT, "commit.record: missing")
    return made(
        "bluesky", f"at://{event.did}/{POSTS}/{commit.rkey}", record.text, event.did,
        record.createdAt, record.langs[0] if record.langs else None,
        f"https://bsky.app/profile/{event.did}/post/{commit.rkey}",
    )  # fmt: skip
