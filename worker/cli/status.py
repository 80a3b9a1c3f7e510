"""`newsift status`: who works, how far behind, on what seeds, and how fast."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from worker.cli.common import kafka_options
from worker.cli.seeds.output import rows_of
from worker.cli.seeds.topic import SeedTopic
from worker.cli.status_output import print_status
from worker.cli.view.table import print_json
from worker.config import Config
from worker.kafka.reading import Offsets, TopicReader, connected
from worker.kafka.topics import administering
from worker.stream.offsets import Backlog

APART = 1.0  # seconds between the two readings of a rate
COORDINATOR_S = 5.0  # a fresh Kafka takes so long to name a group's coordinator
PAUSE = 0.2

Row = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading:
    """Where everything stands at one moment."""

    at: float
    first: Offsets  # of the posts, by partition
    end: Offsets
    committed: Offsets
    matches: Offsets | None
    rejected: Offsets | None

    def backlog(self, partition: int) -> Backlog:
        """What waits in a partition."""
        return Backlog(self.first[partition], self.committed.get(partition), self.end[partition])

    @property
    def lag(self) -> dict[int, int]:
        """Posts that wait, by partition."""
        return {partition: self.backlog(partition).lag for partition in self.end}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@kafka_options
def status(as_json: bool, config: Config) -> None:
    """Show workers, lag by partition, seeds, rates over a second, and the output's offsets."""
    with connected(config) as cluster, administering(config) as admin:
        cluster.partitions(config.topics.posts)
        before = reading(cluster, admin, config)
        time.sleep(APART)
        after = reading(cluster, admin, config)
        state, workers = group(admin, config)
        found = {
            "kafka": config.kafka.bootstrap_servers,
            "group": config.kafka.group,
            "state": state,
            "workers": workers,
            "posts": {"topic": config.topics.posts, "partitions": partitions(after, workers)},
            "lag": sum(after.lag.values()),
            "rates": rates(before, after),
            "seeds": seeds(cluster, config),
            "matches": ends(config.topics.matches, after.matches),
            "dead_letters": ends(config.topics.rejected, after.rejected),
        }
    if as_json:
        print_json([found])
    else:
        print_status(found)


def reading(cluster: TopicReader, admin: Any, config: Config) -> Reading:
    """Where posts, group and output stand now."""
    posts, name = config.topics.posts, config.kafka.group
    offsets = patiently(lambda: admin.list_group_offsets({name: None}))[name]
    committed = {
        place.partition: found.offset for place, found in offsets.items()
        if place.topic == posts and found.offset >= 0
    }  # fmt: skip

    def there(topic: str) -> Offsets | None:
        return cluster.ends(topic) if cluster.exists(topic) else None

    return Reading(
        time.monotonic(), cluster.beginnings(posts), cluster.ends(posts), committed,
        there(config.topics.matches), there(config.topics.rejected),
    )  # fmt: skip


def patiently(ask: Callable[[], T]) -> T:
    """An answer about a group, asked for again while the broker only just begins to keep groups."""
    from kafka.errors import KafkaError

    ends_at = time.monotonic() + COORDINATOR_S
    while True:
        try:
            return ask()
        except KafkaError as error:
            if not error.retriable or time.monotonic() > ends_at:
                raise
            time.sleep(PAUSE)


def group(admin: Any, config: Config) -> tuple[str, list[Row]]:
    """The state of the workers' group, and its members with their partitions of the posts."""
    name = config.kafka.group
    found = patiently(lambda: admin.describe_groups([name]))[name]
    members = [_worker(member, config.topics.posts) for member in found["members"]]
    return found["group_state"].lower(), sorted(members, key=lambda row: str(row["id"]))


def _worker(member: Row, topic: str) -> Row:
    assignment = member.get("member_assignment")
    parts = assignment.get("assigned_partitions", []) if isinstance(assignment, dict) else []
    own = [number for part in parts if part["topic"] == topic for number in part["partitions"]]
    host = str(member["client_host"]).lstrip("/")
    return {"id": member["member_id"], "host": host, "partitions": sorted(own)}


def partitions(now: Reading, workers: list[Row]) -> list[Row]:
    """How far each partition is, and whose it is."""
    owners = {number: worker["id"] for worker in workers for number in worker["partitions"]}
    return [
        {
            "partition": number, "first": now.first[number], "end": end,
            "committed": now.committed.get(number), "lag": now.backlog(number).lag,
            "worker": owners.get(number),
        }
        for number, end in sorted(now.end.items())
    ]  # fmt: skip


def rates(before: Reading, after: Reading) -> dict[str, float]:
    """Posts that came, posts that are done, and matches that went out, a second."""
    seconds = max(after.at - before.at, 1e-3)
    done = sum(after.backlog(p).done - before.backlog(p).done for p in before.end if p in after.end)
    moved = {
        "posts_in": _total(after.end) - _total(before.end),
        "posts_done": done,
        "matches": _total(after.matches) - _total(before.matches),
    }
    return {name: round(max(count, 0) / seconds, 1) for name, count in moved.items()}


def seeds(cluster: TopicReader, config: Config) -> Row | None:
    """How many seeds are live, refused or expired; None without the topic."""
    if not cluster.exists(config.topics.seeds):
        return None
    latest = SeedTopic(cluster, config).latest()
    rows = rows_of(latest, config)
    count = Counter(row["state"] for row in rows)
    refused = {row["id"]: row["reason"] for row in rows if row["state"] == "refused"}
    states = {state: count[state] for state in ("live", "expired", "paused")}
    return states | {"refused": refused}


def ends(topic: str, offsets: Offsets | None) -> Row:
    """The end offsets of an output topic; null where it is missing."""
    return {"topic": topic, "end_offsets": offsets and {str(p): offsets[p] for p in offsets}}


def _total(offsets: Offsets | None) -> int:
    return sum(offsets.values()) if offsets else 0
