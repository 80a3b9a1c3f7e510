"""What an event's posts are scored by now, and what the background scores by it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from encoder.embeddings import Embeddings
from encoder.errors import InputError
from encoder.model.weights import F32
from worker.actions.events.event import KnownEvent, the_event
from worker.actions.events.teacher import Teacher
from worker.desk.model import Model, Standing
from worker.judge.feedback import profile_threshold
from worker.match.records import why_tokens
from worker.seeds.background import sides_of
from worker.seeds.profile import Compared, Profile

BLOCK_SCORES = 2**22
MOST_KNOWN = 64  # measures of one standing
Why = list[tuple[str, float]]
_known: "WeakKeyDictionary[Standing, dict[str, Measure]]" = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Measure:
    """The seeds and the profile that posts are compared with, each with its threshold."""

    teacher: Teacher
    event: KnownEvent
    compared: tuple[Compared, ...]
    rows: Embeddings  # [k]
    cuts: F32  # [k]

    @cached_property
    def names(self) -> Mapping[tuple[str, str], float]:
        """The threshold of each, by its id and version as matches name them."""
        named = [(each.id, each.version) for each in self.compared]
        return dict(zip(named, self.cuts.tolist(), strict=True))

    @cached_property
    def is_automatic(self) -> bool:
        """Whether nobody has set a threshold."""
        own = [each.threshold for each in self.compared]
        return self.teacher.config.matching.threshold is None and set(own) <= {None}

    @cached_property
    def automatic(self) -> tuple[float, ...]:
        """The thresholds that are found on the background, rising; none where it is too small."""
        rate, everyday = self.teacher.config.matching.background_rate, self.teacher.background
        profiles = [each for each in self.compared if isinstance(each, Profile)]
        at = [n for n, each in enumerate(self.compared) if not isinstance(each, Profile)]
        rows = self.rows[np.array(at, np.int64)]
        try:
            found = self.teacher.enc.thresholds(rows, rate, everyday).tolist() if at else []
            found += [profile_threshold(each.vector, everyday, rate) for each in profiles]
        except InputError:
            return ()
        return tuple(sorted(found))

    @cached_property
    def background(self) -> F32:
        """What everyday posts score: those that no profile was told apart from."""
        everyday = self.teacher.background
        if any(isinstance(each, Profile) for each in self.compared):
            everyday = sides_of(everyday)[1]
        return self._best(everyday)

    def scores(self, texts: Sequence[str]) -> F32:
        """What posts with these texts score."""
        return self._best(self.teacher.enc.posts(texts))

    def why(self, texts: Sequence[str]) -> list[Why]:
        """The words that make most of each text's score."""
        enc = self.teacher.enc
        best = enc.posts(texts).similarity(self.rows).argmax(axis=1).tolist()
        return [
            why_tokens(each) for each in enc.contributions(texts, self.rows, [*enumerate(best)])
        ]

    def _best(self, posts: Embeddings) -> F32:
        """The best score of each post, in bounded memory."""
        step = max(BLOCK_SCORES // max(len(self.rows), 1), 1)
        parts = (posts[at : at + step] for at in range(0, len(posts), step))
        best = [part.similarity(self.rows).max(axis=1, initial=np.float32(-2)) for part in parts]
        return np.concatenate([np.zeros(0, np.float32), *best])


def measure_at(model: Model, name: str) -> Measure:
    """That of an event now, or a refusal that says why nobody knows."""
    return measure_of(model.wait(0), model.standing(), name)


def measure_of(teacher: Teacher, standing: Standing, name: str) -> Measure:
    """That of an event, which has to be there; known as long as the records stay as they are."""
    measures = _known.setdefault(standing, {})
    if name not in measures:
        if len(measures) >= MOST_KNOWN:
            measures.clear()
        measures[name] = _measured(teacher, standing, name)
    return measures[name]


def _measured(teacher: Teacher, standing: Standing, name: str) -> Measure:
    event, seeds = the_event(standing.events, name), standing.seeds
    at = [n for n, each in enumerate(seeds.seeds) if each.event == name]
    compared = tuple(seeds.seeds[n] for n in at)
    places = np.array(at, np.int64)
    return Measure(teacher, event, compared, seeds.embeddings[places], seeds.thresholds[places])
