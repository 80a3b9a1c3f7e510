"""Whom to ask about next, as the labels stand: to certify a threshold, or to learn from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from worker.judge.anytime import FrozenCuts, Look
from worker.judge.draw import CERTIFYING, Candidate, draw_key, learn_queue, to_certify
from worker.judge.labels import Draw, PostId

Said = Mapping[PostId, bool]  # whether a post is on the event, by who is asked


@dataclass(frozen=True, slots=True)
class Question:
    """A post to ask about, how it was drawn, and with which probability."""

    candidate: Candidate
    drawn: Draw
    probability: float | None = None


class Queue(Protocol):
    """What asks about one post after the other; an answer taken back is asked for again."""

    def next(self, said: Said) -> Question | None:
        """The next question, or none."""

    def left(self, said: Said) -> int:
        """How many labels are missing, as far as one knows; none where no question is left."""

    def told(self, said: Said) -> str:
        """How far it is."""


class CertifyQueue:
    """The anytime form's walk over matches: its cuts are frozen here, before the first question."""

    def __init__(
        self, matches: Sequence[Candidate], precision: float = 0.8, confidence: float = 0.9
    ) -> None:
        self._order = to_certify(matches)
        self._scores = [match.score for match in self._order]
        self._keys = [draw_key(match.post_id) for match in self._order]
        self._cuts = FrozenCuts.among(self._scores, precision, confidence)

    def look(self, said: Said) -> Look:
        """What the labels show by now."""
        names = self._order
        return self._cuts.look(self._scores, self._keys, lambda at: said.get(names[at].post_id))

    def next(self, said: Said) -> Question | None:
        """The next match of the strictest cut that is not shown yet."""
        look = self.look(said)
        if look.ask is None:
            return None
        return Question(self._order[look.ask], "certify", CERTIFYING * look.share)

    def left(self, said: Said) -> int:
        """How many labels are missing until more is shown, if none is wrong."""
        look = self.look(said)
        return 0 if look.ask is None else look.missing

    def told(self, said: Said) -> str:
        """What is shown, and how many labels are missing for more, if none is wrong."""
        look, promised = self.look(said), self._cuts
        held = f"precision {promised.precision:g}"
        shown = "" if look.threshold is None else f"{held} from {look.threshold:.3f} on; "
        if look.ask is not None:
            return f"{shown}{look.missing} more, if none is wrong"
        return f"{shown}no more can be shown with these matches"


class LearnQueue:
    """The nearest to the threshold, of matches and near misses in turn."""

    def __init__(self, candidates: Sequence[Candidate], threshold: float) -> None:
        self._order = learn_queue(candidates, threshold, (), len(candidates))

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
