"""Near misses and their sample: posts that match no seed of an event but come close to one.

The background defines close: a seed's edges are its threshold and the scores that larger and larger
shares of the background reach. A post's stratum for an event is that of its nearest seed.

All near misses of an event are counted; a sample of each stratum holds those of lowest priority. A
priority is Python's hash (SipHash) of a nonce of the worker and the post's name, so that nobody who
chooses ids can choose the sample. The lowest priorities of several workers' samples are a sample of
all.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from itertools import chain, pairwise, repeat
from json.encoder import encode_basestring
from secrets import token_hex
from threading import Lock
from typing import Self

import msgspec
import numpy as np

from encoder.embeddings import Embeddings
from encoder.model.weights import F32, I64
from encoder.support.jit import jit
from worker.posts.outcome import Post, PostId
from worker.posts.times import HOUR_MS
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
STRATUM_RATES = (0.003, 0.01)  # The strata end at these shares of the background.
MAX_SAMPLE = 200  # near misses of a stratum
MAX_TEXT_CHARS = 2_000
MAX_FIELD_CHARS = 300
MAX_ID_CHARS = 1_000  # A post with a longer id is counted, but not sampled.
CONTROL_EVERY = 50  # One control post of so many is read.
MAX_HOURS = 31 * 24  # that are counted apart; the latest ones
MAX_PRIORITY = np.iinfo(np.uint64).max


def draw_key(post_id: PostId, nonce: str = "") -> str:
    """64 hex digits; posts are drawn in their order.

    It is the `json_digest` of a list, in half of its time: each match of an event is drawn.
    """
    names = map(encode_basestring, (nonce, *post_id) if nonce else post_id)
    return sha256(f"[{','.join(names)}]".encode()).hexdigest()


def is_control_read(post: Post, nonce: str) -> bool:
    """Whether a control post is read; decided by a keyed hash, as nobody may choose it."""
    return hash(f"{nonce} control {post.platform} {post.id}") % CONTROL_EVERY == 0


def draw_control_reads(posts: Sequence[Post], nonce: str, rows: I64) -> I64:
    """Those of these rows of the posts that are read as a control."""
    return np.array([at for at in rows.tolist() if is_control_read(posts[at], nonce)], np.int64)


class NearMiss(msgspec.Struct, frozen=True):
    post: Post
    score: float
    timestamp: int = -1  # by Kafka, in milliseconds


class Stratum(msgspec.Struct, frozen=True):
    """All are counted; those of lowest priority are listed."""

    count: int
    kept: tuple[NearMiss, ...]
    priorities: tuple[int, ...] = ()  # of those that are kept, in the worker's draw
    hours: dict[int, int] = {}  # counts by the start of the hour, in Kafka's milliseconds


class NearAnswer(msgspec.Struct, frozen=True):
    """A worker's answer at /near."""

    event: str
    seed_set: str
    edges: dict[str, tuple[float, ...]]  # of each seed: its threshold, and the strata's lower ends
    strata: tuple[Stratum, ...]  # the one next to the threshold first
    seen: int = 0  # posts that they are of, matches included

    @property
    def threshold(self) -> float:
        return min(edges[0] for edges in self.edges.values())


def merge_strata(parts: Sequence[Stratum]) -> Stratum:
    """The strata of several workers, which have different posts."""
    every: list[tuple[NearMiss, int]] = []
    for part in parts:
        every += zip(part.kept, chain(part.priorities, repeat(0)), strict=False)
    misses: dict[PostId, tuple[NearMiss, int]] = {}
    for near, priority in sorted(every, key=lambda pair: pair[1]):
        misses.setdefault(near.post.post_id, (near, priority))
    lowest = list(misses.values())[:MAX_SAMPLE]
    count = sum(part.count for part in parts)
    hours = Counter[int]()
    for part in parts:
        hours.update(part.hours)
    kept, priorities = zip(*lowest, strict=True) if lowest else ((), ())
    return Stratum(count, kept, priorities, dict(sorted(hours.items())))


class NearMisses:
    """A sample of near misses in bounded memory."""

    def __init__(
        self, events: Iterable[str], before: "NearMisses | None" = None, nonce: str = ""
    ) -> None:
        """Events that continue keep their samples, made with the same nonce."""
        self.events = tuple(events)
        self._nonce = nonce
        self._cells = {event: slice(2 * n, 2 * n + 2) for n, event in enumerate(self.events)}
        self._count = np.zeros(2 * len(self.events), np.int64)
        self._hours: list[dict[int, int]] = [{} for _ in self._count]
        self._post_counts = dict.fromkeys(self.events, 0)
        self._last = np.full(2 * len(self.events), MAX_PRIORITY, np.uint64)  # below it one is kept
        self._samples: list[dict[int, NearMiss]] = [{} for _ in self._count]
        if before is not None:
            for event in before._cells.keys() & self._cells.keys():
                self._post_counts[event] = before._post_counts[event]
                self._take_over(self._cells[event], before, before._cells[event])

    def add(
        self, posts: Sequence[Post], which: I64, events: I64, strata: I64, scores: F32, times: I64
    ) -> None:
        """`which` [m] indexes the posts, each of which is near to some event."""
        cells = 2 * events + strata  # [m]
        np.add.at(self._count, cells, 1)
        self._count_hours(cells, times)
        keys = np.array([self._priority(post) for post in posts], np.uint64)
        new_entries = np.flatnonzero(keys[which] < self._last[cells])
        bounded = {n: _shorten_post(posts[n]) for n in set(which[new_entries].tolist())}
        for n in new_entries.tolist():
            post = int(which[n])
            near = NearMiss(bounded[post], float(scores[n]), int(times[n]))
            self._keep(int(cells[n]), int(keys[post]), near)

    def count_posts(self, posts: int) -> None:
        """Counts posts that were compared, near or not."""
        for event in self._post_counts:
            self._post_counts[event] += posts

    def post_count(self, event: str) -> int:
        return self._post_counts[event]

    def strata(self, event: str) -> tuple[Stratum, ...]:
        """The one next to the threshold first."""
        cells = self._cells[event]
        strata_of_event = []
        counts, samples = self._count[cells].tolist(), self._samples[cells]
        for count, sample, hours in zip(counts, samples, self._hours[cells], strict=True):
            places = tuple(sorted(sample))
            kept = tuple(sample[priority] for priority in places)
            strata_of_event.append(Stratum(count, kept, places, dict(hours)))
        return tuple(strata_of_event)

    def _count_hours(self, cells: I64, times: I64) -> None:
        """A post without a time is in no hour."""
        pairs = np.stack([cells, times - times % HOUR_MS], axis=1)[times >= 0]
        distinct, counts = np.unique(pairs, axis=0, return_counts=True)
        for (cell, hour), count in zip(distinct.tolist(), counts.tolist(), strict=True):
            hours = self._hours[cell]
            hours[hour] = hours.get(hour, 0) + count
            if len(hours) > MAX_HOURS:
                del hours[min(hours)]

    def _priority(self, post: Post) -> int:
        """53 bits, which JSON preserves."""
        if len(post.id) > MAX_ID_CHARS:
            return int(MAX_PRIORITY)
        return hash(f"{self._nonce} {post.platform} {post.id}") & (2**53 - 1)

    def _keep(self, cell: int, key: int, near: NearMiss) -> None:
        if key >= self._last[cell]:
            return
        misses = self._samples[cell]
        misses[key] = near
        if len(misses) > MAX_SAMPLE:
            del misses[int(self._last[cell])]
        if len(misses) == MAX_SAMPLE:
            self._last[cell] = max(misses)

    def _take_over(self, cells: slice, before: "NearMisses", theirs: slice) -> None:
        self._count[cells], self._last[cells] = before._count[theirs], before._last[theirs]
        self._samples[cells] = [dict(misses) for misses in before._samples[theirs]]
        self._hours[cells] = [dict(hours) for hours in before._hours[theirs]]


def _shorten_post(post: Post) -> Post:
    """The id stays whole."""
    rest = (post.author, post.created_at, post.lang, post.url)
    author, created_at, lang, url = (value and value[:MAX_FIELD_CHARS] for value in rest)
    text, alt = post.text[:MAX_TEXT_CHARS], "\n".join(post.alt)[:MAX_TEXT_CHARS]
    pictures = (alt,) if alt else ()
    return Post(post.id, post.platform, text, author, created_at, lang, url, pictures, post.card)


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
