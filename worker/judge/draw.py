"""Whom to ask about: draws that certify a threshold, and posts that a profile can learn from.

Everything is in the order of a hash of the post's name: as good as at random, and the same for
every worker and however often somebody asks. Half of all posts, by the hash too, can certify and
the other half can train, so that no profile is judged by what it was made of.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from worker.judge.anytime import FrozenCuts, Look
from worker.judge.labels import PostId
from worker.posts.outcome import Post
from worker.seeds.record import digest

CERTIFYING = 0.5  # of all posts

VerdictOf = Callable[[PostId], bool | None]  # the verdict on a post, if there is one


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


@dataclass(frozen=True, slots=True)
class Drawn:
    """A candidate that was drawn at random, and the probability that it had."""

    candidate: Candidate
    probability: float


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


def certify_queue(
    candidates: Sequence[Candidate], count: int, among: int | None = None
) -> list[Drawn]:
    """So many at random, one of each group; `count` is fixed before the first label.

    `among` so many posts they are the lowest of, where they are not all: a stratum of near misses.
    """
    drawn = to_certify(candidates)[:count]
    many = len(distinct(candidates)) if among is None else among
    return [Drawn(candidate, len(drawn) / many) for candidate in drawn]


def best_of(matches: Iterable[Candidate], count: int) -> list[Candidate]:
    """The so many distinct matches of the best scores, and those that score the same as the last.

    To draw from them alone is for rare events: few others are right.
    """
    found = distinct(matches)
    floor = sorted((match.score for match in found), reverse=True)[:count][-1:]
    return [match for match in found if floor and match.score >= floor[0]]


def cuts_between(
    matches: Iterable[Candidate], precision: float = 0.8, confidence: float = 0.9
) -> FrozenCuts:
    """The cuts between the matches that certify; to be kept, with them, before the first label."""
    return FrozenCuts.among([match.score for match in to_certify(matches)], precision, confidence)


def next_to_certify(
    cuts: FrozenCuts, matches: Iterable[Candidate], said: VerdictOf
) -> tuple[Look, Drawn | None]:
    """Where the labels stand, looked at after each, and the match to ask about next."""
    order = to_certify(matches)
    scores, keys = [m.score for m in order], [draw_key(m.post_id) for m in order]
    look = cuts.look(scores, keys, lambda place: said(order[place].post_id))
    return look, None if look.ask is None else Drawn(order[look.ask], CERTIFYING * look.share)


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


def random_part(
    matches: Sequence[Candidate], threshold: float, said: VerdictOf
) -> tuple[list[bool], float]:
    """The labels that stand for all distinct matches of a threshold, and the weight of each.

    What was labelled in the order of the draw, before the first gap, is a random part of them.
    """
    above = [match for match in distinct(matches) if match.score >= threshold]
    labels: list[bool] = []
    for match in to_certify(above):
        if (label := said(match.post_id)) is None:
            break
        labels.append(label)
    return labels, len(above) / len(labels) if labels else 0.0
