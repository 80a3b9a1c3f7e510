"""Every exported metric: name, type, labels and meaning. The names are stable."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import nsmallest
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from worker.posts.read import Reason
from worker.text import escaped

if TYPE_CHECKING:
    from worker.match.drift import Drifting
    from worker.match.pipeline import Outcome


class BatchHistogram(Histogram):
    """Prometheus's histogram without labels, with array input."""

    def observe_all(self, values: ArrayLike) -> None:
        """Count every finite value in the first bucket whose upper bound is not below it."""
        samples = np.asarray(values, np.float64).ravel()
        samples = samples[np.isfinite(samples)]
        bucket = np.searchsorted(self._upper_bounds, samples, side="left")
        for number, count in zip(*np.unique(bucket, return_counts=True), strict=True):
            self._buckets[number].inc(int(count))
        self._sum.inc(float(samples.sum()))


STAGES = ("wait", "decode", "encode", "match", "group", "produce", "commit")
PASSED_OVER = ("no_post", "no_words", "other_language")
TOPICS = ("posts", "seeds")
PAUSES = ("backlog", "output", "control")
STATES = ("live", "refused", "expired", "paused", "stale")
REASONS = tuple(reason.value for reason in Reason)
OTHER = "other"

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 600, 3600)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4096, 10_000)
SCORES = tuple(n / 20 for n in range(21))


@dataclass(frozen=True, slots=True)
class Exported:
    """One metric; `closed` lists every value of its label if the set is fixed."""

    name: str
    kind: type[Counter | Gauge | Histogram]
    says: str
    labels: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _row(
    name: str, kind: type[Counter | Gauge | Histogram], says: str, label: str = "",
    closed: tuple[str, ...] = (), buckets: tuple[float, ...] = (),
) -> Exported:  # fmt: skip
    return Exported(f"newsift_{name}", kind, says, tuple(label.split()), closed, buckets)


def registered(row: Exported, registry: CollectorRegistry) -> Any:
    """The metric in a registry; label values of a fixed set start at 0."""
    extra: dict[str, Any] = {"buckets": row.buckets} if row.buckets else {}
    metric = row.kind(row.name, row.says, row.labels, registry=registry, **extra)
    for value in row.closed:
        metric.labels(value)
    return metric


METRICS = (
    _row("posts_read_total", Counter, "Messages read from the topic of posts"),
    _row("posts_matched_total", Counter, "Posts that matched at least one seed"),
    _row("posts_passed_over_total", Counter, "Well-formed events without a post that is wanted",
         "why", PASSED_OVER),
    _row("posts_without_seeds_total", Counter, "Posts that came while there were no seeds"),
    _row("posts_rejected_total", Counter, "Messages sent to the dead letters", "reason", REASONS),
    _row("matches_total", Counter, "Matches; of the first 100 events in sorted order by name",
         "event", (OTHER,)),
    _row("event_posts_total", Counter, "Posts that match, by the events that their records name",
         "event", (OTHER,)),
    _row("stories_total", Counter, "Those of them that are the first to say so", "event", (OTHER,)),
    _row("bursts_total", Counter, "Minutes with far more stories than the hour before", "event",
         (OTHER,)),
    _row("pass_ratio", Gauge, "Matches in parts of the promised rate, of the first 100 seeds by "
         "id; of their events with an empty seed", "event seed"),
    _row("high_share", Gauge, "Share of posts that score as high as a tenth of the background",
         "event seed"),
    _row("batch_posts", Histogram, "Messages in a batch", buckets=SIZES),
    _row("stage_seconds", Histogram, "Seconds that a batch spends in a stage", "stage", STAGES,
         SECONDS),
    _row("latency_seconds", BatchHistogram,
         "Seconds from a post's timestamp to the acknowledgement of its batch", buckets=LATENCIES),
    _row("best_score", BatchHistogram, "The best score of each post with any seed",
         buckets=SCORES),
    _row("lag_posts", Gauge, "Messages not yet committed, of the partitions held", "partition"),
    _row("offsets_lost_total", Counter,
         "Messages deleted before they were read; 1 where the number is unknown"),
    _row("unreadable_batches_total", Counter, "Record batches that could not be read",
         "topic", TOPICS),
    _row("unreadable_offsets_total", Counter, "Offsets of the messages in these batches",
         "topic", TOPICS),
    _row("open_transaction_messages", Gauge,
         "Messages held back since a transaction is open, its own among them", "topic partition"),
    _row("open_transaction_seconds", Gauge, "Seconds that this transaction has been seen open",
         "topic partition"),
    _row("seeds", Gauge, "Seeds by state", "state", STATES),
    _row("seed_set_age_seconds", Gauge, "Seconds since the set of seeds last changed"),
    _row("seed_set_info", Gauge, "1, with the digest of the set of seeds", "digest"),
    _row("last_progress_timestamp_seconds", Gauge, "When a batch was last finished"),
    _row("paused", Gauge, "1 while reading is paused"),
    _row("pauses_total", Counter, "Pauses of reading by what caused them", "why", PAUSES),
    _row("rebalances_total", Counter, "Times that partitions were reassigned"),
    _row("version_info", Gauge, "1, with the version of newsift", "version"),
    _row("model_info", Gauge, "1, with the model's digest, path and mix", "digest path mix"),
    _row("ready", Gauge, "1 once the seeds are read and the output answers"),
    _row("in_flight_batches", Gauge, "Batches read and not yet committed"),
)  # fmt: skip


EVENTS = 100
OF_EVENTS = ("matches_total", "event_posts_total", "stories_total", "bursts_total")
MAX_EVENT_CHARS = 100  # characters
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._collectors = {
            row.name.removeprefix("newsift_"): registered(row, self.registry) for row in METRICS
        }
        self._events: set[str] = set()
        self._pausing: set[str] = set()
        self._changed = float("nan")
        self._collectors["seed_set_age_seconds"].set_function(lambda: self._clock() - self._changed)
        self._collectors["version_info"].labels(version("newsift")).set(1)
        ProcessCollector(registry=self.registry)

    def batch(self, outcome: "Outcome", latency: ArrayLike = ()) -> None:
        """Count a finished batch; latency has the seconds since each post's timestamp."""
        self._collectors["posts_read_total"].inc(outcome.read)
        self._collectors["posts_matched_total"].inc(outcome.matched)
        self._collectors["posts_without_seeds_total"].inc(outcome.without_seeds)
        for why, n in outcome.passed_over.items():
            self._collectors["posts_passed_over_total"].labels(why).inc(n)
        for reason, n in outcome.rejected.items():
            self._collectors["posts_rejected_total"].labels(str(reason)).inc(n)
        for event, n in outcome.events.items():
            self._collectors["matches_total"].labels(self._event(event)).inc(n)
        for event, n in outcome.posts_by_event.items():
            self._collectors["event_posts_total"].labels(self._event(event)).inc(n)
        for (_, event, _), n in outcome.stories.items():
            self._collectors["stories_total"].labels(self._event(event)).inc(n)
        self._collectors["batch_posts"].observe(outcome.read)
        for stage, seconds in outcome.seconds.items():
            self.stage(stage, seconds)
        self._collectors["latency_seconds"].observe_all(latency)
        self._collectors["best_score"].observe_all(outcome.best)

    def stage(self, name: str, seconds: float) -> None:
        """Record the time of a batch in a stage: wait, group, produce or commit."""
        self._collectors["stage_seconds"].labels(name).observe(seconds)

    def burst(self, event: str) -> None:
        """Count a minute with far more new story groups of an event than the hour before."""
        self._collectors["bursts_total"].labels(self._event(event)).inc()

    def drift(self, drifting: "Iterable[Drifting]") -> None:
        """Report the drift of seeds and events for which enough posts were seen."""
        for name in ("pass_ratio", "high_share"):
            self._collectors[name].clear()
        for each in drifting:
            labels = label_of(each.event), label_of(each.seed)
            for name, value in (("pass_ratio", each.passes), ("high_share", each.high)):
                if not math.isnan(value):
                    self._collectors[name].labels(*labels).set(value)

    def lag(self, partition: int, posts: int) -> None:
        self._collectors["lag_posts"].labels(str(partition)).set(max(posts, 0))

    def revoked(self, partitions: Iterable[int]) -> None:
        """Remove the lag of partitions that belong to another worker now."""
        for partition in partitions:
            self._collectors["lag_posts"].remove_by_labels({"partition": str(partition)})

    def paused(self, why: str) -> None:
        """Report that reading is paused; the reason is one of PAUSES."""
        self._collectors["pauses_total"].labels(why).inc()
        self._pausing.add(why)
        self._collectors["paused"].set(1)

    def resumed(self, why: str) -> None:
        """End one reason of a pause; reading goes on if none is left."""
        self._pausing.discard(why)
        self._collectors["paused"].set(int(bool(self._pausing)))

    def rebalanced(self) -> None:
        self._collectors["rebalances_total"].inc()

    def offsets_lost(self, posts: int) -> None:
        """Count messages that were deleted before they were read."""
        self._collectors["offsets_lost_total"].inc(max(posts, 0))

    def unreadable(self, topic: str, offsets: int) -> None:
        """Count a record batch that could not be read; topic is one of TOPICS."""
        self._collectors["unreadable_batches_total"].labels(topic).inc()
        self._collectors["unreadable_offsets_total"].labels(topic).inc(offsets)

    def open_transaction(self, topic: str, partition: int, messages: int, seconds: float) -> None:
        """Report how many posts wait behind an open transaction, and for how long."""
        labels = topic, str(partition)
        self._collectors["open_transaction_messages"].labels(*labels).set(messages)
        self._collectors["open_transaction_seconds"].labels(*labels).set(seconds)

    def name_events(self, events: Iterable[str]) -> None:
        """Count these events of the seed set by name, from 0: the first 100 in sorted order.

        Which events are named depends on the seed set alone, so all workers export the same series.
        """
        named = {label_of(event) for event in nsmallest(EVENTS, {*events})}
        for name in OF_EVENTS:
            for label in self._events - named - {OTHER}:
                self._collectors[name].remove(label)
            for label in named:
                self._collectors[name].labels(label)
        self._events = named

    def seeds(
        self, live: int, refused: int, expired: int, paused: int, stale: int, digest: str, at: float
    ) -> None:
        """Describe the seed set in force since `at`."""
        for state, n in zip(STATES, (live, refused, expired, paused, stale), strict=True):
            self._collectors["seeds"].labels(state).set(n)
        self._collectors["seed_set_info"].clear()
        self._collectors["seed_set_info"].labels(digest).set(1)
        self._changed = at

    def model(self, digest: str, path: str, mix: float) -> None:
        self._collectors["model_info"].clear()
        self._collectors["model_info"].labels(digest, path, f"{mix:g}").set(1)

    def progress(self, at: float) -> None:
        """Record when a batch was finished, in seconds since 1970."""
        self._collectors["last_progress_timestamp_seconds"].set(at)

    def ready(self, ready: bool) -> None:
        self._collectors["ready"].set(int(ready))

    def in_flight(self, batches: int) -> None:
        self._collectors["in_flight_batches"].set(batches)

    def render(self) -> bytes:
        """All metrics in Prometheus's text format."""
        return generate_latest(self.registry)

    def _event(self, event: str) -> str:
        """The label of an event; the number of labels and their length are bounded."""
        label = label_of(event)
        return label if label in self._events else OTHER


def label_of(name: str) -> str:
    return escaped(name)[:MAX_EVENT_CHARS]
