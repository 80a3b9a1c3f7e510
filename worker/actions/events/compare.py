"""Before and after: what passes now, what would, and which posts come and go."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nlargest

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.model.weights import F32
from worker.match.matcher import Matcher
from worker.posts.outcome import Post
from worker.seeds.background import sides_of
from worker.seeds.set import SeedSet

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Scored:
    """A post that comes or goes, and its score where it passes."""

    post: Post
    score: float


@dataclass
class Comparison:
    """Two sets of what posts are compared with, and how many posts pass each."""

    before: SeedSet
    after: SeedSet
    read: int = 0
    passes: list[int] = field(default_factory=lambda: [0, 0])
    come: list[Scored] = field(default_factory=list)
    go: list[Scored] = field(default_factory=list)

    def add(self, posts: Sequence[Post], vectors: Embeddings) -> None:
        """Look at some posts."""
        (was, scores), (will, later) = (passing(s, vectors) for s in (self.before, self.after))
        self.read += len(posts)
        self.passes = [self.passes[0] + int(was.sum()), self.passes[1] + int(will.sum())]
        self.come = _best(self.come, posts, will & ~was, later)
        self.go = _best(self.go, posts, was & ~will, scores)

    def of_the_background(self, background: Embeddings) -> tuple[float, float]:
        """How many of 1,000 background posts pass, before and after, of those not learned from."""
        posts = sides_of(background)[1]
        shares = (passing(seeds, posts)[0].mean() for seeds in (self.before, self.after))
        before, after = (1000 * float(share) for share in shares)
        return before, after


def passing(seeds: SeedSet, vectors: Embeddings) -> tuple[NDArray[np.bool_], F32]:
    """Which posts match at least one seed, and the best score of each."""
    found = Matcher(seeds, most=1).match(vectors, np.zeros(len(vectors), np.int64))
    return found.counts > 0, found.best


def _best(
    kept: Sequence[Scored], posts: Sequence[Post], which: NDArray[np.bool_], scores: F32
) -> list[Scored]:
    """The best of those kept and of these posts, of each text one."""
    fresh = [Scored(posts[n], float(scores[n])) for n in np.flatnonzero(which).tolist()]
    found = {each.post.text: each for each in (*fresh, *kept)}
    return nlargest(SHOWN, found.values(), key=lambda each: (each.score, each.post.id))
