"""Which posts link to the pages of seeds."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from encoder.model.weights import I64
from worker.links import MAX_HOST_CHARS, MAX_LINK_CHARS, canonical_link, may_be_among
from worker.posts.attachments import MAX_LINKS
from worker.posts.outcome import Post
from worker.seeds.set import SeedLinks

TEXT_LINK = re.compile(r"https?://([^/?#\s<>\"\\]++)[^\s<>\"\\]*+", re.IGNORECASE)
TEXT_END = ".,;:!?…'”’»*。、！？"  # what ends a sentence or stress, not an address
MAX_END_CHARS = 16  # Each costs a pass over the address.
BRACKETS = {")": "(", "]": "[", "}": "{"}


def linked_pairs(posts: Sequence[Post], links: SeedLinks, times: I64) -> I64:
    """Posts, and the seeds to whose pages they link: [l, 2], each pair once, by post.

    A seed that had expired at the post's time is left out.
    """
    found = set[tuple[int, int]]()
    for place, post in enumerate(posts):
        if not ("://" in post.text or post.links or post.card):
            continue
        for address in post_links(post, links.hosts):
            for row, expiry in links.pages.get(canonical_link(address) or "", ()):
                if expiry > times[place]:
                    found.add((place, row))
    return np.array(sorted(found), np.int64).reshape(-1, 2)


def post_links(post: Post, hosts: frozenset[str]) -> Iterator[str]:
    """The addresses that a post links to: its links, its card, and those in its text.

    Those that are clearly of none of these canonical hosts are left out.
    """
    own = [*post.links, post.card.url] if post.card is not None else post.links
    for address in own:
        found = TEXT_LINK.match(address)
        if found and _may_be_among(found[1], hosts):
            yield address
    if "://" not in post.text:
        return
    for number, found in enumerate(TEXT_LINK.finditer(post.text)):
        if number == MAX_LINKS:
            return
        if _may_be_among(found[1], hosts):
            # Some platforms escape the text as HTML.
            yield strip_end(found[0][: MAX_LINK_CHARS + 1].replace("&amp;", "&"))


def _may_be_among(host: str, hosts: frozenset[str]) -> bool:
    return len(host) <= MAX_HOST_CHARS and may_be_among(host, hosts)


def strip_end(address: str) -> str:
    """Without what ends the sentence around it, such as a bracket that it does not open."""
    for _ in range(MAX_END_CHARS):
        last = address[-1:]
        is_closing = last in BRACKETS and address.count(last) > address.count(BRACKETS[last])
        if not last or not (last in TEXT_END or is_closing):
            break
        address = address[:-1]
    return address
