"""What the demo's stream brings: sample posts in the platforms' forms, poison, and the harmless."""

import json
import re
from html import escape
from typing import Any

from worker.cli.demo.samples import SamplePost
from worker.posts.read import Reason

WHEN = "2026-03-01T10:00:00.000Z"
DID = "did:plc:newsiftdemo"
ON_X, ON_MASTODON = 1_890_000_000_000_000_000, 113_000_000_000_000_000  # their ids count from here
RETWEET = re.compile(r"RT @(\w+): (.*)", re.DOTALL)

POISON: tuple[tuple[Reason, bytes | None], ...] = (
    (Reason.BAD_JSON, b'{"id": "poison-1", "text": "cut off in the mid'),
    (Reason.BAD_JSON, b"<html><body>502 Bad Gateway</body></html>"),
    (Reason.WRONG_TYPE, b'["a list", "is no post"]'),
    (Reason.TOO_DEEP, b'{"id": "poison-2", "text": ' + b"[" * 500 + b"]" * 500 + b"}"),
    (Reason.INVALID_UTF8, b'{"id": "poison-3", "text": "caf\xe9 on fire"}'),
    (Reason.LONE_SURROGATE, b'{"id": "poison-4", "text": "half of an emoji: \\ud83d"}'),
    (Reason.NO_ID, b'{"text": "nobody knows which post this is"}'),
    (Reason.NO_ID, b'{"id": "", "text": "nor this"}'),
    (Reason.NO_TEXT, b'{"id": "poison-5", "text": null}'),
    (Reason.NO_TEXT, b'{"id": "poison-6", "text": 404}'),
    (Reason.EMPTY_VALUE, None),
    (Reason.EMPTY_VALUE, b""),
    (Reason.UNKNOWN_FORM, b'{"temperature": 21.5, "room": "kitchen"}'),
)
EVENT = '{"did": "%s", "kind": "commit", "commit": {"operation": "%s", "collection": "%s"}}'
HARMLESS: tuple[bytes, ...] = (
    b'{"delete": {"status": {"id": 1, "id_str": "1", "user_id": 7}}}',
    b'{"did": "did:plc:newsiftdemo", "kind": "identity", "identity": {"handle": "a.example"}}',
    (EVENT % (DID, "create", "app.bsky.feed.like")).encode(),
    (EVENT % (DID, "delete", "app.bsky.feed.post")).encode(),
    b'{"id": "picture-1", "text": ""}',
)


def as_message(post: SamplePost) -> bytes:
    """The bytes in which a platform would send the post: retweets X's, others by all in turn."""
    turn = RETWEETED if RETWEET.match(post.text) else FORMS
    return json.dumps(turn[post.id % len(turn)](post), ensure_ascii=False).encode()


def _x(post: SamplePost) -> dict[str, Any]:
    tweet: dict[str, Any] = {"id": str(ON_X + post.id), "text": post.text, "author_id": "7"}
    includes: dict[str, Any] = {"users": [{"id": "7", "username": "sample"}]}
    if found := RETWEET.match(post.text):
        tweet["referenced_tweets"] = [{"type": "retweeted", "id": str(ON_X - post.id)}]
        includes["tweets"] = [{"id": str(ON_X - post.id), "text": found[2]}]
    return {"data": tweet | {"created_at": WHEN}, "includes": includes}


def _x1(post: SamplePost) -> dict[str, Any]:
    user = {"screen_name": "sample"}
    tweet: dict[str, Any] = {"id_str": str(ON_X + post.id), "text": post.text, "user": user}
    if found := RETWEET.match(post.text):
        original = {"id_str": str(ON_X - post.id), "text": found[2]}
        tweet["retweeted_status"] = original | {"user": {"screen_name": found[1]}}
    return tweet | {"created_at": "Sun Mar 01 10:00:00 +0000 2026"}


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


FORMS, RETWEETED = (_x, _x1, _bluesky, _mastodon, _plain), (_x, _x1)
