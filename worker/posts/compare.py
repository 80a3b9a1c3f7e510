"""Which parts of a post are compared: its text, its pictures' descriptions, its link card."""

from collections.abc import Sequence

from msgspec.structs import replace

from worker.posts.outcome import Post

PARTS = ("text", "alt", "card")


def parse_parts(text: str) -> tuple[str, ...]:
    """Parts in their own order, from a list separated by commas, such as `posts.compare`."""
    named = {part.strip() for part in text.split(",")}
    return tuple(part for part in PARTS if part in named)


def compared_text(post: Post, parts: Sequence[str] = PARTS) -> str:
    """The text that matching sees; that of a post of text alone is its text."""
    if not (post.alt or post.card) and "text" in parts:
        return post.text
    texts = {
        "text": (post.text,),
        "alt": post.alt,
        "card": (post.card.title, post.card.description) if post.card else (),
    }
    return "\n".join(text for part in parts for text in texts[part] if text)


def as_text(post: Post, parts: Sequence[str] = PARTS) -> Post:
    """The post with all of it that is compared as its text."""
    text = compared_text(post, parts)
    return post if text is post.text else replace(post, text=text, alt=(), card=None)
