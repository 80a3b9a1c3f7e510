"""The worker's metrics: one typed method for each thing that can happen."""

import math
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike
from prometheus_client import (
    CollectorRegistry,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from worker.visible import escaped
from worker.watch.table import METRICS, OTHER, STATES, registered

if TYPE_CHECKING:
    from worker.judge.drift import Drifting
    from worker.match.pipeline import Outcome

EVENTS = 100
OF_EVENTS = ("matches_total", "event_posts_total", "stories_total", "bursts_total")
LONGEST_EVENT = 100  # characters
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Everything that is counted, in a registry of its own."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._made = {
            row.name.removeprefix("newsift_"): registered(row, self.registry) for row in METRICS
        }
        self._events: set[str] = set()
        self._pausing: set[str] = set()
        self._changed = float("nan")
        self._made["seed_set_age_seconds"].set_function(lambda: self._clock() - self._changed)
        self._made["version_info"].labels(version("newsift")).set(1)
        ProcessCollector(registry=self.registry)

    def batch(self, outcome: "Outcome", latency: ArrayLike = ()) -> None:
        """Count one finished batch; latency holds the seconds since each post's timestamp."""
        self._made["posts_read_total"].inc(outcome.read)
        self._made["posts_matched_total"].inc(outcome.matched)
        self._made["posts_without_seeds_total"].inc(outcome.without_seeds)
        for why, n in outcome.passed_over.items():
            self._made["posts_passed_over_total"].labels(why).inc(n)
        for reason, n in outcome.rejected.items():
            self._made["posts_rejected_total"].labels(str(reason)).inc(n)
        for event, n in outcome.events.items():
            self._made["matches_total"].labels(self._event(event)).inc(n)
        for event, n in outcome.told.items():
            self._made["event_posts_total"].labels(self._event(event)).inc(n)
        for (event, _), n in outcome.stories.items():
            self._made["stories_total"].labels(self._event(event)).inc(n)
        self._made["batch_posts"].observe(outcome.read)
        for stage, seconds in outcome.seconds.items():
            self.stage(stage, seconds)
        self._made["latency_seconds"].observe_all(latency)
        self._made["best_score"].observe_all(outcome.best)

    def stage(self, name: str, seconds: float) -> None:
        """Note how long a batch spent in a stage: wait, group, produce or commit."""
        self._made["stage_seconds"].labels(name).observe(seconds)

    def burst(self, event: str) -> None:
        """Count a minute with far more stories of an event than the hour before."""
        self._made["bursts_total"].labels(self._event(event)).inc()

    def drift(self, drifting: "Iterable[Drifting]") -> None:
        """Note where seeds and events stand to what was promised of them, if enough is known."""
        for name in ("pass_ratio", "high_share"):
            self._made[name].clear()
        for each in drifting:
            labels = label_of(each.event), label_of(each.seed)
            for name, value in (("pass_ratio", each.passes), ("high_share", each.high)):
                if not math.isnan(value):
                    self._made[name].labels(*labels).set(value)

    def lag(self, partition: int, posts: int) -> None:
        """Note how far this worker is behind in a partition that it holds."""
        self._made["lag_posts"].labels(str(partition)).set(max(posts, 0))

    def revoked(self, partitions: Iterable[int]) -> None:
        """Forget the lag of partitions that another worker holds now."""
        for partition in partitions:
            self._made["lag_posts"].remove_by_labels({"partition": str(partition)})

    def paused(self, why: str) -> None:
        """Note that reading has paused; why is one of PAUSES."""
        self._made["pauses_total"].labels(why).inc()
        self._pausing.add(why)
        self._made["paused"].set(1)

    def resumed(self, why: str) -> None:
        """Note that this is no reason to pause any more; reading goes on if none is left."""
        self._pausing.discard(why)
        self._made["paused"].set(int(bool(self._pausing)))

    def rebalanced(self) -> None:
        """Count one rebalance."""
        self._made["rebalances_total"].inc()

    def offsets_lost(self, posts: int) -> None:
        """Count messages that were deleted before they were read."""
        self._made["offsets_lost_total"].inc(max(posts, 0))

    def unreadable(self, topic: str, offsets: int) -> None:
        """Count a record batch that was not read; topic is one of TOPICS."""
        self._made["unreadable_batches_total"].labels(topic).inc()
        self._made["unreadable_offsets_total"].labels(topic).inc(offsets)

    def open_transaction(self, topic: str, partition: int, messages: int, seconds: float) -> None:
        """Note what a partition holds back behind an open transaction, and for how long."""
        labels = topic, str(partition)
        self._made["open_transaction_messages"].labels(*labels).set(messages)
        self._made["open_transaction_seconds"].labels(*labels).set(seconds)

    def seeds(
        self, live: int, refused: int, expired: int, paused: int, stale: int, digest: str,
        at: float, events: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Describe the set of seeds since `at`; its events are counted from 0 on."""
        for state, n in zip(STATES, (live, refused, expired, paused, stale), strict=True):
            self._made["seeds"].labels(state).set(n)
        self._made["seed_set_info"].clear()
        self._made["seed_set_info"].labels(digest).set(1)
        self._changed = at
        for event in events:
            for name in OF_EVENTS:
                self._made[name].labels(self._event(event))

    def model(self, digest: str, path: str, mix: float) -> None:
        """Describe the model, and what it runs on."""
        self._made["model_info"].clear()
        self._made["model_info"].labels(digest, path, f"{mix:g}").set(1)

    def progress(self, at: float) -> None:
        """Note when a batch was finished, in seconds since 1970."""
        self._made["last_progress_timestamp_seconds"].set(at)

    def ready(self, ready: bool) -> None:
        """Note whether the worker is ready."""
        self._made["ready"].set(int(ready))

    def in_flight(self, batches: int) -> None:
        """Note how many batches are under way."""
        self._made["in_flight_batches"].set(batches)

    def render(self) -> bytes:
        """Everything in Prometheus's text format."""
        return generate_latest(self.registry)

    def _event(self, event: str) -> str:
        """The label of an event: a bounded number of them, each of bounded length."""
        label = label_of(event)
        if label in self._events:
            return label
        if len(self._events) == EVENTS:
            return OTHER
        self._events.add(label)
        return label


def label_of(name: str) -> str:
    """The label that an event or a seed has in metrics."""
    return escaped(name)[:LONGEST_EVENT]
