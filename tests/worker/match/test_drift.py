from math import nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import worker.match.drift
from encoder.embeddings import Embeddings
from encoder.model.weights import F32
from tests.worker.small import ARTICLES, book_of, seed_set, small_encoder
from worker.match.drift import (
    HIGH_SHARE,
    MIN_PROMISED_PASSES,
    MIN_SAMPLED_POSTS,
    Drift,
    DriftMeasure,
    describe_drift,
)
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedSet

RATE = 0.01


def cuts(rows: Embeddings) -> F32:
    return small_encoder().thresholds(rows, HIGH_SHARE)


def drift_of(seeds: SeedSet) -> Drift:
    drift = Drift(cuts, RATE, None)
    drift.prepare(seeds)
    return drift


def seeds_of(**more: float) -> SeedSet:
    """The four articles, two of them of one event; some with a threshold of their own."""
    events = {"flood": "water", "raid": "water"}
    records = {
        name: {"text": text} | ({"event": events[name]} if name in events else {})
        | ({"threshold": more[name]} if name in more else {})
        for name, text in ARTICLES.items()
    }  # fmt: skip
    return SeedEmbedder(small_encoder(), RATE, None).make(book_of(**records).snapshot())


batches = st.lists(
    st.tuples(
        st.integers(1, 4000), st.lists(st.integers(0, 99), min_size=4, max_size=4),
        st.integers(0, 99), st.lists(st.sampled_from(list(ARTICLES.values())), max_size=300),
    ),
    min_size=1, max_size=6,
)  # fmt: skip


@settings(max_examples=40)
@given(batches)
def test_rates_are_those_of_a_list_of_all_posts(
    given_batches: list[tuple[int, list[int], int, list[str]]],
) -> None:
    seeds, enc = seeds_of(pets=0.5), small_encoder()
    drift = drift_of(seeds)
    posts, on_water, texts = 0, 0, list[str]()
    hits = np.zeros(4, np.int64)
    for count, result, water, sample in given_batches:
        drift.add(seeds, count, np.array(result), {"water": water}, enc.posts(sample))
        posts, on_water, texts = posts + count, on_water + water, texts + sample
        hits += result
    scores = enc.posts(texts).similarity(seeds.embeddings).reshape(-1, 4) >= cuts(seeds.embeddings)
    high = scores.mean(axis=0) if len(texts) >= MIN_SAMPLED_POSTS else np.full(4, nan)
    each = hits / (posts * RATE) if posts * RATE >= MIN_PROMISED_PASSES else np.full(4, nan)
    both = on_water / (posts * RATE * 2) if posts * RATE * 2 >= MIN_PROMISED_PASSES else nan
    rows = {(row.event, row.seed): (row.passes, row.high) for row in drift.measures()}
    names = ["flood", "game", "pets", "raid"]
    assert [seed.id for seed in seeds.seeds] == names
    expected = {
        ("water", "flood"): (each[0], high[0]), ("game", "game"): (each[1], high[1]),
        ("pets", "pets"): (nan, high[2]), ("water", "raid"): (each[3], high[3]),
        ("water", ""): (both, (high[0] + high[3]) / 2), ("pets", ""): (nan, high[2]),
    }  # fmt: skip
    approximate = {name: pytest.approx(pair, nan_ok=True) for name, pair in expected.items()}
    assert {name: rows[name] for name in expected} == approximate


def test_unchanged_seeds_keep_their_counts() -> None:
    before, after, enc = seeds_of(), seeds_of(pets=0.5), small_encoder()
    drift = drift_of(before)
    drift.add(before, 2000, np.array([7, 8, 9, 10]), {}, enc.posts([]))
    drift.prepare(after)
    drift.add(after, 2000, np.array([7, 8, 9, 10]), {}, enc.posts([]))
    result = {row.seed: row.passes for row in drift.measures() if row.seed}
    assert result == pytest.approx(
        {"flood": 0.35, "game": 0.4, "pets": nan, "raid": 0.5}, nan_ok=True
    )


def test_a_batch_of_a_former_seed_set_is_not_counted() -> None:
    first, second, enc = seeds_of(), seeds_of(), small_encoder()
    drift, hits = drift_of(first), np.full(4, 30)
    assert drift.measures() == []
    drift.add(first, 2000, hits, {}, enc.posts([]))
    drift.prepare(second)
    drift.add(first, 2000, hits, {}, enc.posts([]))  # still in force: the next one is only ready
    drift.add(second, 2000, hits, {}, enc.posts([]))
    drift.add(first, 2000, hits * 100, {}, enc.posts([]))
    assert {row.passes for row in drift.measures() if row.seed} == {1.5}


def test_events_that_differ_only_in_a_final_nul_are_two() -> None:
    events = {"flood": "water", "game": "water\0", "pets": "\0"}
    records = {name: {"text": ARTICLES[name], "event": event} for name, event in events.items()}
    seeds = SeedEmbedder(small_encoder(), RATE, None).make(book_of(**records).snapshot())
    drift = drift_of(seeds)
    sample = small_encoder().posts([ARTICLES["game"]] * MIN_SAMPLED_POSTS)
    drift.add(seeds, 1000, np.zeros(3, np.int64), {}, sample)
    high = {m.event: m.high for m in drift.measures() if not m.seed}
    assert (high["water\0"], high["water"]) == (1, 0)


def test_old_posts_lose_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.match.drift, "POSTS_HALF_LIFE", 10_000)
    seeds, none = seed_set(), np.zeros(4, np.int64)
    drift = drift_of(seeds)
    for hits in (100, 0, 0, 0, 0, 0, 0, 0):
        drift.add(seeds, 9_999, none + hits, {}, small_encoder().posts([]))
    assert all(row.passes < 0.05 for row in drift.measures() if row.seed)


def test_the_number_of_watched_seeds_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.match.drift, "MAX_WATCHED_SEEDS", 2)
    seeds, nothing = seeds_of(), SeedSet.empty(small_encoder())
    drift = drift_of(nothing)
    sample = small_encoder().posts(["flood"])
    drift.add(nothing, 1, np.zeros(0, np.int64), {}, sample)
    assert drift.measures() == []
    drift.prepare(seeds)
    drift.add(seeds, 5_000, np.full(4, 50), {}, sample)
    assert {(row.event, row.seed) for row in drift.measures()} == {
        ("water", "flood"), ("game", "game"), ("water", ""), ("game", ""),
    }  # fmt: skip


def test_the_sentence_names_the_worst_event_or_seed() -> None:
    calm = [DriftMeasure("fire", "f", 1.5, 0.12), DriftMeasure("fire", "", nan, 0.2)]
    assert describe_drift([]) == describe_drift([DriftMeasure("fire", "f")]) == ""
    assert describe_drift(calm).startswith("none:")
    assert "event flood passes 31 times" in describe_drift(
        [*calm, DriftMeasure("flood", "", 31.4, 0.1)]
    )
    assert "42% of the posts score as high with seed g" in describe_drift(
        [*calm, DriftMeasure("game", "g", 31.4, 0.42)]
    )
