"""Label queues: draws that certify a threshold, and posts that a profile can learn from.

The order is that of a keyed hash of the posts' names: random, repeatable, and not to be influenced
by a choice of ids. Half of all posts, by the hash without a key, can certify; the other half can
train, so that no profile is judged by what it was made of.
"""

from array import array
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol, TypeVar

import numpy as np
from msgspec import UNSET, UnsetType, structs

from newsift.statistics.distributions import clopper_pearson
from newsift.statistics.estimates import Estimate, percent, share_interval
from newsift.statistics.labels import DEFAULT_GOAL, CountDraw, Draw, Goal, Label, QueueName
from newsift.statistics.promise import CertifyProgress, FrozenCuts, LabelPlan
from worker.match.near import draw_key
from worker.posts.outcome import Post, PostId
from worker.posts.times import milliseconds, utc
from worker.text import plural

CERTIFY_SHARE = 0.5
ALPHA = 0.1  # An interval misses so often.
SMALL_EVENT = 60  # so many matches are read in some minutes


class Candidate(Protocol):
    """A post that a queue may ask about."""

    @property
    def post_id(self) -> PostId: ...
    @property
    def post(self) -> Post: ...
    @property
    def score(self) -> float: ...
    @property
    def group(self) -> str:
        """Of posts that say the same."""


CandidateT = TypeVar("CandidateT", bound=Candidate)


@dataclass(frozen=True, slots=True)
class ScoredPost:
    post: Post
    score: float
    group: str = ""

    @property
    def post_id(self) -> PostId:
        return self.post.post_id


def is_certify_post(post_id: PostId) -> bool:
    """Labels of these posts only certify; labels of all others may train."""
    return int(draw_key(post_id)[-1], 16) % 2 == 0  # the order goes by the first digits


def deduplicate(candidates: Iterable[CandidateT]) -> list[CandidateT]:
    """The first of each group, in the order given, and each post once."""
    firsts: dict[str | PostId, CandidateT] = {}
    posts: set[PostId] = set()
    for candidate in candidates:
        if candidate.post_id not in posts:
            posts.add(candidate.post_id)
            firsts.setdefault(candidate.group or candidate.post_id, candidate)
    return list(firsts.values())


def draw_halves(
    matches: Iterable[CandidateT], nonce: str = ""
) -> tuple[list[CandidateT], list[CandidateT]]:
    """The distinct matches in the order of the draw: whose labels certify, and may train."""
    certify: list[CandidateT] = []
    train: list[CandidateT] = []
    for match in deduplicate(matches):
        (certify if is_certify_post(match.post_id) else train).append(match)
    for half in (certify, train):
        half.sort(key=lambda match: draw_key(match.post_id, nonce))
    return certify, train


def draw_order(matches: Iterable[CandidateT], nonce: str = "") -> list[CandidateT]:
    """The distinct matches whose labels certify, in the order of the draw."""
    return draw_halves(matches, nonce)[0]


def draw_from_all(posts: Iterable[Post], nonce: str, most: int) -> tuple[list[Post], int]:
    """The first of the distinct posts in the order of the draw, and how many posts there are.

    Memory grows by eight bytes with a post.
    """
    first, limit, digests = dict[str, Post](), "g", array("Q")  # "g" is above all hex digits
    for post in posts:
        key = draw_key(post.post_id, nonce)
        digests.append(int(key[:16], 16))
        if key < limit:
            first.setdefault(key, post)
            if len(first) >= 2 * most:
                first = dict(sorted(first.items())[:most])
                limit = max(first)
    total = len(np.unique(np.asarray(digests, np.uint64)))
    return [post for _, post in sorted(first.items())[:most]], total


def current_queue(
    labels: Iterable[Label], matches: Container[PostId], profile: str | None = None
) -> QueueName | None:
    """The newest draw of these matches' random labels, with the nonce of the oldest.

    With `profile`, draws of matches by other versions are left out. A label without a queue counts
    as drawn without a nonce, at the label's time.
    """
    drawn = [
        label for label in labels
        if label.drawn == "certify" and label.post_id in matches
        and (profile is None or not label.queue or label.queue.profile in (UNSET, profile))
    ]  # fmt: skip
    by_time = sorted(drawn, key=lambda label: (milliseconds(utc(label.at)), label.key))
    if not by_time:
        return None
    names = [label.queue or QueueName("", label.at) for label in by_time]
    newest = max(names, key=lambda name: (name.test or 0, milliseconds(utc(name.until))))
    return structs.replace(newest, nonce=names[0].nonce)


def newest_test(labels: Iterable[Label]) -> int:
    """The number of the newest test that labels were drawn for; 0 without one."""
    drawn = (label.queue for label in labels if label.drawn == "certify")
    return max((queue.test or 0 for queue in drawn if queue), default=0)


def chosen_goal(labels: Iterable[Label]) -> Goal:
    """What the newest random label was to prove."""
    drawn = [label for label in labels if label.drawn == "certify" and label.queue]
    newest = max(drawn, key=lambda label: milliseconds(utc(label.at)), default=None)
    return newest.queue.goal or DEFAULT_GOAL if newest and newest.queue else DEFAULT_GOAL


Verdicts = Mapping[PostId, bool]  # of one person: whether a post is on the event


@dataclass(frozen=True, slots=True)
class Question:
    candidate: Candidate
    drawn: Draw
    probability: float | None = None
    queue: QueueName | UnsetType = UNSET
    count: CountDraw | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class ExactShare:
    """Of matches that are all read."""

    on: int
    all: int

    def __str__(self) -> str:
        share = f"{self.on:,} of {self.all:,} are on the event"
        return f"{share}: {percent(self.on / self.all)}%, exactly, as all are read"


class CertifyQueue:
    """The walk that certifies a threshold, with cuts that are frozen here, then all other matches.

    After the walk the rest of the certifying half follows in the order of the draw, for an
    estimate; then the half that trains. Neither changes what the walk proves.
    """

    def __init__(
        self,
        matches: Sequence[Candidate],
        precision: float = 0.8,
        confidence: float = 0.9,
        name: QueueName | UnsetType = UNSET,
        proven: float | None = None,
    ) -> None:
        """`proven` is a threshold that was proven before."""
        nonce = name.nonce if name else ""
        self._order, self._training = draw_halves(matches, nonce)
        self._matches, self._name = len(matches), name
        scores = [match.score for match in self._order]
        self._cuts = FrozenCuts(scores, precision, confidence, proven)
        if self._name and not self.plan().for_all:
            self._name = structs.replace(self._name, test=UNSET)

    def accepts(self, label: Label) -> bool:
        """Whether this label of a judge answers a question; else it is asked again."""
        return label.drawn != "given"

    def progress(self, verdicts: Verdicts) -> CertifyProgress:
        return self._cuts.progress(lambda place: verdicts.get(self._order[place].post_id))

    def next(self, verdicts: Verdicts) -> Question | None:
        """A question from the strictest unproven cut; after those, from all matches."""
        progress = self.progress(verdicts)
        if progress.next_match is not None:
            probability = CERTIFY_SHARE * progress.share
            return Question(self._order[progress.next_match], "certify", probability, self._name)
        for place, match in enumerate(self._order, 1):
            if match.post_id not in verdicts:
                probability = CERTIFY_SHARE * place / len(self._order)
                return Question(match, "certify", probability, self._name)
        return _first_unlabelled(self._training, verdicts)

    @property
    def _percent(self) -> str:
        return f"{100 * self._cuts.precision:g} %"

    def plan(self) -> LabelPlan:
        return self._cuts.plan()

    def labels_left(self, verdicts: Verdicts) -> int:
        """Labels until more is proven, if none is wrong; all that remain if nothing can be."""
        progress = self.progress(verdicts)
        return self._unlabelled_count(verdicts) if progress.next_match is None else progress.missing

    def lines(self, verdicts: Verdicts) -> list[str]:
        """What is proven, what is missing or cannot be, what the share is about, what is unread."""
        progress, unread = self.progress(verdicts), self._unlabelled_count(verdicts)
        lines = []
        if progress.threshold is not None:
            lines.append(f"{self._percent} proven from {progress.threshold:.3f} on")
        if progress.next_match is not None:
            return [*lines, f"{plural(progress.missing, 'more label')}, if none is off"]
        if (exact := self.exact_share(verdicts)) is not None:
            return [*lines, str(exact)]
        if 0 < (count := len(self._order) + len(self._training)) <= SMALL_EVENT:
            lines.append(
                f"{count:,} different matches: read them all, and you know the share exactly"
            )
        texts = self.out_of_reach(progress), self._estimate_text(progress, verdicts)
        return [*lines, *filter(None, texts), f"{unread:,} of them unread"]

    def exact_share(self, verdicts: Verdicts) -> ExactShare | None:
        """None before all matches are read."""
        everything = [*self._order, *self._training]
        if not everything or self._unlabelled_count(verdicts):
            return None
        return ExactShare(sum(verdicts[match.post_id] for match in everything), len(everything))

    def out_of_reach(self, progress: CertifyProgress) -> str:
        """Why no more can be promised; empty while it can, or once all cuts are proven."""
        if progress.next_match is not None or not progress.missing:
            return ""
        base = "these" if progress.threshold is None else "the others of these"
        cannot = f"{self._percent} cannot be promised from {base} {self._matches:,} matches"
        if not progress.label_count:
            return f"{cannot}, which are too few"
        verb = "was" if progress.off == 1 else "were"
        return f"{progress.off:,} of {progress.label_count:,} {verb} off, so {cannot}"

    def estimate(
        self, progress: CertifyProgress, verdicts: Verdicts
    ) -> tuple[Estimate, int] | None:
        """The share of the matches on the event, with its interval, and the number of labels.

        Both within the last set of the walk and outside it, matches are labelled in the order of
        the draw: two strata, each with one weight. None before each has a label.
        """
        strata: list[list[bool | None]] = [[], []]
        for match in self._order:
            is_outside = progress.cut is None or match.score < progress.cut
            strata[is_outside].append(verdicts.get(match.post_id))
        if len(strata[0]) and all(label is None for label in strata[0]):
            # No label inside the last set: one stratum.
            strata = [strata[0] + strata[1], []]
        on, weights = list[bool](), list[float]()
        for stratum in filter(None, strata):
            labels = [label for label in stratum if label is not None]
            if not labels:
                return None
            on += labels
            weights += [len(stratum) / len(labels)] * len(labels)
        return (share_interval(on, weights), len(on)) if on else None

    def _estimate_text(self, progress: CertifyProgress, verdicts: Verdicts) -> str:
        if (estimate := self.estimate(progress, verdicts)) is None:
            return ""
        (low, share, high), labels = estimate
        share_text = f"{percent(share)} % ({percent(low)} to {percent(high)})"
        return f"about {share_text} of all are on the event, by {plural(labels, 'label')}"

    def _unlabelled_count(self, verdicts: Verdicts) -> int:
        return sum(match.post_id not in verdicts for match in (*self._order, *self._training))


class LearnQueue:
    """Matches and near misses in turn, the nearest to the threshold first, one of each group."""

    def __init__(self, candidates: Iterable[Candidate], threshold: float, nonce: str = "") -> None:
        training = [c for c in deduplicate(candidates) if not is_certify_post(c.post_id)]
        training.sort(key=lambda c: (abs(c.score - threshold), draw_key(c.post_id, nonce)))
        above = (c for c in training if c.score >= threshold)
        below = (c for c in training if c.score < threshold)
        self.order = [c for pair in zip_longest(above, below) for c in pair if c is not None]

    def accepts(self, _: Label) -> bool:
        return True

    def next(self, verdicts: Verdicts) -> Question | None:
        return _first_unlabelled(self.order, verdicts)

    def labels_left(self, verdicts: Verdicts) -> int:
        return sum(match.post_id not in verdicts for match in self.order)

    def lines(self, verdicts: Verdicts) -> list[str]:
        return [f"{self.labels_left(verdicts):,} left around the threshold"]


class CountQueue:
    """All questions of a draw for a count, in an order that is fixed."""

    def __init__(
        self, questions: Sequence[Question], nonce: str, before: frozenset[str] = frozenset()
    ) -> None:
        """`before` are the nonces of the draws that had labels when this one was made."""
        self.questions, self._nonce, self._before = questions, nonce, before

    def is_begun(self, labels: Iterable[Label]) -> bool:
        return any(map(self.accepts, labels))

    def is_outrun(self, labels: Iterable[Label]) -> bool:
        """Whether somebody has begun another draw since; two at once would divide the labels."""
        drawn = (label for label in labels if label.drawn == "count" and label.queue)
        nonces = {label.queue.nonce for label in drawn if label.queue}
        return self._nonce not in nonces and not nonces <= self._before

    def accepts(self, label: Label) -> bool:
        """Labels of this draw alone: others may have been chosen by a look at posts."""
        nonce = label.queue.nonce if label.queue else None
        return label.drawn == "count" and nonce == self._nonce

    def next(self, verdicts: Verdicts) -> Question | None:
        return next((q for q in self.questions if q.candidate.post_id not in verdicts), None)

    def labels_left(self, verdicts: Verdicts) -> int:
        return sum(question.candidate.post_id not in verdicts for question in self.questions)

    def lines(self, verdicts: Verdicts) -> list[str]:
        if not (left := self.labels_left(verdicts)):
            return [f"all {len(self.questions):,} drawn for the count are labelled"]
        return [f"{left:,} left of {len(self.questions):,} drawn for the count"]


class AnyQueue:
    """All posts of a file in random order, whether they match or not, for the recall in the file.

    Figures are of the posts up to the first one without a label: what else is labelled may have
    been chosen for its score.
    """

    def __init__(
        self, order: Sequence[Candidate], total: int, matched: Container[PostId], name: QueueName
    ) -> None:
        """`order` has the first posts of the draw, of `total` in the file."""
        self.order, self._total, self._matched, self._name = order, total, matched, name

    def accepts(self, _: Label) -> bool:
        return True

    def next(self, verdicts: Verdicts) -> Question | None:
        place = self._read(verdicts)
        if place == len(self.order):
            return None
        return Question(self.order[place], "any", (place + 1) / self._total, self._name)

    def labels_left(self, verdicts: Verdicts) -> int:
        return self._total - self._read(verdicts)

    def hits(self, verdicts: Verdicts) -> list[bool]:
        """Of each post that was read and is on the event, whether it matches."""
        read = self.order[: self._read(verdicts)]
        return [post.post_id in self._matched for post in read if verdicts[post.post_id]]

    def recall(self, verdicts: Verdicts) -> Estimate | None:
        """The share of the event's posts that match; None before one is read."""
        if not (hits := self.hits(verdicts)):
            return None
        share = sum(hits) / len(hits)
        if self._read(verdicts) == self._total:
            return share, share, share
        low, high = clopper_pearson(sum(hits), len(hits), ALPHA)
        return low, share, high

    def lines(self, verdicts: Verdicts) -> list[str]:
        read, hits = self._read(verdicts), self.hits(verdicts)
        lines = [f"{read:,} of {self._total:,} posts of the file are read"]
        lines += [f"{len(hits):,} of them on the event, of which {sum(hits):,} match"]
        if (recall := self.recall(verdicts)) is None:
            return [*lines, "recall is not known before one on the event is read"]
        low, share, high = map(percent, recall)
        if read == self._total:
            return [*lines, f"recall in the file: {share} %, exactly, as all are read"]
        least, most = (self._total * part for part in clopper_pearson(len(hits), read, ALPHA))
        about = f"about {self._total * len(hits) / read:,.0f} posts of the file are on the event"
        return [
            *lines, f"recall in the file: about {share} % ({low} to {high})",
            f"{about} ({least:,.0f} to {most:,.0f})",
        ]  # fmt: skip

    def _read(self, verdicts: Verdicts) -> int:
        places = (n for n, post in enumerate(self.order) if post.post_id not in verdicts)
        return next(places, len(self.order))


# Without state: the verdicts alone decide the next question.
Queue = CertifyQueue | LearnQueue | CountQueue | AnyQueue


def _first_unlabelled(order: Iterable[Candidate], verdicts: Verdicts) -> Question | None:
    first = next((match for match in order if match.post_id not in verdicts), None)
    return None if first is None else Question(first, "learn")
