"""Status of the cluster: the workers, their lag, the seeds and the rates."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from kafka.errors import KafkaError

from newsift.collect.state import list_collectors
from newsift.operations.seed_rows import resolve_state, rows_of
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import now_ms
from newsift.operations.workers import (
    Identity,
    own_workers,
    read_drift,
    web_address,
    worker_addresses,
)
from newsift.statistics.pass_rates import HOUR, an_hour, window_words
from worker.config import Config
from worker.kafka.reading import Offsets, TopicReader, records_between
from worker.stream.offsets import Backlog

DAY = 24 * HOUR


@dataclass(frozen=True, slots=True)
class StreamRate:
    """How many posts came in the last day, since the first of them, and in the last hour."""

    posts: int = 0
    since: int = 0  # milliseconds
    now: int = 0
    last_hour: int = 0
    why: str = ""  # nothing is known of it

    @property
    def hourly(self) -> float:
        """Posts an hour."""
        return an_hour(self.posts, self.since, self.now) or 0.0


def stream_rate(cluster: TopicReader, topic: str, now: int) -> StreamRate:
    """How many posts have come to a topic by now."""
    day, end = cluster.at(topic, now - DAY), cluster.ends(topic)
    last_hour = records_between(cluster.at(topic, now - HOUR), end)
    return StreamRate(
        records_between(day, end), _first(cluster, topic, day, end, now), now, last_hour
    )


def _first(cluster: TopicReader, topic: str, start: Offsets, end: Offsets, now: int) -> int:
    """When the first post since then came, by one record of each partition."""
    one = {part: min(start[part] + 1, end[part]) for part in end}
    times = [m.timestamp for batch in cluster.read(topic, start, one) for m in batch]
    return max(min([now, *(at for at in times if at > 0)]), now - DAY)


APART = 1.0  # seconds between the two readings of a rate
COORDINATOR_S = 5.0  # a fresh Kafka takes so long to name a group's coordinator
PAUSE = 0.2
IDLE = ("refused", "stale", "unknown")  # states of seeds and profiles that have a reason

Row = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OffsetSnapshot:
    """Where everything stands at one moment."""

    at: float
    posts: dict[int, Backlog]  # by partition
    matches: Offsets | None
    rejected: Offsets | None

    @property
    def lag(self) -> dict[int, int]:
        """Posts that wait, by partition."""
        return {partition: backlog.lag for partition, backlog in self.posts.items()}


def cluster_status(cluster: TopicReader, admin: Any, config: Config) -> Row:
    """Everything as it stands, told over the time that a rate takes."""
    topics = config.topics
    cluster.partitions(topics.posts)
    before = read_offsets(cluster, admin, config)
    time.sleep(APART)
    now = read_offsets(cluster, admin, config)
    state, workers = describe_group(admin, config)
    return {
        "kafka": config.kafka.bootstrap_servers,
        "group": config.kafka.group,
        "state": state,
        "workers": workers,
        "posts": {"topic": topics.posts, "partitions": partition_rows(now, workers)},
        "lag": sum(now.lag.values()),
        "rates": message_rates(before, now),
        "hourly": hourly(cluster, config),
        "drift": read_drift(_own_workers(cluster, config)),
        "collectors": list(list_collectors()),
        "seeds": seed_states(cluster, config),
        "matches": {"topic": topics.matches, "end_offsets": _by_name(now.matches)},
        "dead_letters": {"topic": topics.rejected, "end_offsets": _by_name(now.rejected)},
    }


def _own_workers(cluster: TopicReader, config: Config) -> list[str]:
    """Where workers of this cluster and group answer: at web.port, where that is configured."""
    if config.web.port:
        identity = Identity(cluster.cluster_id, config.kafka.group)
        return own_workers([web_address(config.web)], identity)
    return worker_addresses(config, lambda: cluster.cluster_id)


def read_offsets(cluster: TopicReader, admin: Any, config: Config) -> OffsetSnapshot:
    """Where posts, group and output stand now."""
    posts, name = config.topics.posts, config.kafka.group
    offsets = retry_coordinator(lambda: admin.list_group_offsets({name: None}))[name]
    committed = {
        place.partition: position.offset for place, position in offsets.items()
        if place.topic == posts and position.offset >= 0
    }  # fmt: skip
    first, end = cluster.beginnings(posts), cluster.ends(posts)
    backlogs = {n: Backlog(first[n], committed.get(n), end[n]) for n in sorted(end)}
    output = (config.topics.matches, config.topics.rejected)
    ends = (cluster.ends(topic) if cluster.exists(topic) else None for topic in output)
    return OffsetSnapshot(time.monotonic(), backlogs, *ends)


def retry_coordinator(ask: Callable[[], T]) -> T:
    """An answer about a group, asked for again while the broker only just begins to keep groups."""
    ends_at = time.monotonic() + COORDINATOR_S
    while True:
        try:
            return ask()
        except KafkaError as error:
            if not error.retriable or time.monotonic() > ends_at:
                raise
            time.sleep(PAUSE)


def describe_group(admin: Any, config: Config) -> tuple[str, list[Row]]:
    """The state of the workers' group, and its members with their partitions of the posts."""
    name = config.kafka.group
    description = retry_coordinator(lambda: admin.describe_groups([name]))[name]
    members = [_worker(member, config.topics.posts) for member in description["members"]]
    return description["group_state"].lower(), sorted(members, key=lambda row: str(row["id"]))


def _worker(member: Row, topic: str) -> Row:
    assignment = member.get("member_assignment")
    parts = assignment.get("assigned_partitions", []) if isinstance(assignment, dict) else []
    own = [number for part in parts if part["topic"] == topic for number in part["partitions"]]
    host = str(member["client_host"]).lstrip("/")
    return {"id": member["member_id"], "host": host, "partitions": sorted(own)}


def partition_rows(now: OffsetSnapshot, workers: list[Row]) -> list[Row]:
    """How far each partition is, and whose it is."""
    owners = {number: worker["id"] for worker in workers for number in worker["partitions"]}
    return [
        {"partition": number, **asdict(backlog), "lag": backlog.lag, "worker": owners.get(number)}
        for number, backlog in now.posts.items()
    ]


def message_rates(before: OffsetSnapshot, after: OffsetSnapshot) -> dict[str, float]:
    """Posts that came, posts that are done, and matches that went out, a second."""
    seconds = max(after.at - before.at, 1e-3)
    names = ("posts_in", "posts_done", "matches")
    pairs = zip(names, _totals(before), _totals(after), strict=True)
    return {name: round(max(now - then, 0) / seconds, 1) for name, then, now in pairs}


def hourly(cluster: TopicReader, config: Config) -> Row:
    """Posts and matches an hour, and of which time; None where too little of it has passed."""
    now, topics = now_ms(), config.topics
    stream, matches = stream_rate(cluster, topics.posts, now), 0
    if cluster.exists(topics.matches):
        since = cluster.at(topics.matches, stream.since)
        matches = records_between(since, cluster.ends(topics.matches))
    counts = {"posts": stream.posts, "matches": matches}
    return {name: an_hour(count, stream.since, now) for name, count in counts.items()} | {
        "window": window_words(stream.since, now)
    }


def _totals(snapshot: OffsetSnapshot) -> tuple[int, int, int]:
    posts = snapshot.posts.values()
    matches = sum((snapshot.matches or {}).values())
    return sum(each.end for each in posts), sum(each.done for each in posts), matches


def seed_states(cluster: TopicReader, config: Config) -> Row | None:
    """How many seeds are live, refused or expired; None without the topic."""
    if not cluster.exists(config.topics.seeds):
        return None
    rows = rows_of(resolve_state(SeedTopic(cluster, config).state(), config))
    count = Counter(row["state"] for row in rows)
    states = {state: count[state] for state in ("live", "expired", "paused", "replaced")}
    idle = {
        state: {row["id"]: row["reason"] for row in rows if row["state"] == state} for state in IDLE
    }
    return states | idle


def _by_name(offsets: Offsets | None) -> dict[str, int] | None:
    return None if offsets is None else {str(number): at for number, at in offsets.items()}
