"""The sample posts and articles of `newsift demo`, in the formats of the platforms."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from newsift.operations.seed_drafts import read_seed_files

SAMPLES = Path(__file__).parents[2] / "worker" / "samples"


@dataclass(frozen=True, slots=True)
class SamplePost:
    id: int
    text: str
    event: str | None
    alt: Sequence[str] = ()
    card: dict[str, str] | None = None
    links: Sequence[str] = ()


def read_posts(*names: str) -> list[SamplePost]:
    """The posts of these files of samples, else the posts on all events."""
    files = names or ("attachments.jsonl", "posts.jsonl")
    texts = ((SAMPLES / name).read_text("utf-8") for name in files)
    rows = (json.loads(line) for text in texts for line in text.splitlines())
    return [SamplePost(**row | {"id": int(row["id"])}) for row in rows]


def read_articles() -> dict[str, bytes]:
    """The records of the articles by id, each with the address of a page."""
    drafts = read_seed_files([SAMPLES / "seeds"])
    return {d.id: replace(d, record=d.record | {"url": PAGES + d.id}).value for d in drafts}


PAGES = "https://courier.example/"  # to which some of the sample posts link
POST_TIME = "2026-03-01T10:00:00.000Z"
DID = "did:plc:newsiftdemo"
FIRST_X_ID, FIRST_MASTODON_ID = 1_890_000_000_000_000_000, 113_000_000_000_000_000

BROKEN_MESSAGES: tuple[bytes | None, ...] = (
    b'{"id": "poison-1", "text": "cut off in the mid',
    b'["a list", "is not a post"]',
    b'{"id": "poison-2", "text": ' + b"[" * 500 + b"]" * 500 + b"}",
    b'{"id": "poison-3", "text": "caf\xe9 on fire"}',
    b'{"id": "poison-4", "text": "half of an emoji: \\ud83d"}',
    b'{"data": {"text": "nobody knows which post this is"}}',
    b'{"id": "poison-5", "text": 404}',
    None,
    b'{"temperature": 21.5, "room": "kitchen"}',
)
BLUESKY_COMMIT = (
    '{"did": "%s", "kind": "commit", "commit": {"operation": "%s", "collection": "%s"}}'
)
BLUESKY_POSTS = "app.bsky.feed.post"
MESSAGES_WITHOUT_POST: tuple[bytes, ...] = (
    b'{"delete": {"status": {"id": 1, "id_str": "1", "user_id": 7}}}',
    (BLUESKY_COMMIT % (DID, "create", "app.bsky.feed.like")).encode(),
    (BLUESKY_COMMIT % (DID, "delete", "app.bsky.feed.post")).encode(),
    b'{"id": "picture-1", "text": ""}',
)


def as_message(post: SamplePost) -> bytes:
    """The post in the format of a platform; the platforms alternate by id."""
    kind, cards = BLUESKY_POSTS, [post.card] if post.card else []
    keys = [f"3_{number}" for number in range(len(post.alt))]
    addresses = [{"expanded_url": link} for link in post.links]
    addresses += [card | {"expanded_url": card["url"]} for card in cards]
    anchors = "".join(f'<p><a href="{escape(link)}">{escape(link)}</a></p>' for link in post.links)
    forms: tuple[dict[str, Any], ...] = (
        {
            "data": {
                "id": str(FIRST_X_ID + post.id), "text": post.text, "author_id": "7",
                "created_at": POST_TIME, "attachments": {"media_keys": keys},
                "entities": {"urls": addresses},
            },
            "includes": {
                "users": [{"id": "7", "username": "sample"}],
                "media": [
                    {"media_key": key, "type": "photo", "alt_text": alt}
                    for key, alt in zip(keys, post.alt, strict=True)
                ],
            },
        },
        {
            "did": DID,
            "kind": "commit",
            "commit": {
                "operation": "create", "collection": kind, "rkey": bluesky_key(post.id),
                "record": {
                    "$type": kind, "text": post.text, "createdAt": POST_TIME,
                    "facets": [{"features": [{"uri": link}]} for link in post.links],
                    "embed": {
                        "external": cards[0] | {"uri": cards[0]["url"]} if cards else None,
                        "images": [{"alt": alt} for alt in post.alt],
                    },
                },
            },
        },
        {
            "id": str(FIRST_MASTODON_ID + post.id),
            "content": f"<p>{escape(post.text)}</p>{anchors}",
            "card": post.card, "media_attachments": [{"description": alt} for alt in post.alt],
            "account": {"acct": "sample@social.example"}, "created_at": POST_TIME,
            "uri": f"https://social.example/users/sample/statuses/{post.id}",
        },
        {"id": f"sample-{post.id}", "text": post.text, "alt": post.alt, "card": post.card,
         "links": post.links},
    )  # fmt: skip
    return json.dumps(forms[post.id % len(forms)], ensure_ascii=False).encode()


def bluesky_key(id: int) -> str:
    return f"3demo{id:08d}"


def as_deletion(id: int) -> bytes:
    """Of a post that was published as one of Bluesky."""
    commit = {"operation": "delete", "collection": BLUESKY_POSTS, "rkey": bluesky_key(id)}
    return json.dumps({"did": DID, "kind": "commit", "commit": commit}).encode()
