"""Whom to ask about next, as the labels stand: to certify a threshold, or to learn from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import UNSET, UnsetType

from worker.judge.anytime import FrozenCuts, Look
from worker.judge.draw import CERTIFYING, Candidate, draw_key, learn_queue, to_certify, to_train
from worker.judge.labels import Draw, PostId, QueueName
from worker.judge.recall import Interval, share_interval

Said = Mapping[PostId, bool]  # whether a post is on the event, by who is asked


@dataclass(frozen=True, slots=True)
class Question:
    """A post to ask about, how it was drawn, and with which probability."""

    candidate: Candidate
    drawn: Draw
    probability: float | None = None
    queue: QueueName | UnsetType = UNSET


class Queue(Protocol):
    """What asks about one post after the other; an answer taken back is asked for again."""

    def next(self, said: Said) -> Question | None:
        """The next question, or none."""

    def left(self, said: Said) -> int:
        """How many labels are missing, as far as one knows; 0 where no question is left."""

    def told(self, said: Said) -> str:
        """How far it is."""


class CertifyQueue:
    """The walk of the anytime form over matches, then all the others: its cuts are frozen here.

    Once the walk has ended, what is left of the half that certifies is asked about in the order of
    the draw, for an estimate; then the half that trains. None of it changes what the walk shows.
    """

    def __init__(
        self,
        matches: Sequence[Candidate],
        precision: float = 0.8,
        confidence: float = 0.9,
        name: QueueName | UnsetType = UNSET,
    ) -> None:
        nonce = name.nonce if name else ""
        self._order, self._training = to_certify(matches, nonce), to_train(matches, nonce)
        self._matches, self._name = len(matches), name
        self._scores = [match.score for match in self._order]
        self._keys = [draw_key(match.post_id, nonce) for match in self._order]
        self._cuts = FrozenCuts.among(self._scores, precision, confidence)

    def look(self, said: Said) -> Look:
        """What the labels show by now."""
        names = self._order
        return self._cuts.look(self._scores, self._keys, lambda at: said.get(names[at].post_id))

    def next(self, said: Said) -> Question | None:
        """The next match of the strictest cut that is not shown yet; after that, of all."""
        look = self.look(said)
        if look.ask is not None:
            share = CERTIFYING * look.share
            return Question(self._order[look.ask], "certify", share, self._name)
        for place, match in enumerate(self._order, 1):
            if match.post_id not in said:
                share = CERTIFYING * place / len(self._order)
                return Question(match, "certify", share, self._name)
        training = (match for match in self._training if match.post_id not in said)
        first = next(training, None)
        return None if first is None else Question(first, "learn")

    def left(self, said: Said) -> int:
        """How many labels are missing until more is shown, if none is wrong; else until the end."""
        look = self.look(said)
        return self._unread(said) if look.ask is None else look.missing

    def told(self, said: Said) -> str:
        """What is shown, what cannot be, and by how many labels what is right is estimated."""
        look = self.look(said)
        parts = []
        if look.threshold is not None:
            parts.append(f"precision {self._cuts.precision:g} from {look.threshold:.3f} on")
        if look.ask is not None:
            return "; ".join([*parts, f"{look.missing} more, if none is wrong"])
        parts += [part for part in (self.out_of_reach(look), self._estimated(look, said)) if part]
        return "; ".join([*parts, f"{self._unread(said):,} unread"])

    def out_of_reach(self, look: Look) -> str:
        """Why no more can be promised; empty while it can, or where all cuts are shown."""
        if look.ask is not None or not look.missing:
            return ""
        held = f"{100 * self._cuts.precision:g} %"
        of = f"from {'these' if look.threshold is None else 'the others of these'}"
        cannot = f"{held} cannot be promised {of} {self._matches:,} matches"
        if not look.labelled:
            return f"{cannot}, which are too few"
        were = "was" if look.off == 1 else "were"
        return f"{look.off:,} of {look.labelled:,} {were} off; {cannot}"

    def estimate(self, look: Look, said: Said) -> tuple[Interval, int] | None:
        """The share of the matches that is on the event, with its interval, and by how many labels.

        Both within the last set of the walk and outside it, matches are labelled in the order of
        the draw: two strata, each with one weight. None before each has a label.
        """
        strata: list[list[bool | None]] = [[], []]
        for match in self._order:
            strata[look.cut is None or match.score < look.cut].append(said.get(match.post_id))
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

    def _estimated(self, look: Look, said: Said) -> str:
        if (found := self.estimate(look, said)) is None:
            return ""
        (low, share, high), labels = found
        word = "label" if labels == 1 else "labels"
        shown = f"{100 * share:.0f} % ({100 * low:.0f} to {100 * high:.0f})"
        return f"on the event: about {shown}, by {labels:,} {word}"

    def _unread(self, said: Said) -> int:
        return sum(match.post_id not in said for match in (*self._order, *self._training))


class LearnQueue:
    """The nearest to the threshold, of matches and near misses in turn."""

    def __init__(self, candidates: Sequence[Candidate], threshold: float, nonce: str = "") -> None:
        self._order = learn_queue(candidates, threshold, (), len(candidates), nonce)

    def next(self, said: Said) -> Question | None:
        """The nearest that has no label yet."""
        asked = (each for each in self._order if each.post_id not in said)
        first = next(asked, None)
        return None if first is None else Question(first, "learn")

    def left(self, said: Said) -> int:
        """How many have no label yet."""
        return sum(each.post_id not in said for each in self._order)

    def told(self, said: Said) -> str:
        """How many are left."""
        return f"{self.left(said):,} left around the threshold"
