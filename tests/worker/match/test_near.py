from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from encoder.embeddings import Embeddings
from tests.worker.event_profiles import profile
from tests.worker.match.test_matcher import made_set, rows, score
from worker.match.matcher import Matcher
from worker.match.near import MAX_EVENTS, MAX_SEEDS, Edges, NearMiss, NearMissRows, NearWatch
from worker.posts.outcome import Post
from worker.seeds.profile import Profile
from worker.seeds.record import Seed
from worker.seeds.set import NEVER_EXPIRES, SeedSet

RATES = (0.1, 0.3)


def random_seeds(seed: int, count: int, events: int) -> tuple[SeedSet, np.ndarray]:
    """A set of seeds of so many events, and each seed's cut at each rate."""
    rng = np.random.default_rng(seed)
    thresholds = rng.uniform(0.3, 0.6, count).astype(np.float32)
    expiry = np.where(rng.random(count) < 0.2, 50, NEVER_EXPIRES)
    made = made_set(rows(rng, count, 40, 0.5, 0.0), thresholds, expiry)
    named = tuple(Seed(s.id, "", "text", f"e{n % events}") for n, s in enumerate(made.seeds))
    cuts = np.stack([thresholds - 0.1, thresholds - 0.25]) + rng.uniform(0, 0.15, (2, count))
    again = SeedSet(named, made.vectors, made.thresholds, "0" * 12, (), made.expiry)
    return again, cuts.astype(np.float32)


def edges_of(seeds: SeedSet, cuts: np.ndarray) -> Edges:
    """The edges, where the score that the background reaches is known by the seed's row."""
    by_row = {row.tobytes(): n for n, row in enumerate(seeds.embeddings.dense)}
    return Edges.build(
        seeds,
        lambda e, rate: cuts[RATES.index(rate), [by_row[row.tobytes()] for row in e.dense]],
        *(RATES, {}),
    )[0]


def slow(seeds: SeedSet, cuts: np.ndarray, posts: Embeddings, times: np.ndarray) -> set[object]:
    """Event by event, seed by seed."""
    result: set[object] = set()
    for i in range(len(times)):
        for event in {seed.event for seed in seeds.seeds}:
            level, best = 3, np.float32(-np.inf)
            for k, seed in enumerate(seeds.seeds):
                if seed.event != event or seeds.expiry[k] <= times[i]:
                    continue
                s = score(posts, i, seeds.embeddings, k)
                best = max(best, s)
                first = min(seeds.thresholds[k], cuts[0, k])
                for at, edge in enumerate((seeds.thresholds[k], first, min(first, cuts[1, k]))):
                    if s >= edge:
                        level = min(level, at)
                        break
            if level in (1, 2):
                result.add((i, event, level - 1, float(np.float32(best))))
    return result


@pytest.mark.parametrize(("count", "events"), [(1, 1), (10, 3), (60, 30), (90, 7)])
def test_near_misses_are_those_of_the_slow_loop(count: int, events: int) -> None:
    seeds, cuts = random_seeds(count, count, events)
    edges = edges_of(seeds, cuts)
    posts = rows(np.random.default_rng(1), 80, 40, 0.5, 0.1)
    times = np.arange(80)
    with_edges = Matcher(seeds, 1, 10, edges).match(posts, times)
    nears = with_edges.nears
    assert nears is not None
    columns = (nears.strata.tolist(), nears.scores.tolist())
    named = (edges.events[n] for n in nears.events)
    found = set(zip(nears.posts.tolist(), named, *columns, strict=True))
    assert found == slow(seeds, cuts, posts, times)
    assert (nears.times == times[nears.posts]).all()
    without = Matcher(seeds, 1, 10).match(posts, times)
    assert without.nears is None
    for name in ("posts", "seeds", "scores", "best", "counts", "hits"):
        assert (getattr(with_edges, name) == getattr(without, name)).all()


def test_events_are_bounded_and_those_with_a_profile_come_first() -> None:
    seeds, cuts = random_seeds(3, MAX_SEEDS + 40, MAX_SEEDS + 40)
    assert len(edges_of(seeds, cuts).events) == MAX_EVENTS
    one, few = random_seeds(4, MAX_SEEDS + 40, 2)
    assert edges_of(one, few).events == ("e0",)  # the second would be too many
    huge, cuts = random_seeds(5, MAX_SEEDS + 40, 1)
    assert edges_of(huge, cuts).events == ()
    learned = Profile(**profile("zebra", {"flood": "river flood"}))
    named = (*seeds.seeds[:-1], learned)
    with_one = SeedSet(named, seeds.vectors, seeds.thresholds, "0" * 12, (), seeds.expiry)
    assert edges_of(with_one, random_seeds(3, MAX_SEEDS + 40, 1)[1]).events[0] == "zebra"


def test_only_new_seeds_are_calibrated() -> None:
    seeds, cuts = random_seeds(6, 10, 3)
    calls: list[int] = []

    def ask(rows: Embeddings, _: float) -> np.ndarray:
        calls.append(len(rows))
        result: np.ndarray = cuts[0]
        return result

    first, cache = Edges.build(seeds, ask, RATES, {})
    again, _ = Edges.build(seeds, ask, RATES, cache)
    assert calls == [10, 10]
    assert first.marks == again.marks


POST = Post("1", "x", "near")
LOW = np.float32(0.125)


def watch() -> NearWatch:
    automatic: Any = SimpleNamespace(
        near_rates=None, scores_reached=lambda rows, rate: np.full(len(rows), rate, np.float32)
    )
    return NearWatch(automatic)


def near_to(watch: NearWatch, edges: Edges, event: str) -> None:
    """Add the post as a near miss of the event, in the first stratum."""
    zero = np.zeros(1, np.int64)
    result = NearMissRows(zero, zero + edges.events.index(event), zero, np.array([LOW]), zero)
    watch.add(edges, [([POST], result)], 5)


def test_the_answer_of_an_event_holds_its_edges_and_near_misses() -> None:
    seeds, _ = random_seeds(1, 6, 3)
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
    assert answer.strata[0].kept == (NearMiss(POST, float(LOW), 0),)
    assert answer.seen == 5
    assert near.answer("e9") is None
    assert near.answer("") is None


def test_a_changed_event_starts_again_and_the_others_go_on() -> None:
    seeds, _ = random_seeds(1, 6, 3)
    near = watch()
    edges = near.edges(seeds)
    for event in ("e0", "e1"):
        near_to(near, edges, event)
    higher = np.where([s.event == "e1" for s in seeds.seeds], seeds.thresholds + 0.1,
                      seeds.thresholds).astype(np.float32)  # fmt: skip
    changed = SeedSet(seeds.seeds, seeds.vectors, higher, "1" * 12, (), seeds.expiry)
    near.edges(changed)
    counts = {event: near.answer(event) for event in ("e0", "e1")}
    assert {e: a and a.strata[0].count for e, a in counts.items()} == {"e0": 1, "e1": 0}
    assert {e: a and a.seen for e, a in counts.items()} == {"e0": 10, "e1": 0}
    near_to(near, edges, "e0")  # a batch that was matched with the set before
    again = near.answer("e0")
    assert again is not None
    assert (again.strata[0].count, again.seen) == (1, 10)
