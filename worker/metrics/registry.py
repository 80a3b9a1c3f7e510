"""Every exported metric: name, type, labels and meaning. The names are stable."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from worker.posts.read import Reason
from worker.text import escape_invisible

if TYPE_CHECKING:
    from worker.match.pipeline import Outcome


class BatchHistogram(Collector):
    """A histogram without labels that takes arrays."""

    def __init__(
        self, name: str, help: str, labels: tuple[str, ...], registry: CollectorRegistry,
        buckets: tuple[float, ...],
    ) -> None:  # fmt: skip
        assert not labels
        self._name, self._help, self._bounds = name, help, np.array([*buckets, np.inf])
        self._counts, self._sum = np.zeros(len(self._bounds), np.int64), 0.0
        registry.register(self)

    def observe_all(self, values: ArrayLike) -> None:
        """Values that are not finite are ignored."""
        samples = np.asarray(values, np.float64).ravel()
        samples = samples[np.isfinite(samples)]
        places = np.searchsorted(self._bounds, samples, side="left")
        self._counts = self._counts + np.bincount(places, minlength=len(self._bounds))
        self._sum += float(samples.sum())

    def collect(self) -> Iterator[Metric]:
        bounds, counts = map(floatToGoString, self._bounds), np.cumsum(self._counts).tolist()
        buckets = list(zip(bounds, counts, strict=True))
        yield HistogramMetricFamily(self._name, self._help, buckets, self._sum)


STAGES = ("wait", "decode", "encode", "read", "match", "group", "produce", "commit")
CONTROL_STATES = ("skimmed", "read", "lost")
PASSED_OVER = ("no_post", "no_words", "other_language", "no_seeds")
TOPICS = ("posts", "seeds")
PAUSE_REASONS = ("backlog", "output", "control")
SEED_STATES = ("live", "refused", "expired", "paused", "stale")
REASONS = tuple(reason.value for reason in Reason)
OTHER_EVENTS = "other"

SECOND_BUCKETS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
)  # fmt: skip
LATENCY_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 600, 3600,
)  # fmt: skip
SIZE_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
SCORE_BUCKETS = tuple(n / 20 for n in range(21))
Kind = type[Counter | Gauge | Histogram | BatchHistogram]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric; `label_values` lists every value of its label if the set is fixed."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    label_values: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _metric(
    name: str, kind: Kind, help: str, labels: str = "",
    label_values: tuple[str, ...] = (), buckets: tuple[float, ...] = (),
) -> MetricSpec:  # fmt: skip
    return MetricSpec(f"newsift_{name}", kind, help, tuple(labels.split()), label_values, buckets)


def register_metric(spec: MetricSpec, registry: CollectorRegistry) -> Any:
    """Label values of a fixed set start at 0."""
    extra: dict[str, Any] = {"buckets": spec.buckets} if spec.buckets else {}
    metric: Any = spec.kind(spec.name, spec.help, spec.labels, registry=registry, **extra)
    for value in spec.label_values:
        metric.labels(value)
    return metric


METRICS = (
    _metric("posts_read_total", Counter, "Messages read from the topic of posts"),
    _metric("posts_read_by_star_total", Counter,
         "Posts that were read by the transformer, since they may match"),
    _metric("control_posts_total", Counter,
         "Posts that nearly were read: all, those read as a control, and those that would match",
         "state", CONTROL_STATES),
    _metric("background_share_read", Gauge,
         "Share of the background's posts that the present seeds would have read"),
    _metric("posts_matched_total", Counter, "Posts that matched at least one seed"),
    _metric("posts_linking_total", Counter, "Those of them that link to the page of a seed"),
    _metric("posts_passed_over_total", Counter, "Well-formed events that are not compared",
         "why", PASSED_OVER),
    _metric("posts_without_seeds_total", Counter, "Posts that came while there were no seeds"),
    _metric("posts_rejected_total", Counter, "Messages sent to the dead letters", "reason",
         REASONS),
    _metric("matches_total", Counter, "Matches; of the first 100 events in sorted order by name",
         "event", (OTHER_EVENTS,)),
    _metric("event_posts_total", Counter, "Posts that match, by the events that their records name",
         "event", (OTHER_EVENTS,)),
    _metric("stories_total", Counter, "Those of them that are the first to say so", "event",
            (OTHER_EVENTS,)),
    _metric("batch_posts", Histogram, "Messages in a batch", buckets=SIZE_BUCKETS),
    _metric("stage_seconds", Histogram, "Seconds that a batch spends in a stage", "stage", STAGES,
         SECOND_BUCKETS),
    _metric("latency_seconds", BatchHistogram,
         "Seconds from a post's timestamp to the acknowledgement of its batch",
         buckets=LATENCY_BUCKETS),
    _metric("best_score", BatchHistogram, "The best score of each post with any seed",
         buckets=SCORE_BUCKETS),
    _metric("lag_posts", Gauge, "Messages not yet committed, of the partitions held", "partition"),
    _metric("offsets_lost_total", Counter,
         "Messages deleted before they were read; 1 where the number is unknown"),
    _metric("unreadable_batches_total", Counter, "Record batches that could not be read",
         "topic", TOPICS),
    _metric("unreadable_offsets_total", Counter, "Offsets of the messages in these batches",
         "topic", TOPICS),
    _metric("open_transaction_messages", Gauge,
         "Messages held back since a transaction is open, its own among them", "topic partition"),
    _metric("open_transaction_seconds", Gauge, "Seconds that this transaction has been seen open",
         "topic partition"),
    _metric("seeds", Gauge, "Seeds by state", "state", SEED_STATES),
    _metric("seed_set_age_seconds", Gauge, "Seconds since the set of seeds last changed"),
    _metric("seed_set_info", Gauge, "1, with the digest of the set of seeds", "digest"),
    _metric("last_progress_timestamp_seconds", Gauge, "When a batch last ended, or reading began"),
    _metric("paused", Gauge, "1 while reading is paused"),
    _metric("pauses_total", Counter, "Pauses of reading by what caused them", "why", PAUSE_REASONS),
    _metric("rebalances_total", Counter, "Times that partitions were reassigned"),
    _metric("version_info", Gauge, "1, with the version of newsift", "version"),
    _metric("model_info", Gauge, "1, with the model's digest, path and mix", "digest path mix"),
    _metric("ready", Gauge, "1 once the seeds are read and the output answers"),
    _metric("in_flight_batches", Gauge, "Batches read and not yet committed"),
)  # fmt: skip


MAX_NAMED_EVENTS = 100
EVENT_METRICS = ("matches_total", "event_posts_total", "stories_total")
MAX_EVENT_CHARS = 100
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._collectors = {
            spec.name.removeprefix("newsift_"): register_metric(spec, self.registry)
            for spec in METRICS
        }
        self._events: set[str] = set()
        self._pausing: set[str] = set()
        self._changed = float("nan")
        self._collectors["seed_set_age_seconds"].set_function(lambda: self._clock() - self._changed)
        self._collectors["version_info"].labels(version("newsift")).set(1)
        ProcessCollector(registry=self.registry)

    def batch(self, outcome: "Outcome", latency: ArrayLike = ()) -> None:
        """`latency` has the seconds since each post's timestamp."""
        self._collectors["posts_read_total"].inc(outcome.read)
        self._collectors["posts_read_by_star_total"].inc(outcome.read_by_star)
        self._collectors["posts_matched_total"].inc(outcome.matched)
        self._collectors["posts_linking_total"].inc(outcome.linking)
        for state, n in outcome.control.items():
            self._collectors["control_posts_total"].labels(state).inc(n)
        self._collectors["posts_without_seeds_total"].inc(outcome.without_seeds)
        self._collectors["posts_passed_over_total"].labels("no_seeds").inc(outcome.without_seeds)
        for why, n in outcome.passed_over.items():
            self._collectors["posts_passed_over_total"].labels(why).inc(n)
        for reason, n in outcome.rejected.items():
            self._collectors["posts_rejected_total"].labels(str(reason)).inc(n)
        for event, n in outcome.events.items():
            self._collectors["matches_total"].labels(self._event(event)).inc(n)
        for event, n in outcome.posts_by_event.items():
            self._collectors["event_posts_total"].labels(self._event(event)).inc(n)
        for event, n in outcome.stories.items():
            self._collectors["stories_total"].labels(self._event(event)).inc(n)
        self._collectors["batch_posts"].observe(outcome.read)
        for stage, seconds in outcome.seconds.items():
            self.stage(stage, seconds)
        self._collectors["latency_seconds"].observe_all(latency)
        self._collectors["best_score"].observe_all(outcome.best)

    def stage(self, name: str, seconds: float) -> None:
        """Records the time of wait, group, produce or commit; `batch` records the others."""
        self._collectors["stage_seconds"].labels(name).observe(seconds)

    def lag(self, partition: int, posts: int) -> None:
        self._collectors["lag_posts"].labels(str(partition)).set(max(posts, 0))

    def remove_lag(self, partitions: Iterable[int]) -> None:
        """For partitions that belong to another worker now."""
        for partition in partitions:
            self._collectors["lag_posts"].remove_by_labels({"partition": str(partition)})

    def begin_pause(self, why: str) -> None:
        """`why` is one of PAUSE_REASONS."""
        self._collectors["pauses_total"].labels(why).inc()
        self._pausing.add(why)
        self._collectors["paused"].set(1)

    def end_pause(self, why: str) -> None:
        """Reading goes on once no reason is left."""
        self._pausing.discard(why)
        self._collectors["paused"].set(int(bool(self._pausing)))

    def count_rebalance(self) -> None:
        self._collectors["rebalances_total"].inc()

    def offsets_lost(self, posts: int) -> None:
        self._collectors["offsets_lost_total"].inc(max(posts, 0))

    def unreadable(self, topic: str, offsets: int) -> None:
        """`topic` is one of TOPICS."""
        self._collectors["unreadable_batches_total"].labels(topic).inc()
        self._collectors["unreadable_offsets_total"].labels(topic).inc(offsets)

    def open_transaction(self, topic: str, partition: int, messages: int, seconds: float) -> None:
        labels = topic, str(partition)
        self._collectors["open_transaction_messages"].labels(*labels).set(messages)
        self._collectors["open_transaction_seconds"].labels(*labels).set(seconds)

    def name_events(self, events: Iterable[str]) -> None:
        """Count these events of the seed set by name, from 0: the first 100 in sorted order.

        Which events are named depends on the seed set alone, so all workers export the same series.
        """
        labels = {metric_label(event) for event in nsmallest(MAX_NAMED_EVENTS, {*events})}
        for name in EVENT_METRICS:
            for label in self._events - labels - {OTHER_EVENTS}:
                self._collectors[name].remove(label)
            for label in labels:
                self._collectors[name].labels(label)
        self._events = labels

    def seeds(self, counts: Mapping[str, int], digest: str, at: float) -> None:
        """Seeds by state; the set has been in force since `at`."""
        for state in SEED_STATES:
            self._collectors["seeds"].labels(state).set(counts.get(state, 0))
        self._collectors["seed_set_info"].clear()
        self._collectors["seed_set_info"].labels(digest).set(1)
        self._changed = at

    def background_share(self, share: float) -> None:
        self._collectors["background_share_read"].set(share)

    def model(self, digest: str, path: str, mix: float) -> None:
        self._collectors["model_info"].clear()
        self._collectors["model_info"].labels(digest, path, f"{mix:g}").set(1)

    def progress(self, at: float) -> None:
        self._collectors["last_progress_timestamp_seconds"].set(at)

    def ready(self, ready: bool) -> None:
        self._collectors["ready"].set(int(ready))

    def in_flight(self, batches: int) -> None:
        self._collectors["in_flight_batches"].set(batches)

    def render(self) -> bytes:
        """The metrics in Prometheus's text format."""
        return generate_latest(self.registry)

    def _event(self, event: str) -> str:
        """Events beyond the first 100 share one label."""
        label = metric_label(event)
        return label if label in self._events else OTHER_EVENTS


def metric_label(name: str) -> str:
    return escape_invisible(name)[:MAX_EVENT_CHARS]
