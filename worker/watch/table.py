"""Every metric that newsift exports: name, type, labels and meaning. The names are stable."""

from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from worker.posts.read import Reason
from worker.watch.histogram import BatchHistogram

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
    """One metric; `closed` names every value of its label, if there are only so many."""

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
    """The metric itself, in a registry; where its label's values are known, each begins at 0."""
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
    _row("matches_total", Counter, "Matches, the event's first 100 by name, then as other",
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
         "Messages deleted before they were read; 1 where nobody knows how many"),
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
    _row("rebalances_total", Counter, "Times that partitions were dealt anew"),
    _row("version_info", Gauge, "1, with the version of newsift", "version"),
    _row("model_info", Gauge, "1, with the model's digest, path and mix", "digest path mix"),
    _row("ready", Gauge, "1 once the seeds are read and the output answers"),
    _row("in_flight_batches", Gauge, "Batches read and not yet committed"),
)  # fmt: skip
