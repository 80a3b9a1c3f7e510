"""Near misses in a batch: posts that match no seed of an event, and come near to one.

How near is said by each seed's background: a seed's edges are its threshold and the scores that
larger and larger shares of the background reach. An event's stratum is that of its nearest seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Self

import numpy as np

from encoder.embeddings import Embeddings
from encoder.model.weights import F32, I64
from encoder.score.exact import pair_scores
from encoder.support.jit import jit
from worker.seeds.profile import Profile
from worker.seeds.set import SeedSet

EVENTS = 32  # that near misses are kept of: those with a profile first, then by their names
SEEDS = 256  # of all these events together
Known = dict[tuple[str, str], tuple[float, ...]]  # the cuts of a seed of this version
Cuts = Callable[[Embeddings, float], F32]  # the score that so much of the background reaches


@dataclass(frozen=True, eq=False)
class Edges:
    """The seeds of some events, event by event, and where the strata below each begin."""

    events: tuple[str, ...]
    starts: I64  # [e + 1], where an event's seeds begin among these:
    seeds: I64  # [m], by their places in the set
    edges: F32  # [m, 1 + s], falling: the threshold, then the lower end of each stratum
    marks: tuple[object, ...] = ()  # [e], what the scores and the strata of an event depend on

    @classmethod
    def of(
        cls, seeds: SeedSet, cuts: Cuts, rates: Sequence[float], known: "Known"
    ) -> tuple[Self, "Known"]:
        """Those of a set of seeds, as far as they are bounded; and the cuts by seed and version."""
        chosen = _chosen(seeds)
        places = [at for own in chosen.values() for at in own]
        names = [(seeds.seeds[at].id, seeds.seeds[at].version) for at in places]
        new = [n for n, name in enumerate(names) if name not in known]
        rows = seeds.embeddings[np.array([places[n] for n in new], np.int64)]
        fresh = np.array([cuts(rows, rate) for rate in rates] if new else [], np.float32).T
        found = known | {names[n]: tuple(cut.tolist()) for n, cut in zip(new, fresh, strict=True)}
        table = np.array([found[name] for name in names], np.float32).reshape(-1, len(rates))
        own_cuts = seeds.thresholds[np.array(places, np.int64)][:, None]
        edges = np.minimum.accumulate(np.hstack([own_cuts, table]), axis=1)  # [m, 1 + s]
        ends = np.cumsum([0, *map(len, chosen.values())]).astype(np.int64)
        rows_of = [[*name, *edge] for name, edge in zip(names, edges.tolist(), strict=True)]
        marks = tuple(rows_of[begin:end] for begin, end in pairwise(ends.tolist()))
        made = cls(tuple(chosen), ends, np.array(places, np.int64), edges, marks)
        return made, {name: found[name] for name in names}


@dataclass(frozen=True, slots=True)
class Nears:
    """Near misses: of which post, by its row, and event, in which stratum, with which score."""

    posts: I64  # [h]
    events: I64  # [h]
    strata: I64  # [h]
    scores: F32  # [h]


def near_misses_among(
    touched: I64, edges: Edges, posts: Embeddings, times: I64, seeds: SeedSet
) -> Nears:
    """Of posts and events that may be near [h, 2] those that are, by the exact scores."""
    rows, events = touched.T
    counts = np.diff(edges.starts)[events]  # [h]
    begins = np.cumsum(counts) - counts
    inside = np.arange(counts.sum()) - np.repeat(begins, counts)
    own = np.repeat(edges.starts[events], counts) + inside  # [pairs]
    pairs = np.stack([np.repeat(rows, counts), edges.seeds[own]], axis=1)
    halves = (posts.dense, posts.lexical), (seeds.embeddings.dense, seeds.embeddings.lexical)
    scores = pair_scores(*halves, posts.mix, pairs)
    gone = seeds.expiry[pairs[:, 1]] <= times[pairs[:, 0]]
    scores[gone] = -np.inf
    levels = (scores[:, None] < edges.edges[own]).sum(axis=1)  # 0: it matches
    if not len(touched):
        none = np.zeros(0, np.int64)
        return Nears(none, none, none, np.zeros(0, np.float32))
    level = np.minimum.reduceat(levels, begins)
    best = np.maximum.reduceat(scores, begins)
    near = (level > 0) & (level < edges.edges.shape[1])
    return Nears(rows[near], events[near], level[near] - 1, best[near])


def _chosen(seeds: SeedSet) -> dict[str, list[int]]:
    """The places of the seeds of as many events as there is room for."""
    by_event = sorted(range(len(seeds)), key=lambda at: (seeds.seeds[at].event, at))
    events = [list(own) for _, own in groupby(by_event, lambda at: seeds.seeds[at].event)]
    events.sort(key=lambda own: not any(isinstance(seeds.seeds[at], Profile) for at in own))
    chosen: dict[str, list[int]] = {}
    room = SEEDS
    for own in events:
        if len(own) <= room and len(chosen) < EVENTS:
            room -= len(own)
            chosen[seeds.seeds[own[0]].event] = own
    return chosen


@jit()
def with_room(found: I64) -> I64:
    """A copy with room for twice as many."""
    more = np.empty((2 * len(found), 2), np.int64)
    for i in range(len(found)):
        more[i, 0], more[i, 1] = found[i, 0], found[i, 1]
    return more


@jit()
def touched_by(scores: F32, starts: I64, least: F32) -> I64:
    """The rows and events of which some score reaches its least: [h, 2].

    Most posts are near to nothing: one loop without a branch tells them from the others.
    """
    found, end = np.empty((64, 2), np.int64), 0
    for post in range(len(scores)):
        row, above = scores[post], np.float32(-1)
        for at in range(len(least)):
            above = max(above, row[at] - least[at])
        if above < 0:
            continue
        for event in range(len(starts) - 1):
            for at in range(starts[event], starts[event + 1]):
                if row[at] >= least[at]:
                    if end == len(found):
                        found = with_room(found)
                    found[end, 0], found[end, 1] = post, event
                    end += 1
                    break
    return found[:end].copy()
