"""What `newsift watch` counts, for /metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest

from worker.watch.table import Exported, registered

PREFIX = "newsift_watch_"
POSTED = Exported(
    f"{PREFIX}posted_total", Counter, "Matches that the receiver took, or refused for good",
    ("end",), ("taken", "refused"),
)  # fmt: skip
WATCHED = (
    POSTED,
    Exported(f"{PREFIX}attempts_failed_total", Counter, "Attempts that are made again"),
    Exported(f"{PREFIX}records_unread_total", Counter, "Records of the topic that are no matches"),
    Exported(f"{PREFIX}offsets_lost_total", Counter, "Offsets deleted before they were read"),
    Exported(f"{PREFIX}events_waiting", Gauge, "Events of which something waits"),
    Exported(f"{PREFIX}lag", Gauge, "Records of its partitions that are not done"),
    Exported(f"{PREFIX}streams", Gauge, "Who listens to /matches"),
)


class WatchCounts:
    """Counters and gauges in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        made = [registered(row, self._registry) for row in WATCHED]
        self.posted, self.failed, self.unread, self.lost = made[:4]
        self.waiting, self.lag, self.streams = made[4:]
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)
