"""Label queues: draws that certify a threshold, and posts that a profile can learn from.

The order is that of a keyed hash of the posts' names: random, repeatable, and not to be influenced
by a choice of ids. Half of all posts, by the hash without a key, can certify; the other half can
train, so that no profile is judged by what it was made of.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol

from msgspec import UNSET, UnsetType

from newsift.statistics.estimates import Interval, share_interval
from newsift.statistics.labels import Draw, Label, QueueName
from newsift.statistics.promise import FrozenCuts, Look
from worker.match.reservoir import draw_key
from worker.posts.outcome import Post, PostId
from worker.posts.times import milliseconds, utc

CERTIFYING = 0.5  # of all posts


@dataclass(frozen=True, slots=True)
class Candidate:
    post: Post
    score: float
    group: str = ""  # of posts that say the same

    @property
    def post_id(self) -> PostId:
        return self.post.platform, self.post.id


def certifies_only(post_id: PostId) -> bool:
    """Whether labels on this post certify and never train; of every other post they may train."""
    return int(draw_key(post_id)[-1], 16) % 2 == 0  # the order goes by the first digits


def distinct(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The first of each group, in the order given, and each post once."""
    firsts: dict[str | PostId, Candidate] = {}
    posts: set[PostId] = set()
    for candidate in candidates:
        if candidate.post_id not in posts:
            posts.add(candidate.post_id)
            firsts.setdefault(candidate.group or candidate.post_id, candidate)
    return list(firsts.values())


def draw_order(
    matches: Iterable[Candidate], nonce: str = "", certify: bool = True
) -> list[Candidate]:
    """The distinct matches whose labels certify, or may train, in the order of the draw."""
    own = (match for match in distinct(matches) if certifies_only(match.post_id) == certify)
    return sorted(own, key=lambda match: draw_key(match.post_id, nonce))


def queue_of(labels: Iterable[Label]) -> QueueName | None:
    """The draw that labels are of: in the order of the first, with the matches of the newest.

    A label that names no queue was drawn without a nonce, once its match was there.
    """
    ordered = sorted(labels, key=lambda label: (milliseconds(utc(label.at)), label.key))
    if not ordered:
        return None
    names = [label.queue or QueueName("", label.at) for label in ordered]
    newest = max(names, key=lambda name: milliseconds(utc(name.until)))
    return QueueName(names[0].nonce, newest.until)


Verdicts = Mapping[PostId, bool]  # of one person: whether a post is on the event


@dataclass(frozen=True, slots=True)
class Question:
    """A post to label, and how it was drawn."""

    candidate: Candidate
    drawn: Draw
    probability: float | None = None
    queue: QueueName | UnsetType = UNSET


class Queue(Protocol):
    """Depends on the verdicts alone: a label that is undone is asked for again."""

    def next(self, verdicts: Verdicts) -> Question | None: ...

    def left(self, verdicts: Verdicts) -> int:
        """How many labels are missing, as far as that is known; 0 where no question is left."""

    def summary(self, verdicts: Verdicts) -> str: ...


class CertifyQueue:
    """The walk that certifies a threshold, with cuts that are frozen here, then all other matches.

    After the walk the rest of the certifying half follows in the order of the draw, for an
    estimate; then the half that trains. Neither changes what the walk shows.
    """

    def __init__(
        self,
        matches: Sequence[Candidate],
        precision: float = 0.8,
        confidence: float = 0.9,
        name: QueueName | UnsetType = UNSET,
    ) -> None:
        nonce = name.nonce if name else ""
        self._order = draw_order(matches, nonce)
        self._training = draw_order(matches, nonce, certify=False)
        self._matches, self._name = len(matches), name
        self._scores = [match.score for match in self._order]
        self._keys = [draw_key(match.post_id, nonce) for match in self._order]
        self._cuts = FrozenCuts.among(self._scores, precision, confidence)

    def look(self, verdicts: Verdicts) -> Look:
        order = self._order
        return self._cuts.look(self._scores, self._keys, lambda at: verdicts.get(order[at].post_id))

    def next(self, verdicts: Verdicts) -> Question | None:
        """Of the strictest cut that is not shown yet; after the walk, of all matches."""
        look = self.look(verdicts)
        if look.ask is not None:
            share = CERTIFYING * look.share
            return Question(self._order[look.ask], "certify", share, self._name)
        for place, match in enumerate(self._order, 1):
            if match.post_id not in verdicts:
                share = CERTIFYING * place / len(self._order)
                return Question(match, "certify", share, self._name)
        return _first_unlabelled(self._training, verdicts)

    def left(self, verdicts: Verdicts) -> int:
        """Labels until more is shown, if none is wrong; else until the end."""
        look = self.look(verdicts)
        return self._unread(verdicts) if look.ask is None else look.missing

    def summary(self, verdicts: Verdicts) -> str:
        look = self.look(verdicts)
        parts = []
        if look.threshold is not None:
            parts.append(f"precision {self._cuts.precision:g} from {look.threshold:.3f} on")
        if look.ask is not None:
            return "; ".join([*parts, f"{look.missing} more, if none is wrong"])
        parts += [
            part for part in (self.out_of_reach(look), self._estimated(look, verdicts)) if part
        ]
        return "; ".join([*parts, f"{self._unread(verdicts):,} unread"])

    def out_of_reach(self, look: Look) -> str:
        """Why no more can be promised; empty while it can, or once all cuts are shown."""
        if look.ask is not None or not look.missing:
            return ""
        held = f"{100 * self._cuts.precision:g} %"
        of = f"from {'these' if look.threshold is None else 'the others of these'}"
        cannot = f"{held} cannot be promised {of} {self._matches:,} matches"
        if not look.labelled:
            return f"{cannot}, which are too few"
        were = "was" if look.off == 1 else "were"
        return f"{look.off:,} of {look.labelled:,} {were} off; {cannot}"

    def estimate(self, look: Look, verdicts: Verdicts) -> tuple[Interval, int] | None:
        """The share of the matches that is on the event, with its interval, and by how many labels.

        Both within the last set of the walk and outside it, matches are labelled in the order of
        the draw: two strata, each with one weight. None before each has a label.
        """
        strata: list[list[bool | None]] = [[], []]
        for match in self._order:
            strata[look.cut is None or match.score < look.cut].append(verdicts.get(match.post_id))
        if len(strata[0]) and all(label is None for label in strata[0]):
            strata = [strata[0] + strata[1], []]
        on, weights = list[bool](), list[float]()
        for stratum in filter(None, strata):
            labels = [label for label in stratum if label is not None]
            if not labels:
                return None
            on += labels
            weights += [len(stratum) / len(labels)] * len(labels)
        return (share_interval(on, weights), len(on)) if on else None

    def _estimated(self, look: Look, verdicts: Verdicts) -> str:
        if (estimate := self.estimate(look, verdicts)) is None:
            return ""
        (low, share, high), labels = estimate
        word = "label" if labels == 1 else "labels"
        shown = f"{100 * share:.0f} % ({100 * low:.0f} to {100 * high:.0f})"
        return f"on the event: about {shown}, by {labels:,} {word}"

    def _unread(self, verdicts: Verdicts) -> int:
        return sum(match.post_id not in verdicts for match in (*self._order, *self._training))


class LearnQueue:
    """Matches and near misses in turn, the nearest to the threshold first, one of each group."""

    def __init__(self, candidates: Iterable[Candidate], threshold: float, nonce: str = "") -> None:
        training = [c for c in distinct(candidates) if not certifies_only(c.post_id)]
        training.sort(key=lambda c: (abs(c.score - threshold), draw_key(c.post_id, nonce)))
        above = (c for c in training if c.score >= threshold)
        below = (c for c in training if c.score < threshold)
        self.order = [c for pair in zip_longest(above, below) for c in pair if c is not None]

    def next(self, verdicts: Verdicts) -> Question | None:
        return _first_unlabelled(self.order, verdicts)

    def left(self, verdicts: Verdicts) -> int:
        return sum(each.post_id not in verdicts for each in self.order)

    def summary(self, verdicts: Verdicts) -> str:
        return f"{self.left(verdicts):,} left around the threshold"


def _first_unlabelled(order: Iterable[Candidate], verdicts: Verdicts) -> Question | None:
    unlabelled = (each for each in order if each.post_id not in verdicts)
    first = next(unlabelled, None)
    return None if first is None else Question(first, "learn")
