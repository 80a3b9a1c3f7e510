"""Whom to ask about: draws that certify a threshold, and posts that a profile can learn from.

A queue is in the order of a hash of the posts' names, keyed by a nonce that is kept with it: at
random, the same however often somebody asks, and not to be chosen by whoever chooses ids. Half of
all posts, by the hash without a key, can certify, the same for every worker, and the other half can
train, so that no profile is judged by what it was made of.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain, zip_longest

from worker.judge.labels import Label, PostId, QueueName
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


def draw_key(post_id: PostId, nonce: str = "") -> str:
    """The place of a post in the draw of this nonce: 64 hex digits."""
    return digest([nonce, *post_id] if nonce else list(post_id))


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


def to_certify(matches: Iterable[Candidate], nonce: str = "") -> list[Candidate]:
    """The distinct matches whose labels certify, in the order in which they are drawn."""
    certifying = (match for match in distinct(matches) if certifies_only(match.post_id))
    return sorted(certifying, key=lambda match: draw_key(match.post_id, nonce))


def to_train(matches: Iterable[Candidate], nonce: str = "") -> list[Candidate]:
    """The distinct matches whose labels may train, in the order in which they are drawn."""
    training = (match for match in distinct(matches) if not certifies_only(match.post_id))
    return sorted(training, key=lambda match: draw_key(match.post_id, nonce))


def queue_of(labels: Iterable[Label]) -> QueueName | None:
    """The draw that labels are of: in the order of the first, with the matches of the newest.

    A label that names no queue was drawn without a nonce, once its match was there.
    """
    given = sorted(labels, key=lambda label: (milliseconds(utc(label.at)), label.key))
    if not given:
        return None
    names = [label.queue or QueueName("", label.at) for label in given]
    return QueueName(names[0].nonce, max((n.until for n in names), key=_milliseconds))


def _milliseconds(written: str) -> int:
    return milliseconds(utc(written))


def learn_queue(
    candidates: Iterable[Candidate], threshold: float, labelled: Collection[PostId], count: int,
    nonce: str = "",
) -> list[Candidate]:  # fmt: skip
    """The nearest to the threshold of matches and near misses in turn, one of each group."""
    known = set(labelled)
    asked = [c for c in distinct(candidates) if not certifies_only(c.post_id)]
    asked = [c for c in asked if c.post_id not in known]
    asked.sort(key=lambda c: (abs(c.score - threshold), draw_key(c.post_id, nonce)))
    above = (c for c in asked if c.score >= threshold)
    below = (c for c in asked if c.score < threshold)
    both = chain.from_iterable(zip_longest(above, below))
    return [c for c in both if c is not None][:count]
