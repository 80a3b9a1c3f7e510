"""What `newsift watch` counts, for /metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest

ENDS = ("taken", "refused")


class WatchCounts:
    """Counters and gauges in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.posted = Counter(
            "newsift_watch_posted", "Matches that the receiver has taken, or refused for good.",
            ["end"], registry=self.registry,
        )  # fmt: skip
        self.failed = self._counter("attempts_failed", "Attempts that are made again.")
        self.unread = self._counter("records_unread", "Records of the topic that are no matches.")
        self.lost = self._counter("offsets_lost", "Offsets deleted before they were read.")
        self.waiting = self._gauge("events_waiting", "Events of which something waits.")
        self.lag = self._gauge("lag", "Records of its partitions that are not done.")
        self.streams = self._gauge("streams", "Listeners to /matches.")
        for end in ENDS:
            self.posted.labels(end)
        ProcessCollector(registry=self.registry)

    def render(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)

    def _counter(self, name: str, says: str) -> Counter:
        return Counter(f"newsift_watch_{name}", says, registry=self.registry)

    def _gauge(self, name: str, says: str) -> Gauge:
        return Gauge(f"newsift_watch_{name}", says, registry=self.registry)
