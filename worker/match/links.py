"""Which posts link to the pages of seeds."""

from collections.abc import Sequence

import numpy as np

from encoder.model.weights import I64
from worker.links import canonical_link
from worker.posts.links import post_links
from worker.posts.outcome import Post
from worker.seeds.links import SeedLinks


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
