"""Deletions of posts as the platforms send them, among the messages of the posts topic.

See https://docs.bsky.app/blog/jetstream, https://docs.joinmastodon.org/methods/streaming/#events
and https://docs.x.com/x-api/compliance/streams/introduction.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import msgspec

from worker.config.limits import Limits
from worker.posts.bluesky import COMMIT_MESSAGE, POST_COLLECTION, CommitKeys
from worker.posts.checks import refusal
from worker.posts.outcome import PostId
from worker.posts.read import NOTICE, recognise_form
from worker.posts.times import MAX_TIME_CHARS, rfc3339, utc
from worker.posts.x import COMPLIANCE_MESSAGE, Id

DELETE_OPERATIONS = ("delete", "d")  # The first Jetstream used the short form.
DELETE_WORDS = (b'"delete"', b'"d"')  # A deletion of any form has one of them.
US_PER_MS = 1_000


class PostDeletion(NamedTuple):
    post_id: PostId
    at: str | None  # RFC 3339 in UTC, by the platform's clock; None where the event has no time


class Commit(CommitKeys, gc=False):
    """A commit of either interface, and what the second wraps with it."""

    message: str | None = msgspec.field(name="$type", default=None)
    did: str | None = None
    time: str | None = None


class BlueskyEvent(msgspec.Struct, gc=False):
    did: str | None = None
    time_us: int | None = None
    commit: Commit | None = None
    payload: Commit | None = None


class MastodonEvent(msgspec.Struct, gc=False):
    event: str | None = None
    payload: str | int | None = None


class DeletedStatus(msgspec.Struct, gc=False):
    id: Id | None = None
    id_str: str | None = None


class DeleteNotice(msgspec.Struct, gc=False):
    status: DeletedStatus
    timestamp_ms: str | int | None = None


class X1Message(msgspec.Struct, gc=False):
    """A message of X's API v1.1."""

    delete: DeleteNotice


BLUESKY_EVENT = msgspec.json.Decoder(BlueskyEvent)
MASTODON_EVENT = msgspec.json.Decoder(MastodonEvent)
X1_MESSAGE = msgspec.json.Decoder(X1Message)


def read_deletion(value: bytes | None, limits: Limits) -> PostDeletion | None:
    """None for any other message; never raises, whatever the bytes."""
    if not value or len(value) > limits.post_bytes:
        return None
    if not any(word in value for word in DELETE_WORDS) or refusal(value, limits) is not None:
        return None
    with suppress(msgspec.MsgspecError, RecursionError, ValueError):
        read = READERS.get(recognise_form(value))
        return read(value) if read else None
    return None


def _read_bluesky(value: bytes) -> PostDeletion | None:
    event = BLUESKY_EVENT.decode(value)
    commit, did, at = event.commit, event.did, None
    if event.payload is not None and event.payload.message == COMMIT_MESSAGE:
        commit, did = event.payload, event.payload.did
        at = utc(commit.time)
    elif event.time_us is not None:
        at = rfc3339(event.time_us // US_PER_MS)
    if commit is None or commit.collection != POST_COLLECTION or not (did and commit.rkey):
        return None
    if (commit.operation or commit.type) not in DELETE_OPERATIONS:
        return None
    return PostDeletion(("bluesky", f"at://{did}/{POST_COLLECTION}/{commit.rkey}"), at)


def _read_mastodon(value: bytes) -> PostDeletion | None:
    event = MASTODON_EVENT.decode(value)
    if event.event != "delete" or not event.payload:
        return None
    return PostDeletion(("mastodon", str(event.payload).strip()), None)


def _read_x(value: bytes) -> PostDeletion | None:
    event = COMPLIANCE_MESSAGE.decode(value).data.get("delete")
    if event is None or event.tweet is None or not event.tweet.id:
        return None
    return PostDeletion(("x", str(event.tweet.id)), utc(event.event_at))


def _read_x1(value: bytes) -> PostDeletion | None:
    notice = X1_MESSAGE.decode(value).delete
    id, time = notice.status.id_str or notice.status.id, str(notice.timestamp_ms)
    if not id:
        return None
    time_ms = int(time) if time.isdecimal() and len(time) <= MAX_TIME_CHARS else 0
    return PostDeletion(("x", str(id)), rfc3339(time_ms) if time_ms else None)


READERS: dict[str | None, Callable[[bytes], PostDeletion | None]] = {
    "bluesky": _read_bluesky,
    "mastodon": _read_mastodon,
    "x": _read_x,
    NOTICE: _read_x1,
}
