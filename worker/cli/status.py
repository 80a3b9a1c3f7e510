"""`newsift status`: who works, how far behind, on what seeds, and how fast."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from worker.cli.options import ONE_JSON, kafka_options
from worker.cli.seeds.show import rows_of
from worker.cli.seeds.topic import SeedTopic
from worker.cli.view.table import print_json, shown, table
from worker.config import Config
from worker.kafka.reading import Offsets, TopicReader, connected
from worker.kafka.topics import administering
from worker.stream.offsets import Backlog
from worker.visible import one_line

APART = 1.0  # seconds between the two readings of a rate
COORDINATOR_S = 5.0  # a fresh Kafka takes so long to name a group's coordinator
PAUSE = 0.2
MISSING = "missing; make it with `newsift topics create`"

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
@ONE_JSON
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
            "seeds": seed_states(cluster, config),
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


def seed_states(cluster: TopicReader, config: Config) -> Row | None:
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


def print_status(found: Row) -> None:
    """The state of everything, a line each, and a table of the partitions."""
    workers, rates = found["workers"], found["rates"]
    lines = {
        "kafka": found["kafka"],
        "workers": f"{len(workers)} in {found['group']} ({found['state']})" if workers
        else f"none in {found['group']}; start one: faust -A worker worker",
        "lag": f"{found['lag']:,} posts",
        "rate": f"{rates['posts_in']:,.0f} posts/s in, {rates['posts_done']:,.0f} posts/s done, "
        f"{rates['matches']:,.1f} matches/s",
        "seeds": _seeds(found["seeds"]),
        "matches": _output(found["matches"]),
        "dead letters": _output(found["dead_letters"]),
    }  # fmt: skip
    for name, line in lines.items():
        click.echo(f"{name:<13} {line}")
    for name, reason in ((found["seeds"] or {}).get("refused") or {}).items():
        click.echo(f"{'refused':<13} {shown(name)}: {one_line(reason)}")
    click.echo()
    rows = found["posts"]["partitions"]
    header = ("partition", "first", "committed", "end", "lag", "worker")
    table(header, [[row[name] for name in header] for row in rows])


def _seeds(found: Row | None) -> str:
    if found is None:
        return MISSING
    parts = [f"{found['live']:,} live"]
    parts += [f"{found['expired']:,} expired"] if found["expired"] else []
    parts += [f"{found['paused']:,} paused"] if found["paused"] else []
    parts += [f"{len(found['refused']):,} refused"] if found["refused"] else []
    return ", ".join(parts)


def _output(found: Row) -> str:
    offsets = found["end_offsets"]
    if offsets is None:
        return f"{found['topic']}: {MISSING}"
    told = " ".join(f"{partition}:{offset}" for partition, offset in offsets.items())
    return f"{sum(offsets.values()):,} in {found['topic']} (end offsets {told})"
