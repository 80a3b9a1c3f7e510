"""What is counted of a collector, each with the name of its source."""

import time
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest

from worker.sources.frame import Frame, Gap
from worker.sources.source import REASONS
from worker.watch.table import Exported, registered

ROWS = (
    ("received_total", Counter, "Frames that came from the platform"),
    ("acknowledged_total", Counter, "Frames that the broker has acknowledged"),
    ("unsendable_total", Counter, "Frames too large for the topic, sent without their value"),
    ("gaps_total", Counter, "Times that posts were lost for good"),
    ("gap_seconds_total", Counter, "Seconds of the platform lost for good, where they are known"),
    ("connected", Gauge, "1 while a connection to the platform stands"),
    ("stalled", Gauge, "1 while the broker does not acknowledge"),
    ("lag_seconds", Gauge, "From the platform's time of the last frame to its acknowledgement"),
    ("last_acknowledged_timestamp_seconds", Gauge,
     "When a frame was last acknowledged, or it began"),
    ("in_flight_bytes", Gauge, "Bytes that came and are not yet acknowledged"),
)  # fmt: skip
PREFIX = "newsift_collect_"
COLLECTED = tuple(Exported(PREFIX + name, kind, says, ("source",)) for name, kind, says in ROWS)
RECONNECTS = Exported(
    f"{PREFIX}reconnects_total", Counter, "Connections that ended, by why", ("source", "reason")
)


class Counts:
    """The metrics of a collector, in a registry of their own, and what its last line tells."""

    def __init__(self, source: str, clock: Callable[[], float] = time.time) -> None:
        self._source, self._clock = source, clock
        self._registry = CollectorRegistry()
        self._made = {
            row.name.removeprefix(PREFIX): registered(row, self._registry).labels(source)
            for row in COLLECTED
        }
        self._reconnects = registered(RECONNECTS, self._registry)
        for reason in REASONS:
            self._reconnects.labels(source, reason)
        ProcessCollector(registry=self._registry)
        self.sent = self.gaps = 0
        self._made["last_acknowledged_timestamp_seconds"].set(clock())

    def received(self, frames: int) -> None:
        """Count frames that came."""
        self._made["received_total"].inc(frames)

    def acknowledged(self, frames: Sequence[Frame]) -> None:
        """Count frames that the broker has, and note how far behind the platform that is."""
        now = self._clock()
        count = sum(bool(frame.value) for frame in frames)
        self.sent += count
        self._made["acknowledged_total"].inc(count)
        self._made["last_acknowledged_timestamp_seconds"].set(now)
        if (at := frames[-1].at) is not None:
            self._made["lag_seconds"].set(max(now - at, 0))

    def unsendable(self) -> None:
        """Count a frame that went without its value."""
        self._made["unsendable_total"].inc()

    def gap(self, gap: Gap) -> None:
        """Count posts that are lost for good."""
        self.gaps += 1
        self._made["gaps_total"].inc()
        self._made["gap_seconds_total"].inc(gap.seconds or 0)

    def reconnect(self, reason: str) -> None:
        """Count a connection that ended."""
        self._reconnects.labels(self._source, reason).inc()

    def connected(self, stands: bool) -> None:
        """Note whether a connection stands."""
        self._made["connected"].set(int(stands))

    def stalled(self, stalls: bool) -> None:
        """Note whether the broker acknowledges nothing."""
        self._made["stalled"].set(int(stalls))

    def in_flight(self, size: int) -> None:
        """Note how many bytes are not yet acknowledged."""
        self._made["in_flight_bytes"].set(size)

    def render(self) -> bytes:
        """Everything in Prometheus's text format."""
        return generate_latest(self._registry)
