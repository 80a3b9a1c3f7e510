"""What is kept of near misses while the seeds change."""

import numpy as np

from tests.worker.match.test_near import given
from worker.judge.near import NearWatch
from worker.judge.reservoir import NearMiss
from worker.match.near import Edges, Nears
from worker.posts.outcome import Post
from worker.seeds.set import SeedSet

POST = Post("1", "x", "near")
LOW = np.float32(0.125)


def watch() -> NearWatch:
    return NearWatch(lambda rows, rate: np.full(len(rows), rate, np.float32))


def near_to(watch: NearWatch, edges: Edges, event: str) -> None:
    """Add the post as a near miss of the event, in the first stratum."""
    zero = np.zeros(1, np.int64)
    found = Nears(zero, zero + edges.events.index(event), zero, np.array([LOW]))
    watch.add(edges, [([POST], found)], 5)


def test_an_event_tells_of_its_edges_and_near_misses() -> None:
    seeds, _ = given(1, 6, 3)
    near = watch()
    assert near.answer("e1") is None
    edges = near.edges(seeds)
    assert near.edges(seeds) is edges
    near_to(near, edges, "e1")
    answer = near.answer("e1")
    assert answer is not None
    assert (answer.event, answer.seed_set) == ("e1", seeds.digest)
    rates = tuple(np.array([0.003, 0.01], np.float32).tolist())
    lowest = {s.id: float(seeds.thresholds[n]) for n, s in enumerate(seeds.seeds)}
    assert answer.edges.keys() == {s.id for s in seeds.seeds if s.event == "e1"}
    for name, own in answer.edges.items():
        assert own == (lowest[name], rates[0], rates[0])  # the lower end is never the higher
    assert answer.threshold == min(lowest[name] for name in answer.edges)
    assert [stratum.count for stratum in answer.strata] == [1, 0]
    assert answer.strata[0].kept == (NearMiss(POST, float(LOW)),)
    assert answer.seen == 5
    assert near.answer("e9") is None
    assert near.answer("") is None


def test_an_event_that_changes_begins_anew_and_the_others_go_on() -> None:
    seeds, _ = given(1, 6, 3)
    near = watch()
    edges = near.edges(seeds)
    for event in ("e0", "e1"):
        near_to(near, edges, event)
    higher = np.where([s.event == "e1" for s in seeds.seeds], seeds.thresholds + 0.1,
                      seeds.thresholds).astype(np.float32)  # fmt: skip
    changed = SeedSet(seeds.seeds, seeds.embeddings, higher, "1" * 12, (), seeds.expiry)
    near.edges(changed)
    counts = {event: near.answer(event) for event in ("e0", "e1")}
    assert {e: a and a.strata[0].count for e, a in counts.items()} == {"e0": 1, "e1": 0}
    assert {e: a and a.seen for e, a in counts.items()} == {"e0": 10, "e1": 0}
    near_to(near, edges, "e0")  # a batch that was matched with the set before
    again = near.answer("e0")
    assert again is not None
    assert (again.strata[0].count, again.seen) == (1, 10)
