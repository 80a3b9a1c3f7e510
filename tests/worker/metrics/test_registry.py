from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from worker.match.pipeline import STAGES as PIPELINE_STAGES
from worker.match.pipeline import Outcome
from worker.metrics.registry import (
    MAX_NAMED_EVENTS,
    PASSED_OVER,
    PAUSE_REASONS,
    REASONS,
    SEED_STATES,
    STAGES,
    BatchHistogram,
    Metrics,
)
from worker.posts.read import Reason

# Dashboards, alerts and other people's rules hold these names: a change breaks them.
STABLE = {
    "newsift_posts_read_total": "", "newsift_posts_read_by_star_total": "",
    "newsift_posts_matched_total": "", "newsift_background_share_read": "",
    "newsift_control_posts_total": "state",
    "newsift_posts_linking_total": "", "newsift_posts_passed_over_total": "why",
    "newsift_posts_without_seeds_total": "",
    "newsift_posts_rejected_total": "reason", "newsift_matches_total": "event",
    "newsift_event_posts_total": "event", "newsift_stories_total": "event",
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


def by_name(metrics: Metrics) -> dict[str, float]:
    """Every sample by its name and the values of its labels."""
    return {
        " ".join([name.removeprefix("newsift_"), *(text for _, text in labels)]): value
        for (name, labels), value in samples(metrics).items()
    }


def test_the_served_names_and_labels_are_stable() -> None:
    metrics = Metrics()
    metrics.lag(0, 1)
    metrics.open_transaction("tweets", 0, 3, 5.0)
    metrics.seeds({}, "d", 0)
    metrics.model("d", "kernel", 0.0)
    result = dict[str, set[str]]()
    for name, labels in samples(metrics):
        for end in ("_bucket", "_sum", "_count"):
            name = name.removesuffix(end)
        if name.startswith("newsift_"):
            result[name] = {label for label, _ in labels if label != "le"}
    assert result == {name: set(labels.split()) for name, labels in STABLE.items()}


def test_gauges_show_the_current_state_alone() -> None:
    now = [1000.0]
    metrics = Metrics(clock=lambda: now[0])
    assert np.isnan(by_name(metrics)["seed_set_age_seconds"])
    metrics.begin_pause("output")
    metrics.begin_pause("backlog")
    metrics.end_pause("output")
    assert by_name(metrics)["paused"] == 1
    metrics.end_pause("backlog")
    for lost in (7, -1):
        metrics.offsets_lost(lost)
    for partition, lag in enumerate((0, -5, 20)):
        metrics.lag(partition, lag)
    metrics.remove_lag([2, 7])
    metrics.seeds({"live": 5, "refused": 2, "expired": 1}, "aaaa", 990.0)
    metrics.seeds({"live": 6, "expired": 1, "stale": 3}, "bbbb", 995.0)
    now[0] = 1005.0
    metrics.model("d0", "kernel", 0.25)
    metrics.model("d1", "torch", 0.5)
    metrics.count_rebalance()
    metrics.progress(123.5)
    metrics.in_flight(3)
    metrics.background_share(0.25)
    metrics.stage("wait", 0.5)
    metrics.ready(True)
    values = by_name(metrics)
    assert values.items() >= {
        "paused": 0, "pauses_total output": 1, "pauses_total backlog": 1, "rebalances_total": 1,
        "offsets_lost_total": 7, "last_progress_timestamp_seconds": 123.5, "ready": 1,
        "in_flight_batches": 3, "stage_seconds_sum wait": 0.5, "model_info d1 0.5 torch": 1,
        "background_share_read": 0.25,
        "lag_posts 0": 0, "lag_posts 1": 0, "seeds live": 6, "seeds refused": 0,
        "seeds expired": 1, "seeds stale": 3, "seed_set_age_seconds": 10, "seed_set_info bbbb": 1,
    }.items()  # fmt: skip
    assert values.keys().isdisjoint((
        "lag_posts 2", "lag_posts 7", "model_info d0 0.25 kernel", "seed_set_info aaaa",
    ))  # fmt: skip
    metrics.ready(False)
    assert by_name(metrics)["ready"] == 0


def test_closed_lists_are_counted_from_zero() -> None:
    values = by_name(Metrics())
    for name, labels in {
        "posts_rejected_total": Reason, "stage_seconds_count": STAGES,
        "pauses_total": PAUSE_REASONS,
        "posts_passed_over_total": PASSED_OVER, "seeds": SEED_STATES,
    }.items():  # fmt: skip
        assert {values[f"{name} {label}"] for label in labels} == {0}
    assert set(PIPELINE_STAGES) < set(STAGES)
    assert set(REASONS) == set(Reason)


def test_a_batch_is_counted() -> None:
    metrics = Metrics()
    metrics.name_events(["fire", "flood"])
    batch = Outcome(
        read=10, read_by_star=6, control=Counter(skimmed=5, read=1), matched=2,
        without_seeds=1, passed_over=Counter(no_post=3),
        rejected=Counter({Reason.BAD_JSON: 2}), events=Counter(fire=4, flood=1),
        best=np.array([0.31, 0.33, 1, np.nan, -0.5], np.float32),
        seconds={"decode": 0.25, "encode": 0.5, "match": 0.125},
    )  # fmt: skip
    for _ in range(2):
        metrics.batch(batch, latency=[0.004, 0.2])
    assert by_name(metrics).items() >= {
        "posts_read_total": 20, "posts_read_by_star_total": 12, "posts_matched_total": 4,
        "control_posts_total skimmed": 10, "control_posts_total read": 2,
        "control_posts_total lost": 0,
        "posts_without_seeds_total": 2,
        "posts_passed_over_total no_post": 6, "posts_passed_over_total no_seeds": 2,
        "posts_rejected_total bad_json": 4,
        "matches_total fire": 8, "matches_total flood": 2, "batch_posts_sum": 20,
        "batch_posts_count": 2, "stage_seconds_sum encode": 1, "stage_seconds_count wait": 0,
        "latency_seconds_count": 4, "latency_seconds_bucket 0.2": 4,
        "latency_seconds_bucket 0.1": 2, "best_score_count": 8, "best_score_bucket 0.0": 2,
        "best_score_bucket 0.35": 6,
    }.items()  # fmt: skip


def test_which_events_are_named_depends_on_the_seed_set_and_not_on_its_history() -> None:
    now = [f"event {n:03}" for n in range(MAX_NAMED_EVENTS + 50)]
    first, second = Metrics(), Metrics()
    first.name_events(["a", *reversed(now)])
    first.batch(Outcome(events=Counter({"event 149": 5, "event 000": 1, "a": 1})))
    first.name_events(now)
    for n in range(len(now)):
        second.name_events(now[n::-1])
    for metrics in (first, second):
        metrics.batch(Outcome(events=Counter({"event 149": 5, "event 000": 1, "a": 1})))
    labels = [
        {key for key in samples(metrics) if "event" in dict(key[1])} for metrics in (first, second)
    ]
    assert labels[0] == labels[1]
    named = {dict(key[1])["event"] for key in labels[0] if key[0] == "newsift_matches_total"}
    assert named == {*now[:MAX_NAMED_EVENTS], "other"}
    assert by_name(second)["matches_total event 000"] == 1
    assert by_name(second)["matches_total other"] == 6


@given(st.lists(st.text() | st.text(st.characters(categories=["Cs"])), max_size=5))
def test_any_event_name_can_be_served(events: list[str]) -> None:
    metrics = Metrics()
    metrics.name_events([*events, "x" * 10_000])
    metrics.batch(Outcome(events=Counter([*events, "x" * 10_000])))
    result = samples(metrics)
    total = sum(v for (name, _), v in result.items() if name == "newsift_matches_total")
    assert total == len(events) + 1
    assert max(len(labels[0][1]) for name, labels in result if "matches_total" in name) <= 100


@given(st.lists(st.lists(st.floats(-2, 2) | st.sampled_from([0.0, 0.5, 1.0]), max_size=20)))
def test_a_batch_histogram_counts_like_a_slow_loop(batches: list[list[float]]) -> None:
    bounds = (0.0, 0.5, 1.0)
    histogram = BatchHistogram("h", "says", (), CollectorRegistry(), bounds)
    for batch in batches:
        histogram.observe_all(batch)
    [family] = histogram.collect()
    every = [x for batch in batches for x in batch]
    buckets = {s.labels["le"]: s.value for s in family.samples if s.name == "h_bucket"}
    assert buckets == {str(b): sum(x <= b for x in every) for b in bounds} | {"+Inf": len(every)}
    [total] = [s.value for s in family.samples if s.name == "h_sum"]
    assert total == pytest.approx(sum(every), abs=1e-9)
