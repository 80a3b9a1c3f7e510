"""The last step of every form: an id and a text make a post."""

from worker.posts.checks import rejected
from worker.posts.outcome import NO_WORDS, Post, Reading, Reason
from worker.posts.times import utc


def made(
    platform: str, id: str | int | None, text: str | None, author: str | None = None,
    created_at: str | float | None = None, lang: str | None = None, url: str | None = None,
) -> Reading:  # fmt: skip
    """The post, or why there is none: without an id or a text rejected, without words passed."""
    name = str(id).strip() if id is not None else ""
    if not name:
        return rejected(Reason.NO_ID, f"id: {'missing' if id is None else 'empty'}")
    if text is None:
        return rejected(Reason.NO_TEXT, "text: missing")
    if not text or text.isspace():
        return NO_WORDS
    return Post(
        id=str(id), platform=platform, text=text, author=author or None,
        created_at=utc(created_at), lang=lang or None, url=url or None,
    )  # fmt: skip
