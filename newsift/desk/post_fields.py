"""A post as pages show it."""

from typing import Any

from worker.posts.attachments import MAX_LINKS, MAX_PICTURES
from worker.posts.outcome import Post
from worker.posts.times import utc
from worker.text import shorten

MAX_POST_CHARS, MAX_AUTHOR_CHARS, MAX_URL_CHARS = 50_000, 200, 1_024
MAX_ATTACHMENT_CHARS = 300  # of what a picture shows, and of a card's title and description


def post_fields(post: Post, text_chars: int = MAX_POST_CHARS) -> dict[str, Any]:
    """Bounded: whoever may write to a topic may have written long texts."""
    card = post.card
    return {
        "id": post.id,
        "platform": post.platform,
        "text": shorten(post.text, text_chars),
        "author": shorten(post.author or "", MAX_AUTHOR_CHARS),
        "created_at": utc(post.created_at),
        "url": post.url if len(post.url or "") <= MAX_URL_CHARS else None,
        "alt": [shorten(text, MAX_ATTACHMENT_CHARS) for text in post.alt[:MAX_PICTURES]],
        "card": None
        if card is None
        else {
            "url": shorten(card.url, MAX_URL_CHARS),
            "title": shorten(card.title, MAX_ATTACHMENT_CHARS),
            "description": shorten(card.description, MAX_ATTACHMENT_CHARS),
        },
        "links": [link for link in post.links[:MAX_LINKS] if len(link) <= MAX_URL_CHARS],
    }
