"""The addresses that a post links to."""

import re
from collections.abc import Iterator

from worker.links import MAX_LINK_CHARS
from worker.posts.attachments import MAX_LINKS
from worker.posts.outcome import Post

TEXT_LINK = re.compile(r"https?://[^\s<>\"\\]++", re.IGNORECASE)
TEXT_END = ".,;:!?…'”’"  # what ends a sentence, not an address
BRACKETS = {")": "(", "]": "[", "}": "{"}


def post_links(post: Post) -> Iterator[str]:
    """The addresses that a post links to: its links, its card, and those in its text."""
    yield from post.links
    if post.card is not None and post.card.url:
        yield post.card.url
    if "://" in post.text:
        for number, found in enumerate(TEXT_LINK.finditer(post.text)):
            if number == MAX_LINKS:
                return
            yield strip_end(found[0][: MAX_LINK_CHARS + 1])


def strip_end(address: str) -> str:
    """Without what ends the sentence around it, such as a bracket that it does not open."""
    while address:
        last = address[-1]
        is_closing = last in BRACKETS and address.count(last) > address.count(BRACKETS[last])
        if not (last in TEXT_END or is_closing):
            return address
        address = address[:-1]
    return address
