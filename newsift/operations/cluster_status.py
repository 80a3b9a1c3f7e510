"""Status of the cluster: the workers, their lag, the seeds and the rates."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from math import isinf
from typing import Any, TypeVar

from kafka.errors import GroupAuthorizationFailedError, KafkaError
from prometheus_client.parser import text_string_to_metric_families

from encoder.errors import NewsiftError
from newsift.collect.state import list_collectors
from newsift.operations.seed_rows import resolve_state, rows_of
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import now_ms
from newsift.operations.workers import ANSWER_ERRORS, ANSWER_S, ask_worker, worker_addresses
from newsift.statistics.counts import Tally, count_posts
from newsift.statistics.pass_rates import describe_window, hourly_rate
from worker.config import Config
from worker.config.rules import ALL
from worker.errors import AccessError
from worker.kafka.errors import user_name
from worker.kafka.reading import Offsets, TopicReader, records_between
from worker.kafka.topics import admin_client
from worker.posts.times import DAY_MS
from worker.stream.partitions import Backlog

RATE_INTERVAL_S = 1.0
MAX_COORDINATOR_S = 5.0  # A new Kafka needs this time to name a group's coordinator.
RETRY_PAUSE_S = 0.2
CONTROL_POSTS, MATCHED_POSTS = "newsift_control_posts", "newsift_posts_matched"
LINKING_POSTS = "newsift_posts_linking"
COUNTED = (CONTROL_POSTS, MATCHED_POSTS, LINKING_POSTS)
STATES_WITH_REASON = ("refused", "stale", "unknown")

Row = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamRate:
    """Posts of the last day."""

    posts: int = 0
    since: int = 0  # milliseconds
    now: int = 0
    why: str = ""  # the rate is unknown

    @property
    def hourly(self) -> float:
        return hourly_rate(self.posts, self.since, self.now) or 0.0


def read_stream_rate(cluster: TopicReader, topic: str, now: int) -> StreamRate:
    day, end = cluster.offsets_at(topic, now - DAY_MS), cluster.ends(topic)
    one_post_ends = {part: min(day[part] + 1, end[part]) for part in end}
    times = [m.timestamp for batch in cluster.read(topic, day, one_post_ends) for m in batch]
    first = min([now, *(time_ms for time_ms in times if time_ms > 0)])
    return StreamRate(records_between(day, end), max(first, now - DAY_MS), now)


def count_processed(cluster: TopicReader, config: Config, since: int) -> int:
    """Posts since a time that the workers have processed; all posts where no commit is visible.

    A post that no worker has read yet is no evidence for or against a match.
    """
    topic = config.topics.posts
    end = cluster.ends(topic)
    with suppress(KafkaError, NewsiftError), admin_client(config) as admin:
        if commits := read_commits(admin, config):
            end = {part: min(offset, commits.get(part, 0)) for part, offset in end.items()}
    return records_between(cluster.offsets_at(topic, since), end)


@dataclass(frozen=True, slots=True)
class OffsetSnapshot:
    """Offsets at one moment; None for a topic that is missing or hidden."""

    at: float
    posts: dict[int, Backlog]  # by partition
    matches: Offsets | None
    rejected: Offsets | None

    @property
    def lag(self) -> dict[int, int]:
        return {partition: backlog.lag for partition, backlog in self.posts.items()}

    @property
    def totals(self) -> tuple[int, int, int]:
        """Posts that came, posts that are done, and matches."""
        backlogs, matches = self.posts.values(), self.matches or {}
        return sum(b.end for b in backlogs), sum(b.done for b in backlogs), sum(matches.values())


def cluster_status(cluster: TopicReader, admin: Any, config: Config) -> Row:
    """The object of `newsift status --json`. It takes `RATE_INTERVAL_S`, between two readings."""
    topics = config.topics
    cluster.partitions(topics.posts)
    with group_errors(config):
        before = read_offsets(cluster, admin, config)
        time.sleep(RATE_INTERVAL_S)
        now = read_offsets(cluster, admin, config)
        state, workers = describe_group(admin, config)
    counts = read_worker_counts(config, lambda: cluster.cluster_id)
    reader, factor = config.matching.reader, config.matching.read_factor
    hidden = hidden_topics(cluster, config)
    unknown = {"matches": None} if topics.matches in hidden else {}
    return {
        "kafka": config.kafka.bootstrap_servers,
        "group": config.kafka.group,
        "state": state,
        "workers": workers,
        "posts": {"topic": topics.posts, "partitions": partition_rows(now, workers)},
        "lag": sum(now.lag.values()),
        "rates": message_rates(before, now) | unknown,
        "hourly": hourly_rates(cluster, config) | unknown,
        "collectors": list(list_collectors()),
        "reader": {"name": reader, "read_factor": ALL if isinf(factor) else factor},
        "control": estimate_control(counts),
        "links": counts.get(LINKING_POSTS),
        "seeds": count_seed_states(cluster, config),
        "matches": {"topic": topics.matches, "end_offsets": _json_offsets(now.matches)},
        "dead_letters": {"topic": topics.rejected, "end_offsets": _json_offsets(now.rejected)},
        "hidden": hidden,
    }


def hidden_topics(cluster: TopicReader, config: Config) -> list[str]:
    """Topics of which the broker does not tell this user whether they exist."""
    hidden, topics = list[str](), config.topics
    for topic in (topics.seeds, topics.matches, topics.rejected):
        try:
            cluster.exists(topic)
        except AccessError:
            hidden.append(topic)
    return hidden


def read_worker_counts(config: Config, cluster_id: Callable[[], str]) -> Counter[str]:
    """Sums of the counters of all workers since they started, by name and state; may be empty."""
    counts = Counter[str]()
    for worker in worker_addresses(config, cluster_id):
        with suppress(*ANSWER_ERRORS):
            status, page = ask_worker(worker, "/metrics", ANSWER_S)
            for family in text_string_to_metric_families(page.decode() if status == 200 else ""):
                for sample in family.samples if family.name in COUNTED else ():
                    name = f"{family.name} {sample.labels.get('state', '')}".strip()
                    counts[name] += int(sample.value)
    return counts


def estimate_control(counts: Mapping[str, int]) -> Row | None:
    """What skimming loses, by the posts that the workers read as a control; None without workers.

    With the interval of the posts that would have matched.
    """
    if MATCHED_POSTS not in counts:
        return None
    skimmed, read, lost = (
        counts.get(f"{CONTROL_POSTS} {state}", 0) for state in ("skimmed", "read", "lost")
    )
    read = min(read, skimmed)
    lost = min(lost, read)
    low, value, high = count_posts([Tally(skimmed, lost, read - lost)], stopped=False)
    return {
        "skimmed": skimmed, "read": read, "would_match": lost, "matched": counts[MATCHED_POSTS],
        "lost": round(value), "low": round(low), "high": round(high),
    }  # fmt: skip


def read_offsets(cluster: TopicReader, admin: Any, config: Config) -> OffsetSnapshot:
    topics, commits = config.topics, read_commits(admin, config)
    first, end = cluster.beginnings(topics.posts), cluster.ends(topics.posts)
    backlogs = {n: Backlog(first[n], commits.get(n), end[n]) for n in sorted(end)}
    output = (topics.matches, topics.rejected)
    ends = (cluster.ends(topic) if cluster.is_visible(topic) else None for topic in output)
    return OffsetSnapshot(time.monotonic(), backlogs, *ends)


@contextmanager
def group_errors(config: Config) -> Iterator[None]:
    """Without a right on the workers' group, the error names the one that is enough to see it."""
    try:
        yield
    except GroupAuthorizationFailedError as error:
        kafka = config.kafka
        raise AccessError(
            f"broker {kafka.bootstrap_servers}: {user_name(config)} has no right on the consumer "
            f"group {kafka.group}; grant Describe on it"
        ) from error


def read_commits(admin: Any, config: Config) -> Offsets:
    """What the workers have committed of the posts."""
    group = config.kafka.group
    positions = retry_coordinator(lambda: admin.list_group_offsets({group: None}))[group]
    return {
        place.partition: position.offset
        for place, position in positions.items()
        if place.topic == config.topics.posts and position.offset >= 0
    }


def retry_coordinator(request: Callable[[], T]) -> T:
    """A broker that has just started may not know a group's coordinator."""
    ends_at = time.monotonic() + MAX_COORDINATOR_S
    while True:
        try:
            return request()
        except KafkaError as error:
            if not error.retriable or time.monotonic() > ends_at:
                raise
            time.sleep(RETRY_PAUSE_S)


def describe_group(admin: Any, config: Config) -> tuple[str, list[Row]]:
    name = config.kafka.group
    description = retry_coordinator(lambda: admin.describe_groups([name]))[name]
    members = [_member_row(member, config.topics.posts) for member in description["members"]]
    return description["group_state"].lower(), sorted(members, key=lambda row: str(row["id"]))


def _member_row(member: Row, topic: str) -> Row:
    assignment = member.get("member_assignment")
    parts = assignment.get("assigned_partitions", []) if isinstance(assignment, dict) else []
    partitions = [
        number for part in parts if part["topic"] == topic for number in part["partitions"]
    ]
    host = str(member["client_host"]).lstrip("/")
    return {"id": member["member_id"], "host": host, "partitions": sorted(partitions)}


def partition_rows(now: OffsetSnapshot, workers: list[Row]) -> list[Row]:
    owners = {number: worker["id"] for worker in workers for number in worker["partitions"]}
    return [
        {"partition": number, **asdict(backlog), "lag": backlog.lag, "worker": owners.get(number)}
        for number, backlog in now.posts.items()
    ]


def message_rates(before: OffsetSnapshot, after: OffsetSnapshot) -> dict[str, float]:
    """Messages a second."""
    seconds = max(after.at - before.at, 1e-3)
    pairs = zip(("posts_in", "posts_done", "matches"), before.totals, after.totals, strict=True)
    return {name: round(max(now - then, 0) / seconds, 1) for name, then, now in pairs}


def hourly_rates(cluster: TopicReader, config: Config) -> Row:
    """Hourly rates and their window; None if the window is too short."""
    now, topics = now_ms(), config.topics
    stream, matches = read_stream_rate(cluster, topics.posts, now), 0
    if cluster.is_visible(topics.matches):
        since = cluster.offsets_at(topics.matches, stream.since)
        matches = records_between(since, cluster.ends(topics.matches))
    return {
        "posts": hourly_rate(stream.posts, stream.since, now),
        "matches": hourly_rate(matches, stream.since, now),
        "window": describe_window(stream.since, now),
    }


def count_seed_states(cluster: TopicReader, config: Config) -> Row | None:
    """Counts seeds by state, with reasons by id; None if the topic is missing or hidden."""
    if not cluster.is_visible(config.topics.seeds):
        return None
    rows = rows_of(resolve_state(SeedTopic(cluster, config).state(), config))
    count = Counter(row["state"] for row in rows)
    states = {state: count[state] for state in ("live", "expired", "paused", "replaced")}
    return states | {
        state: {row["id"]: row["reason"] for row in rows if row["state"] == state}
        for state in STATES_WITH_REASON
    }


def _json_offsets(offsets: Offsets | None) -> dict[str, int] | None:
    return None if offsets is None else {str(number): offsets[number] for number in sorted(offsets)}
