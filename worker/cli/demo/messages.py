"""What the demo's stream brings: sample posts in the platforms' forms, poison, and the harmless."""

import json
from html import escape
from typing import Any

from worker.cli.demo.samples import SamplePost

WHEN = "2026-03-01T10:00:00.000Z"
DID = "did:plc:newsiftdemo"
ON_X, ON_MASTODON = 1_890_000_000_000_000_000, 113_000_000_000_000_000  # their ids count from here

POISON: tuple[bytes | None, ...] = (
    b'{"id": "poison-1", "text": "cut off in the mid',
    b'["a list", "is no post"]',
    b'{"id": "poison-2", "text": ' + b"[" * 500 + b"]" * 500 + b"}",
    b'{"id": "poison-3", "text": "caf\xe9 on fire"}',
    b'{"id": "poison-4", "text": "half of an emoji: \\ud83d"}',
    b'{"text": "nobody knows which post this is"}',
    b'{"id": "poison-5", "text": 404}',
    None,
    b'{"temperature": 21.5, "room": "kitchen"}',
)
EVENT = '{"did": "%s", "kind": "commit", "commit": {"operation": "%s", "collection": "%s"}}'
HARMLESS: tuple[bytes, ...] = (
    b'{"delete": {"status": {"id": 1, "id_str": "1", "user_id": 7}}}',
    (EVENT % (DID, "create", "app.bsky.feed.like")).encode(),
    (EVENT % (DID, "delete", "app.bsky.feed.post")).encode(),
    b'{"id": "picture-1", "text": ""}',
)


def as_message(post: SamplePost) -> bytes:
    """The bytes in which a platform would send the post: all platforms in turn."""
    return json.dumps(FORMS[post.id % len(FORMS)](post), ensure_ascii=False).encode()


def _x(post: SamplePost) -> dict[str, Any]:
    tweet = {"id": str(ON_X + post.id), "text": post.text, "author_id": "7", "created_at": WHEN}
    return {"data": tweet, "includes": {"users": [{"id": "7", "username": "sample"}]}}


def _bluesky(post: SamplePost) -> dict[str, Any]:
    kind = "app.bsky.feed.post"
    record = {"$type": kind, "text": post.text, "createdAt": WHEN}
    commit = {"operation": "create", "collection": kind, "rkey": f"3demo{post.id:08d}"}
    return {"did": DID, "kind": "commit", "commit": commit | {"record": record}}


def _mastodon(post: SamplePost) -> dict[str, Any]:
    return {
        "id": str(ON_MASTODON + post.id), "content": f"<p>{escape(post.text)}</p>",
        "account": {"acct": "sample@social.example"}, "created_at": WHEN,
        "uri": f"https://social.example/users/sample/statuses/{post.id}",
    }  # fmt: skip


def _plain(post: SamplePost) -> dict[str, Any]:
    return {"id": f"sample-{post.id}", "text": post.text}


FORMS = (_x, _bluesky, _mastodon, _plain)
