"""Every metric that newsift exports: name, type, labels and meaning. The names are stable."""

from dataclasses import dataclass
from typing import Literal

from worker.posts.read import Reason

STAGES = ("wait", "decode", "encode", "match", "produce", "commit")
PASSED_OVER = ("no_post", "no_words")
TOPICS = ("posts", "seeds")
PAUSES = ("backlog", "output", "control")
STATES = ("live", "refused", "expired", "paused")
REASONS = tuple(reason.value for reason in Reason)
OTHER = "other"

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 600, 3600)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4096, 10_000)
SCORES = tuple(n / 20 for n in range(21))


@dataclass(frozen=True, slots=True)
class Row:
    """One metric; `closed` names every value of its label, if there are only so many."""

    name: str
    kind: Literal["counter", "gauge", "histogram", "batch histogram"]
    says: str
    labels: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _row(name: str, kind: str, says: str, label: str = "", closed: tuple[str, ...] = (),
         buckets: tuple[float, ...] = ()) -> Row:  # fmt: skip
    labels = tuple(label.split())
    return Row(f"newsift_{name}", kind, says, labels, closed, buckets)  # type: ignore[arg-type]


METRICS = (
    _row("posts_read_total", "counter", "Messages read from the topic of posts"),
    _row("posts_matched_total", "counter", "Posts that matched at least one seed"),
    _row("posts_passed_over_total", "counter", "Well-formed events without a post or its words",
         "why", PASSED_OVER),
    _row("posts_without_seeds_total", "counter", "Posts that came while there were no seeds"),
    _row("posts_rejected_total", "counter", "Messages sent to the dead letters", "reason", REASONS),
    _row("matches_total", "counter", "Matches, the event's first 100 by name, then as other",
         "event", (OTHER,)),
    _row("batch_posts", "histogram", "Messages in a batch", buckets=SIZES),
    _row("stage_seconds", "histogram", "Seconds that a batch spends in a stage", "stage", STAGES,
         SECONDS),
    _row("latency_seconds", "batch histogram",
         "Seconds from a post's timestamp to the acknowledgement of its batch", buckets=LATENCIES),
    _row("best_score", "batch histogram", "The best score of each post with any seed",
         buckets=SCORES),
    _row("lag_posts", "gauge", "Messages not yet committed, of the partitions held", "partition"),
    _row("offsets_lost_total", "counter",
         "Messages deleted before they were read; 1 where nobody knows how many"),
    _row("unreadable_batches_total", "counter", "Record batches that could not be read",
         "topic", TOPICS),
    _row("unreadable_offsets_total", "counter", "Offsets of the messages in these batches",
         "topic", TOPICS),
    _row("open_transaction_messages", "gauge",
         "Messages held back since a transaction is open, its own among them", "topic partition"),
    _row("open_transaction_seconds", "gauge", "Seconds that this transaction has been seen open",
         "topic partition"),
    _row("seeds", "gauge", "Seeds by state", "state", STATES),
    _row("seed_set_age_seconds", "gauge", "Seconds since the set of seeds last changed"),
    _row("seed_set_info", "gauge", "1, with the digest of the set of seeds", "digest"),
    _row("last_progress_timestamp_seconds", "gauge", "When a batch was last finished"),
    _row("paused", "gauge", "1 while reading is paused"),
    _row("pauses_total", "counter", "Pauses of reading by what caused them", "why", PAUSES),
    _row("rebalances_total", "counter", "Times that partitions were dealt anew"),
    _row("model_info", "gauge", "1, with the model's digest, path and mix", "digest path mix"),
    _row("ready", "gauge", "1 once the seeds are read and the output answers"),
    _row("in_flight_batches", "gauge", "Batches read and not yet committed"),
)  # fmt: skip
