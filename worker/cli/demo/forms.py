"""Sample posts in the forms of the platforms, as the worker would get them."""

import json
import re
from collections.abc import Callable
from html import escape
from typing import Any

from worker.cli.demo.samples import SamplePost

WHEN = "2026-03-01T10:00:00.000Z"
DID = "did:plc:newsiftdemo"
FIRST = 1_890_000_000_000_000_000  # ids of X are counted from here
SHOWN = 140  # characters of a long post that the API v1.1 leaves in `text`
RETWEET = re.compile(r"RT @(\w+): (.*)", re.DOTALL)


def as_message(post: SamplePost, form: str) -> bytes:
    """The bytes in which a platform would send the post."""
    return json.dumps(MAKERS[form](post), ensure_ascii=False).encode()


def form_of(post: SamplePost) -> str:
    """The form in which the demo sends a post: retweets by X, the others by all in turn."""
    turn = ("x", "x1") if RETWEET.match(post.text) else tuple(MAKERS)
    return turn[post.id % len(turn)]


def _x(post: SamplePost) -> dict[str, Any]:
    name = str(FIRST + post.id)
    tweet: dict[str, Any] = {"id": name, "text": post.text, "author_id": "7", "created_at": WHEN}
    includes: dict[str, Any] = {"users": [{"id": "7", "username": "sample"}]}
    if found := RETWEET.match(post.text):
        original = str(FIRST - post.id)
        tweet["referenced_tweets"] = [{"type": "retweeted", "id": original}]
        includes["tweets"] = [{"id": original, "text": found[2]}]
    return {"data": tweet, "includes": includes}


def _x1(post: SamplePost) -> dict[str, Any]:
    tweet: dict[str, Any] = {
        "id_str": str(FIRST + post.id), "text": post.text, "user": {"screen_name": "sample"},
        "created_at": "Sun Mar 01 10:00:00 +0000 2026",
    }  # fmt: skip
    if len(post.text) > SHOWN:
        tweet |= {"text": post.text[: SHOWN - 1] + "…", "truncated": True}
        tweet["extended_tweet"] = {"full_text": post.text}
    if found := RETWEET.match(post.text):
        original = {"id_str": str(FIRST - post.id), "text": found[2]}
        tweet["retweeted_status"] = original | {"user": {"screen_name": found[1]}}
    return tweet


def _bluesky(post: SamplePost) -> dict[str, Any]:
    record = {"$type": "app.bsky.feed.post", "text": post.text, "createdAt": WHEN}
    commit = {
        "operation": "create", "collection": "app.bsky.feed.post", "rkey": f"3demo{post.id:08d}",
        "record": record,
    }  # fmt: skip
    return {"did": DID, "kind": "commit", "commit": commit}


def _mastodon(post: SamplePost) -> dict[str, Any]:
    return {
        "id": str(113_000_000_000_000_000 + post.id), "content": f"<p>{escape(post.text)}</p>",
        "account": {"acct": "sample@social.example"}, "created_at": WHEN,
        "uri": f"https://social.example/users/sample/statuses/{post.id}",
    }  # fmt: skip


def _plain(post: SamplePost) -> dict[str, Any]:
    return {"id": f"sample-{post.id}", "text": post.text}


MAKERS: dict[str, Callable[[SamplePost], dict[str, Any]]] = {
    "x": _x, "x1": _x1, "bluesky": _bluesky, "mastodon": _mastodon, "plain": _plain,
}  # fmt: skip
