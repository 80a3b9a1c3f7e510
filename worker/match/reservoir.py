"""A random sample of the near misses of each event.

They lie in two strata, by how much of the background scores as high. All are counted; the sample
holds those of lowest priority. A priority is Python's hash (SipHash) of a nonce of the worker and
the post's name, so that nobody who chooses ids can choose the sample. The lowest priorities of
several workers' samples are a sample of all.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, repeat

import msgspec
import numpy as np

from encoder.model.weights import F32, I64
from worker.posts.outcome import Post, PostId
from worker.posts.times import HOUR_MS
from worker.seeds.record import json_digest

STRATUM_RATES = (0.003, 0.01)  # The strata end at these shares of the background.
MAX_SAMPLE = 200  # near misses of a stratum
MAX_TEXT_CHARS = 2_000
MAX_FIELD_CHARS = 300
MAX_ID_CHARS = 1_000  # A post with a longer id is counted, but not sampled.
CONTROL_EVERY = 50  # One control post of so many is read.
MAX_HOURS = 31 * 24  # that are counted apart; the latest ones
MAX_PRIORITY = np.iinfo(np.uint64).max


def draw_key(post_id: PostId, nonce: str = "") -> str:
    """64 hex digits; posts are drawn in their order."""
    return json_digest([nonce, *post_id] if nonce else list(post_id))


def is_control_read(post: Post, nonce: str) -> bool:
    """Whether a control post is read; decided by a keyed hash, as nobody may choose it."""
    return hash(f"{nonce} control {post.platform} {post.id}") % CONTROL_EVERY == 0


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
        misses.setdefault((near.post.platform, near.post.id), (near, priority))
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
