"""What an event can learn from a stream: its best distinct posts, and how many matched, bounded."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from encoder.embeddings import Embeddings
from worker.background.draw import place_of
from worker.judge.draw import certifies_only
from worker.judge.feedback import Voices
from worker.posts.outcome import Post
from worker.seeds.vectors import EventVector

KEPT = 1_000  # posts; an event learns from twenty, of which some may say the same
MOST_COUNTED = 100_000  # matches, by what they say


def author_of(post: Post) -> Hashable | None:
    """Who wrote a post; None where its platform does not say."""
    return None if post.author is None else (post.platform, post.author)


class Pool:
    """The best posts of a stream by the mean of an event's seeds, which may train its profile.

    Of each author and of each group of copies the best alone stays, whatever comes.
    """

    def __init__(self, by: EventVector, empty: Embeddings, most: int = KEPT) -> None:
        self._by, self._most, self._floor = by, most, 0.0
        self._none = Voices.nobodys(empty)
        self.posts: list[Post] = []
        self.vectors = empty

    def add(self, posts: Sequence[Post], vectors: Embeddings) -> None:
        """Look at some posts; those that certify a threshold never train."""
        scores = self._by.scores(vectors)  # [n]
        high = np.flatnonzero(scores > self._floor).tolist()
        rows = [n for n in high if not certifies_only((posts[n].platform, posts[n].id))]
        self.posts += [posts[n] for n in rows]
        self.vectors = Embeddings.concat([self.vectors, vectors[rows]])
        if len(self.posts) > 2 * self._most:
            self._keep_the_best()

    @property
    def voices(self) -> Voices:
        """The posts as an event hears them."""
        return Voices(self.vectors, [author_of(post) for post in self.posts])

    def _keep_the_best(self) -> None:
        best = self.voices.best(self._by, self._most, self._none)
        self.posts = [self.posts[n] for n in best.tolist()]
        self.vectors = self.vectors[best]
        if len(best) == self._most:
            self._floor = float(self._by.scores(self.vectors).min())


@dataclass
class Matches:
    """How many posts of a time were read, and how many different ones matched."""

    read: int = 0
    _said: set[int] = field(default_factory=set)

    @property
    def matched(self) -> int:
        """The posts that matched; those that say the same to the letter are one."""
        return len(self._said)

    def add(self, read: int, matched: Iterable[str]) -> None:
        """Count some posts, and the texts of those that match."""
        self.read += read
        for text in matched:
            said = place_of(text)
            if said is not None and len(self._said) < MOST_COUNTED:
                self._said.add(said)
