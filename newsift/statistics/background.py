"""Posts of a background: a uniform draw from distinct ones, where authors take turns.

Copies would narrow the tail that thresholds are computed from. Posts on an event that has seeds are
left out: they are what is searched for.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from heapq import heappush, heappushpop

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.text.clean import POST_CHARS, clean_post
from worker.posts.read import Post
from worker.seeds.automatic import MIN_TAIL_POSTS

# Measured on three crises, one post in 200 on topic (docs/methods/thresholds.md): without it the
# event raises its own threshold until half its posts are lost; from 1.0 on everyday lookalikes go
# as well.
THRESHOLD_FACTOR = np.float32(1.2)
BLOCK_POSTS = 1024

SPARE_FACTOR = 2  # Twice the posts are drawn, so that authors can take turns.


class PostSampler:
    """Draws the posts that hash lowest, in one pass and bounded memory, whatever their order."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._posts: dict[int, Post] = {}  # by the hash of what they say
        self._highest: list[int] = []  # a heap of these hashes, negative
        self.read = self.copies = self.wordless = 0

    def add(self, post: Post) -> None:
        """Copies, and posts without words, are passed over."""
        self.read += 1
        key = text_hash(post.text)
        if key is None:
            self.wordless += 1
            return
        if key in self._posts:
            self.copies += 1
            return
        if len(self._posts) < SPARE_FACTOR * self._count:
            heappush(self._highest, -key)
        elif key < -self._highest[0]:
            del self._posts[-heappushpop(self._highest, -key)]
        else:
            return
        text = post.text[:POST_CHARS]
        self._posts[key] = replace(post, id="", text=text, created_at=None, url=None)

    def posts(self) -> list[Post]:
        """Up to SPARE_FACTOR times the number of posts, in the order of their hashes."""
        return [self._posts[key] for key in sorted(self._posts)]


def text_hash(text: str) -> int | None:
    """Ignores links, mentions, case and RT; None where nothing remains."""
    words = clean_post(text).casefold()
    return int.from_bytes(blake2b(words.encode(), digest_size=8).digest()) if words else None


def take_author_turns(posts: Sequence[Post], most: int) -> list[int]:
    """The indices of at most `most` posts: every author's first, then the seconds, and so on.

    A post without an author counts as a first.
    """
    turns: Counter[tuple[str, str]] = Counter()
    ranking: list[tuple[int, int]] = []
    for index, post in enumerate(posts):
        name = post.platform, post.author or ""
        ranking.append((turns[name], index))
        turns[name] += bool(post.author)
    return [index for _, index in sorted(ranking)[:most]]


def match_seeds(
    posts: Embeddings, seeds: Embeddings, enc: Encoder, rate: float
) -> NDArray[np.bool_]:
    """Whether posts score well above a seed's threshold on the model's background: [n]."""
    # as fine as that background can tell
    fine_rate = max(rate, MIN_TAIL_POSTS / max(len(enc.background), 1))
    thresholds = THRESHOLD_FACTOR * enc.thresholds(seeds, fine_rate, skim=posts.skimmed)  # [k]
    blocks = (posts[start : start + BLOCK_POSTS] for start in range(0, len(posts), BLOCK_POSTS))
    near = [(block.similarity(seeds) >= thresholds).any(axis=1) for block in blocks]
    return np.concatenate([np.zeros(0, np.bool_), *near])
