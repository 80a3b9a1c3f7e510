"""What tests of a worker on a broker ask: its lag as others see it, its metrics, its matches."""

import json
import time
from typing import Any
from urllib.request import urlopen

from kafka import TopicPartition

from newsift.operations.cluster_status import read_offsets
from tests.broker.clients import consumer, read_to_end
from tests.faults.process import Worker
from tests.faults.story import PARTITIONS, Story
from worker.config import Config, KafkaConfig, TopicsConfig
from worker.kafka.reading import connected
from worker.kafka.topics import administering

STALL_S = 3.0  # the watchdog's patience


def lag(story: Story, isolation: str = "read_committed") -> dict[int, int | None]:
    """End less commit, as any tool reckons it; None without a commit."""
    places = [TopicPartition(story.topics["posts"], n) for n in range(PARTITIONS)]
    with consumer(story.server.address, isolation_level=isolation) as client:
        ends = client.end_offsets(places)
    done = story.committed()
    return {
        p.partition: ends[p] - done[p.partition] if p.partition in done else None for p in places
    }


def configured(story: Story) -> Config:
    kafka = KafkaConfig(bootstrap_servers=story.server.address, group=f"{story.name}-group")
    named: dict[str, Any] = dict(story.topics)
    return Config(kafka=kafka, topics=TopicsConfig(**named))


def status(story: Story) -> dict[int, int]:
    config = configured(story)
    with connected(config) as cluster, administering(config) as admin:
        return read_offsets(cluster, admin, config).lag


def caught_up(story: Story, worker: Worker) -> None:
    def done() -> bool:
        assert worker.alive(), worker.said
        return lag(story) == dict.fromkeys(range(PARTITIONS), 0)

    story.until(done)


def stays(worker: Worker) -> None:
    """See that the watchdog lets a worker be that has nothing to do."""
    time.sleep(2 * STALL_S)
    assert worker.alive(), worker.said


def matched(story: Story) -> list[str]:
    rows = read_to_end(story.server.address, story.topics["matches"])
    return sorted(json.loads(row.value)["post"]["id"] for row in rows)


def metric(worker: Worker, name: str) -> float:
    line = next(line for line in worker.said.splitlines() if "/metrics" in line)
    with urlopen(line.rsplit(" ", 1)[1], timeout=10) as page:
        rows = page.read().decode().splitlines()
    return sum(float(row.split()[-1]) for row in rows if row.startswith(name))
