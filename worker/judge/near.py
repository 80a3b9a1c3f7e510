"""The near misses of the events on a stream, as long as what they are compared with stays."""

from collections.abc import Sequence
from secrets import token_hex
from threading import Lock

from worker.judge.reservoir import RATES, NearAnswer, NearMisses
from worker.match.near import Cuts, Edges, Known, Nears
from worker.posts.outcome import Post
from worker.seeds.record import digest
from worker.seeds.set import SeedSet


class NearWatch:
    """Keeps near misses under the set of seeds in force; from several threads.

    An event whose seeds, profile or thresholds change begins anew: its scores are others.
    """

    def __init__(self, cuts: Cuts) -> None:
        self._cuts, self._lock = cuts, Lock()
        self._seeds: SeedSet | None = None
        self._edges: Edges | None = None
        self._known: Known = {}
        self._ready: tuple[SeedSet, Edges, Known] | None = None
        self._nonce = token_hex(16)
        self._kept = NearMisses((), nonce=self._nonce)

    def prepare(self, seeds: SeedSet) -> None:
        """Find the edges of seeds that are to come: a look at all of the background, beforehand."""
        self._ready = (seeds, *Edges.of(seeds, self._cuts, RATES, self._known))

    def edges(self, seeds: SeedSet) -> Edges:
        """What comes near to these seeds."""
        with self._lock:
            if self._edges is None or seeds is not self._seeds:
                ready = self._ready
                if ready is None or ready[0] is not seeds:
                    ready = (seeds, *Edges.of(seeds, self._cuts, RATES, self._known))
                _, self._edges, self._known = ready
                self._kept = NearMisses(_names(self._edges), self._kept, self._nonce)
                self._seeds = seeds
            return self._edges

    def add(self, edges: Edges, found: Sequence[tuple[list[Post], Nears]], posts: int) -> None:
        """Take over the near misses of a batch of posts, unless the seeds are others by now."""
        with self._lock:
            if edges is not self._edges:
                return
            self._kept.look(posts)
            for of, nears in found:
                near = (nears.posts, nears.events, nears.strata, nears.scores)
                self._kept.add(of, *near)

    def answer(self, event: str) -> NearAnswer | None:
        """What there is of an event; None of one that is not there, or beyond the bounds."""
        with self._lock:
            edges, seeds = self._edges, self._seeds
            if edges is None or seeds is None or event not in edges.events:
                return None
            at = edges.events.index(event)
            own = range(edges.starts[at], edges.starts[at + 1])
            of_seeds = {seeds.seeds[edges.seeds[n]].id: tuple(edges.edges[n].tolist()) for n in own}
            name = _name(event, edges.marks[at])
            kept = self._kept
            return NearAnswer(event, seeds.digest, of_seeds, kept.strata(name), kept.seen(name))


def _names(edges: Edges) -> list[str]:
    return [_name(*pair) for pair in zip(edges.events, edges.marks, strict=True)]


def _name(event: str, mark: object) -> str:
    """The event as it is compared now."""
    return f"{digest(mark)} {event}"
