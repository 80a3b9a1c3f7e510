"""The outbox that Mastodon exports: activities of ActivityPub as statuses of its API."""

import msgspec

from worker.posts.outcome import NO_POST, PassedOver

WRITTEN = ("Create", "Update")


class WrittenNote(msgspec.Struct):
    """What somebody wrote."""

    id: str | None = None
    content: str | None = None
    summary: str | None = None
    published: str | None = None
    url: str | None = None
    attributedTo: str | None = None
    contentMap: dict[str, str] | None = None


class Activity(msgspec.Struct):
    """What somebody did: wrote, shared, deleted."""

    type: str
    object: msgspec.Raw


ACTIVITY = msgspec.json.Decoder(Activity)
NOTE = msgspec.json.Decoder(WrittenNote)


def status_of(activity: bytes) -> bytes | PassedOver:
    """The status in an activity; what was only shared holds no text."""
    found = ACTIVITY.decode(activity)
    if found.type not in WRITTEN or not bytes(found.object).startswith(b"{"):
        return NO_POST
    note = NOTE.decode(found.object)
    spoken = next(iter(note.contentMap), None) if note.contentMap else None
    status = {
        "id": _last(note.id), "content": note.content, "spoiler_text": note.summary,
        "account": {"acct": _last(note.attributedTo)}, "created_at": note.published,
        "language": spoken, "uri": note.id, "url": note.url,
    }  # fmt: skip
    return msgspec.json.encode(status)


def _last(address: str | None) -> str | None:
    """The id or the name at the end of an address, as the API of that server gives it."""
    return None if address is None else address.rstrip("/").rpartition("/")[2]
