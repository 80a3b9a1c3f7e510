"""Near misses in a batch: posts that match no seed of an event but come close to one.

The background defines close: a seed's edges are its threshold and the scores that larger and larger
shares of the background reach. A post's stratum for an event is that of its nearest seed.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from secrets import token_hex
from threading import Lock
from typing import Self

import numpy as np

from encoder.embeddings import Embeddings
from encoder.model.weights import F32, I64
from encoder.support.jit import jit
from worker.match.reservoir import STRATUM_RATES, NearAnswer, NearMisses
from worker.posts.outcome import Post
from worker.seeds.automatic import AutomaticThresholds
from worker.seeds.profile import Profile
from worker.seeds.record import json_digest
from worker.seeds.set import SeedSet

MAX_EVENTS = 32  # Events with a profile come first, then others by name.
MAX_SEEDS = 256  # of all these events together
StratumEnds = dict[tuple[str, str], tuple[float, ...]]  # and floors, by a seed's id and version
# The score that this share of the background reaches with each seed: [k].
BackgroundThresholds = Callable[[Embeddings, float], F32]
ControlFloors = Callable[[Embeddings], F32]


def no_floors(rows: Embeddings) -> F32:
    """No post is read as a control: [k]."""
    return np.full(len(rows), np.inf, np.float32)


@dataclass(frozen=True, eq=False)
class Edges:
    """Seeds of some events, event by event, with the lower edges of their strata."""

    events: tuple[str, ...]
    starts: I64  # [e + 1], where an event's seeds begin among these:
    seeds: I64  # [m], by their places in the set
    edges: F32  # [m, 1 + s], falling: the threshold, then the lower end of each stratum
    floors: F32  # [m], the approximate score of control posts, or infinity
    marks: tuple[object, ...] = ()  # [e], what the scores and the strata of an event depend on
    nonce: str = ""  # keys which control posts are read

    @classmethod
    def build(
        cls,
        seeds: SeedSet,
        thresholds_at: BackgroundThresholds,
        rates: Sequence[float],
        earlier: StratumEnds,
        floors_at: ControlFloors = no_floors,
    ) -> tuple[Self, StratumEnds]:
        """Returns the edges, and the lower ends of the strata and the floors for the next set."""
        places_of = _choose_events(seeds)
        places = [place for event_places in places_of.values() for place in event_places]
        names = [(seeds.seeds[place].id, seeds.seeds[place].version) for place in places]
        new = [n for n, name in enumerate(names) if name not in earlier]
        rows = seeds.vectors[np.array([places[n] for n in new], np.int64)]
        found = [*(thresholds_at(rows, rate) for rate in rates), floors_at(rows)] if new else []
        fresh = np.array(found, np.float32).T
        every = earlier | {names[n]: tuple(low.tolist()) for n, low in zip(new, fresh, strict=True)}
        table = np.array([every[name] for name in names], np.float32).reshape(-1, len(rates) + 1)
        thresholds = seeds.thresholds[np.array(places, np.int64)][:, None]
        edges = np.minimum.accumulate(np.hstack([thresholds, table[:, :-1]]), axis=1)  # [m, 1 + s]
        starts = np.cumsum([0, *map(len, places_of.values())]).astype(np.int64)
        marks_of_seeds = [[*name, *edge] for name, edge in zip(names, edges.tolist(), strict=True)]
        marks = tuple(marks_of_seeds[begin:end] for begin, end in pairwise(starts.tolist()))
        seeds_at = np.array(places, np.int64)
        floors = table[:, -1] + np.float32(seeds.raised)  # as the skim thresholds are
        result = cls(tuple(places_of), starts, seeds_at, edges, floors, marks)
        return result, {name: every[name] for name in names}

    @property
    def has_strata(self) -> bool:
        return int(self.edges.shape[1]) > 1

    @property
    def of_control(self) -> Self:
        """Posts that reach these, and no skim threshold, are a control's."""
        return replace(self, edges=self.floors[:, None])


@dataclass(frozen=True, slots=True)
class NearMissRows:
    posts: I64  # [h]
    events: I64  # [h]
    strata: I64  # [h]
    scores: F32  # [h]
    times: I64  # [h], of the posts

    def without_posts(self, posts: I64) -> Self:
        kept = ~np.isin(self.posts, posts)
        return replace(
            self,
            posts=self.posts[kept],
            events=self.events[kept],
            strata=self.strata[kept],
            scores=self.scores[kept],
            times=self.times[kept],
        )

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        none = np.zeros(0, np.int64)
        every = [cls(none, none, none, np.zeros(0, np.float32), none), *parts]
        columns = ([getattr(part, field.name) for part in every] for field in fields(cls))
        return cls(*map(np.concatenate, columns))


def near_misses_among(
    candidates: I64, edges: Edges, posts: Embeddings, times: I64, seeds: SeedSet
) -> NearMissRows:
    """Selects near misses by exact scores; `candidates` [h, 2] are posts and events."""
    rows, events = candidates.T
    counts = np.diff(edges.starts)[events]  # [h]
    begins = np.cumsum(counts) - counts
    within = np.arange(counts.sum()) - np.repeat(begins, counts)
    entries = np.repeat(edges.starts[events], counts) + within  # [pairs]
    pairs = np.stack([np.repeat(rows, counts), edges.seeds[entries]], axis=1)
    scores = seeds.vectors.scores(posts, pairs)
    expired = seeds.expiry[pairs[:, 1]] <= times[pairs[:, 0]]
    scores[expired] = -np.inf
    levels = (scores[:, None] < edges.edges[entries]).sum(axis=1)  # 0: it matches
    if not len(candidates):
        return NearMissRows.concat([])
    level = np.minimum.reduceat(levels, begins)
    best = np.maximum.reduceat(scores, begins)
    near = (level > 0) & (level < edges.edges.shape[1])
    found = rows[near]
    return NearMissRows(found, events[near], level[near] - 1, best[near], times[found])


def _choose_events(seeds: SeedSet) -> dict[str, list[int]]:
    """Positions of seeds by event, for as many events as the bounds allow."""
    by_event: defaultdict[str, list[int]] = defaultdict(list)
    for place, seed in enumerate(seeds.seeds):
        by_event[seed.event].append(place)
    with_profile = {seed.event for seed in seeds.seeds if isinstance(seed, Profile)}
    places_of: dict[str, list[int]] = {}
    room = MAX_SEEDS
    for event in sorted(by_event, key=lambda event: (event not in with_profile, event)):
        if len(by_event[event]) <= room and len(places_of) < MAX_EVENTS:
            room -= len(by_event[event])
            places_of[event] = by_event[event]
    return places_of


@jit()
def find_near_candidates(scores: F32, starts: I64, least: F32) -> I64:
    """The rows and events of which some score reaches the lowest edge: [h, 2].

    Most posts are near to nothing; one loop without a branch excludes them.
    """
    pairs, end = np.empty((64, 2), np.int64), 0
    for post in range(len(scores)):
        row, above = scores[post], np.float32(-1)
        for at in range(len(least)):
            above = max(above, row[at] - least[at])
        if above < 0:
            continue
        for event in range(len(starts) - 1):
            for at in range(starts[event], starts[event + 1]):
                if row[at] >= least[at]:
                    if end == len(pairs):
                        pairs = np.concatenate((pairs, np.empty_like(pairs)))
                    pairs[end, 0], pairs[end, 1] = post, event
                    end += 1
                    break
    return pairs[:end].copy()


class NearWatch:
    """Collects near misses under the current seed set; thread-safe.

    An event whose seeds, profile or thresholds change starts again: its scores are different.
    """

    def __init__(self, automatic: AutomaticThresholds, control: bool = False) -> None:
        """With `control`, some posts are read that are only to be skimmed."""
        self._control = control
        self._automatic, self._lock = automatic, Lock()
        self._seeds: SeedSet | None = None
        self._edges: Edges | None = None
        self._earlier_ends: StratumEnds = {}
        self._ready: tuple[SeedSet, Edges, StratumEnds] | None = None
        self._nonce = token_hex(16)
        self._misses = NearMisses((), nonce=self._nonce)

    def prepare(self, seeds: SeedSet) -> None:
        """Computes the edges of a new seed set before it is used."""
        self._ready = seeds, *self._build(seeds)

    def edges(self, seeds: SeedSet) -> Edges:
        with self._lock:
            if self._edges is None or seeds is not self._seeds:
                ready = self._ready
                if ready is None or ready[0] is not seeds:
                    ready = seeds, *self._build(seeds)
                _, self._edges, self._earlier_ends = ready
                pairs = zip(self._edges.events, self._edges.marks, strict=True)
                names = [_sample_name(event, mark) for event, mark in pairs]
                self._misses = NearMisses(names, self._misses, self._nonce)
                self._seeds = seeds
            return self._edges

    def _build(self, seeds: SeedSet) -> tuple[Edges, StratumEnds]:
        automatic = self._automatic
        rates = automatic.near_rates or STRATUM_RATES
        floors_at = automatic.control_floors if self._control else no_floors
        edges, ends = Edges.build(
            seeds, automatic.scores_reached, rates, self._earlier_ends, floors_at
        )
        return replace(edges, nonce=self._nonce), ends

    def add(
        self, edges: Edges, nears: Sequence[tuple[list[Post], NearMissRows]], posts: int
    ) -> None:
        """Counts `posts` posts; ignored if the seed set has changed since."""
        with self._lock:
            if edges is not self._edges:
                return
            self._misses.count_posts(posts)
            for near_posts, rows in nears:
                self._misses.add(
                    near_posts, rows.posts, rows.events, rows.strata, rows.scores, rows.times
                )

    def answer(self, event: str) -> NearAnswer | None:
        """None for an unknown event, or one beyond the bounds."""
        with self._lock:
            edges, seeds = self._edges, self._seeds
            if edges is None or seeds is None or event not in edges.events:
                return None
            number = edges.events.index(event)
            rows = range(edges.starts[number], edges.starts[number + 1])
            of_seeds = {
                seeds.seeds[edges.seeds[n]].id: tuple(edges.edges[n].tolist()) for n in rows
            }
            name = _sample_name(event, edges.marks[number])
            misses = self._misses
            return NearAnswer(
                event, seeds.digest, of_seeds, misses.strata(name), misses.post_count(name)
            )


def _sample_name(event: str, mark: object) -> str:
    """Names an event with all that its scores depend on."""
    return f"{json_digest(mark)} {event}"
