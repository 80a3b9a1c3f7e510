"""The metrics, parsed as Prometheus does."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from worker.match.drift import Drifting
from worker.match.pipeline import STAGES as PIPELINE_STAGES
from worker.match.pipeline import Outcome
from worker.metrics.registry import (
    EVENTS,
    PASSED_OVER,
    PAUSES,
    REASONS,
    STAGES,
    STATES,
    BatchHistogram,
    Metrics,
)
from worker.posts.read import Reason

# Dashboards, alerts and other people's rules hold these names: a change breaks them.
STABLE = {
    "newsift_posts_read_total": "", "newsift_posts_matched_total": "",
    "newsift_posts_passed_over_total": "why", "newsift_posts_without_seeds_total": "",
    "newsift_posts_rejected_total": "reason", "newsift_matches_total": "event",
    "newsift_event_posts_total": "event", "newsift_stories_total": "event",
    "newsift_bursts_total": "event",
    "newsift_pass_ratio": "event seed", "newsift_high_share": "event seed",
    "newsift_batch_posts": "", "newsift_stage_seconds": "stage", "newsift_latency_seconds": "",
    "newsift_lag_posts": "partition", "newsift_offsets_lost_total": "", "newsift_seeds": "state",
    "newsift_open_transaction_messages": "topic partition",
    "newsift_open_transaction_seconds": "topic partition",
    "newsift_seed_set_age_seconds": "", "newsift_seed_set_info": "digest",
    "newsift_last_progress_timestamp_seconds": "", "newsift_paused": "",
    "newsift_pauses_total": "why", "newsift_rebalances_total": "",
    "newsift_version_info": "version",
    "newsift_model_info": "digest path mix", "newsift_best_score": "", "newsift_ready": "",
    "newsift_in_flight_batches": "", "newsift_unreadable_batches_total": "topic",
    "newsift_unreadable_offsets_total": "topic",
}  # fmt: skip
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(metrics: Metrics) -> Samples:
    """Every sample by its name and labels, from the text that is served."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families for sample in family.samples
    }  # fmt: skip


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics)[f"newsift_{name}", tuple(sorted(labels.items()))]


def test_the_served_names_and_labels_are_stable() -> None:
    metrics = Metrics()
    metrics.lag(0, 1)
    metrics.open_transaction("tweets", 0, 3, 5.0)
    metrics.drift([Drifting("fire", "", 1.0, 0.1)])
    metrics.seeds(0, 0, 0, 0, 0, "d", 0)
    metrics.model("d", "kernel", 0.0)
    found = {}
    for name, labels in samples(metrics):
        for end in ("_bucket", "_sum", "_count"):
            name = name.removesuffix(end)
        if name.startswith("newsift_"):
            found[name] = {label for label, _ in labels if label != "le"}
    assert found == {name: set(labels.split()) for name, labels in STABLE.items()}


def test_drift_shows_the_current_events_alone() -> None:
    metrics = Metrics()
    metrics.drift([Drifting("gone", "g", 2.0, 0.5)])
    metrics.drift([Drifting("fire", "f", 3.0), Drifting("fire", "", high=0.25)])
    found = {key: n for key, n in samples(metrics).items() if "event" in dict(key[1])}
    known = {key: n for key, n in found.items() if dict(key[1])["event"] in ("fire", "gone")}
    assert known == {
        ("newsift_pass_ratio", (("event", "fire"), ("seed", "f"))): 3.0,
        ("newsift_high_share", (("event", "fire"), ("seed", ""))): 0.25,
    }


def test_closed_lists_are_counted_from_zero() -> None:
    metrics = Metrics()
    for reason in Reason:
        assert value(metrics, "posts_rejected_total", reason=reason) == 0
    for stage in STAGES:
        assert value(metrics, "stage_seconds_count", stage=stage) == 0
    for why in PAUSES:
        assert value(metrics, "pauses_total", why=why) == 0
    for why in PASSED_OVER:
        assert value(metrics, "posts_passed_over_total", why=why) == 0
    for state in STATES:
        assert value(metrics, "seeds", state=state) == 0
    assert set(PIPELINE_STAGES) < set(STAGES)
    assert set(REASONS) == set(Reason)


def test_a_batch_is_counted() -> None:
    metrics = Metrics()
    batch = Outcome(
        read=10, matched=2, without_seeds=1, passed_over=Counter(no_post=3),
        rejected=Counter({Reason.BAD_JSON: 2}), events=Counter(fire=4, flood=1),
        best=np.array([0.31, 0.33, 1, np.nan, -0.5], np.float32),
        seconds={"decode": 0.25, "encode": 0.5, "match": 0.125},
    )  # fmt: skip
    for _ in range(2):
        metrics.batch(batch, latency=[0.004, 0.2])
    assert value(metrics, "posts_read_total") == 20
    assert value(metrics, "posts_matched_total") == 4
    assert value(metrics, "posts_without_seeds_total") == 2
    assert value(metrics, "posts_passed_over_total", why="no_post") == 6
    assert value(metrics, "posts_rejected_total", reason="bad_json") == 4
    assert value(metrics, "matches_total", event="fire") == 8
    assert value(metrics, "matches_total", event="flood") == 2
    assert value(metrics, "batch_posts_sum") == 20
    assert value(metrics, "batch_posts_count") == 2
    assert value(metrics, "stage_seconds_sum", stage="encode") == 1
    assert value(metrics, "stage_seconds_count", stage="wait") == 0
    assert value(metrics, "latency_seconds_count") == 4
    assert value(metrics, "latency_seconds_bucket", le="0.2") == 4
    assert value(metrics, "latency_seconds_bucket", le="0.1") == 2
    assert value(metrics, "best_score_count") == 8
    assert value(metrics, "best_score_bucket", le="0.0") == 2
    assert value(metrics, "best_score_bucket", le="0.35") == 6


def test_events_are_bounded_in_number_and_length() -> None:
    metrics = Metrics()
    for n in range(EVENTS + 50):
        metrics.batch(Outcome(events=Counter({f"event {n}": 1})))
    metrics.batch(Outcome(events=Counter({"event 0": 5, "event 149": 5})))
    found = {k: v for k, v in samples(metrics).items() if k[0] == "newsift_matches_total"}
    assert len(found) == EVENTS + 1
    assert value(metrics, "matches_total", event="event 0") == 6
    assert value(metrics, "matches_total", event="other") == 55


@settings(deadline=None)
@given(st.lists(st.text() | st.text(st.characters(categories=["Cs"])), max_size=5))
def test_any_event_name_can_be_served(events: list[str]) -> None:
    metrics = Metrics()
    metrics.batch(Outcome(events=Counter(events)))
    metrics.batch(Outcome(events=Counter({"x" * 10_000: 1})))
    found = samples(metrics)
    total = sum(v for (name, _), v in found.items() if name == "newsift_matches_total")
    assert total == len(events) + 1
    assert max(len(labels[0][1]) for name, labels in found if "matches_total" in name) <= 100


def test_the_seed_set_is_the_current_one() -> None:
    now = [1000.0]
    metrics = Metrics(clock=lambda: now[0])
    assert np.isnan(value(metrics, "seed_set_age_seconds"))
    metrics.seeds(5, 2, 1, 0, 0, "aaaa", 990.0, events=["fire"])
    metrics.seeds(6, 0, 1, 0, 3, "bbbb", 995.0)
    now[0] = 1005.0
    assert value(metrics, "seeds", state="live") == 6
    assert value(metrics, "seeds", state="refused") == 0
    assert value(metrics, "seeds", state="expired") == 1
    assert value(metrics, "seeds", state="stale") == 3
    assert value(metrics, "seed_set_age_seconds") == 10
    infos = [labels for name, labels in samples(metrics) if name == "newsift_seed_set_info"]
    assert infos == [(("digest", "bbbb"),)]
    assert value(metrics, "matches_total", event="fire") == 0


def test_lag_is_that_of_the_assigned_partitions() -> None:
    metrics = Metrics()
    for partition in range(3):
        metrics.lag(partition, partition * 10)
    metrics.lag(1, -5)
    metrics.revoked([2, 7])
    lags = {labels: v for (name, labels), v in samples(metrics).items() if "lag_posts" in name}
    assert lags == {(("partition", "0"),): 0, (("partition", "1"),): 0}


def test_pauses_and_the_state_of_the_worker() -> None:
    metrics = Metrics()
    metrics.paused("output")
    assert value(metrics, "paused") == 1
    metrics.paused("backlog")
    metrics.resumed("output")
    assert value(metrics, "paused") == 1
    metrics.resumed("backlog")
    assert value(metrics, "paused") == 0
    assert value(metrics, "pauses_total", why="output") == 1
    assert value(metrics, "pauses_total", why="backlog") == 1
    metrics.rebalanced()
    metrics.offsets_lost(7)
    metrics.offsets_lost(-1)
    metrics.progress(123.5)
    metrics.ready(True)
    metrics.in_flight(3)
    metrics.stage("wait", 0.5)
    assert value(metrics, "rebalances_total") == 1
    assert value(metrics, "offsets_lost_total") == 7
    assert value(metrics, "last_progress_timestamp_seconds") == 123.5
    assert value(metrics, "ready") == 1
    assert value(metrics, "in_flight_batches") == 3
    assert value(metrics, "stage_seconds_sum", stage="wait") == 0.5
    metrics.ready(False)
    assert value(metrics, "ready") == 0
    metrics.model("d0", "kernel", 0.25)
    metrics.model("d1", "torch", 0.5)
    infos = [labels for name, labels in samples(metrics) if name == "newsift_model_info"]
    assert infos == [(("digest", "d1"), ("mix", "0.5"), ("path", "torch"))]


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(-2, 2) | st.sampled_from([0.0, 0.5, 1.0]), max_size=20)))
def test_a_batch_histogram_counts_like_a_slow_loop(batches: list[list[float]]) -> None:
    bounds = (0.0, 0.5, 1.0)
    histogram = BatchHistogram("h", "says", buckets=bounds, registry=None)
    for batch in batches:
        histogram.observe_all(batch)
    [family] = histogram.collect()
    every = [x for batch in batches for x in batch]
    buckets = {s.labels["le"]: s.value for s in family.samples if s.name == "h_bucket"}
    assert buckets == {str(b): sum(x <= b for x in every) for b in bounds} | {"+Inf": len(every)}
    [total] = [s.value for s in family.samples if s.name == "h_sum"]
    assert total == pytest.approx(sum(every), abs=1e-9)
