"""Whom to ask about: draws that certify a threshold, and posts that a profile can learn from.

Everything is in the order of a hash of the post's name: as good as at random, and the same for
every worker and however often somebody asks. Half of all posts, by the hash too, can certify and
the other half can train, so that no profile is judged by what it was made of.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain, zip_longest

from worker.judge.labels import Label, PostId
from worker.posts.outcome import Post
from worker.posts.times import milliseconds, utc
from worker.seeds.record import digest

CERTIFYING = 0.5  # of all posts


@dataclass(frozen=True, slots=True)
class Candidate:
    """A post that somebody may be asked about; posts of one group say the same."""

    post: Post
    score: float
    group: str = ""  # of a post that stands for itself: none

    @property
    def post_id(self) -> PostId:
        """What names the post."""
        return self.post.platform, self.post.id


def draw_key(post_id: PostId) -> str:
    """The place of a post in every draw: 64 hex digits, equal on all workers."""
    return digest(list(post_id))


def certifies_only(post_id: PostId) -> bool:
    """Whether labels on this post certify and never train; of every other post they may train."""
    return int(draw_key(post_id)[-1], 16) % 2 == 0  # the order goes by the first digits


def distinct(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The first of each group, in the order given, and each post once."""
    found: dict[str | PostId, Candidate] = {}
    posts: set[PostId] = set()
    for candidate in candidates:
        if candidate.post_id not in posts:
            posts.add(candidate.post_id)
            found.setdefault(candidate.group or candidate.post_id, candidate)
    return list(found.values())


def to_certify(matches: Iterable[Candidate]) -> list[Candidate]:
    """The distinct matches whose labels certify, in the order in which they are drawn."""
    certifying = (match for match in distinct(matches) if certifies_only(match.post_id))
    return sorted(certifying, key=lambda match: draw_key(match.post_id))


def to_train(matches: Iterable[Candidate]) -> list[Candidate]:
    """The distinct matches whose labels may train, in the order in which they are drawn."""
    training = (match for match in distinct(matches) if not certifies_only(match.post_id))
    return sorted(training, key=lambda match: draw_key(match.post_id))


def frozen_until(labels: Iterable[Label]) -> int | None:
    """Until when matches are of the newest draw that these labels are of; None without a label.

    A label that names no queue was given once its match was there.
    """
    ends = (milliseconds(utc(label.queue.until if label.queue else label.at)) for label in labels)
    return max(ends, default=None)


def learn_queue(
    candidates: Iterable[Candidate], threshold: float, labelled: Collection[PostId], count: int
) -> list[Candidate]:
    """The nearest to the threshold of matches and near misses in turn, one of each group."""
    known = set(labelled)
    asked = [c for c in distinct(candidates) if not certifies_only(c.post_id)]
    asked = [c for c in asked if c.post_id not in known]
    asked.sort(key=lambda c: (abs(c.score - threshold), draw_key(c.post_id)))
    above = (c for c in asked if c.score >= threshold)
    below = (c for c in asked if c.score < threshold)
    both = chain.from_iterable(zip_longest(above, below))
    return [c for c in both if c is not None][:count]
