"""Posts that others write in transactions: on Apache Kafka, as the embedded broker has none.

What needs no transaction, a log whose beginning passes the commit, is tried on both.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from kafka import KafkaProducer, TopicPartition

from tests.broker.clients import admin, consumer, read_to_end, until
from tests.broker.server import Server
from tests.faults.expected import Oracle
from tests.faults.process import Worker
from tests.faults.story import PARTITIONS, Story

STALL_S = 3.0  # the watchdog's patience


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return Oracle(tmp_path_factory.mktemp("oracle"))


@pytest.fixture
def story(
    server: Server, tmp_path: Path, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Story]:
    monkeypatch.setenv("NEWSIFT_STREAM__STALL_S", str(STALL_S))
    told = Story(server, tmp_path, oracle, fork=False)
    try:
        yield told
    finally:
        told.close()


@pytest.fixture
def kafka(request: pytest.FixtureRequest, story: Story) -> Story:
    """The story, where the broker has transactions."""
    if request.node.callspec.params["server"] == "embedded":
        pytest.skip("the embedded broker has no transactions, and refuses them")
    return story


class Writer:
    """Another producer of posts, with transactions."""

    def __init__(self, story: Story) -> None:
        self.topic, self.texts = story.topics["posts"], story.oracle
        self.client: Any = KafkaProducer(
            bootstrap_servers=story.server.address, transactional_id=story.name
        )
        self.client.init_transactions()

    def begin(self, *ids: str, partition: int = 0) -> None:
        """Write posts that match, and leave the transaction open."""
        self.client.begin_transaction()
        for name in ids:
            value = json.dumps({"id": name, "text": "storm flood river city"}).encode()
            self.client.send(self.topic, value, partition=partition)
        self.client.flush()


@contextmanager
def writing(story: Story) -> Iterator[Writer]:
    """A writer, closed at the end."""
    writer = Writer(story)
    try:
        yield writer
    finally:
        writer.client.close(timeout=5)


def lag(story: Story, isolation: str = "read_committed") -> dict[int, int | None]:
    """End less commit, as any tool reckons it; None without a commit."""
    places = [TopicPartition(story.topics["posts"], n) for n in range(PARTITIONS)]
    with consumer(story.server.address, isolation_level=isolation) as client:
        ends = client.end_offsets(places)
    done = story.committed()
    return {
        p.partition: ends[p] - done[p.partition] if p.partition in done else None for p in places
    }


def caught_up(story: Story, worker: Worker) -> None:
    """Wait until every partition is committed to its very end."""

    def done() -> bool:
        assert worker.alive(), worker.said
        return lag(story) == dict.fromkeys(range(PARTITIONS), 0)

    story.until(done)


def stays(worker: Worker) -> None:
    """See that the watchdog lets a worker be that has nothing to do."""
    time.sleep(2 * STALL_S)
    assert worker.alive(), worker.said


def matched(story: Story) -> list[str]:
    """The ids of the posts that came through, in the order of the output."""
    rows = read_to_end(story.server.address, story.topics["matches"])
    return sorted(json.loads(row.value)["post"]["id"] for row in rows)


def metric(worker: Worker, name: str) -> float:
    """The sum of a metric over its labels."""
    line = next(line for line in worker.said.splitlines() if "/metrics" in line)
    with urlopen(line.rsplit(" ", 1)[1], timeout=10) as page:
        rows = page.read().decode().splitlines()
    return sum(float(row.split()[-1]) for row in rows if row.startswith(name))


def test_markers_and_aborted_posts_are_passed_and_leave_no_lag(kafka: Story) -> None:
    worker = kafka.worker()
    worker.ready()
    with writing(kafka) as writer:
        writer.begin("a", "b")
        writer.client.commit_transaction()
        caught_up(kafka, worker)
        writer.begin("x", "y", partition=1)
        writer.client.abort_transaction()
        caught_up(kafka, worker)
        writer.begin("c", partition=1)
        writer.client.commit_transaction()
    caught_up(kafka, worker)
    assert matched(kafka) == ["a", "b", "c"]
    assert kafka.committed()[1] == 2 + 1 + 1 + 1  # both aborted posts and their marker lie before
    until(lambda: metric(worker, "newsift_lag_posts") == 0)
    assert worker.terminate() == 0, worker.said


def test_an_idle_worker_is_let_be_after_a_marker_and_after_a_restart(kafka: Story) -> None:
    first = kafka.worker()
    first.ready()
    with writing(kafka) as writer:
        writer.begin("a")
        writer.client.commit_transaction()
    caught_up(kafka, first)
    first.kill()
    second = kafka.worker()
    second.ready()
    stays(second)
    assert metric(second, "newsift_posts_read_total") == 0
    assert metric(second, "newsift_offsets_lost_total") == 0
    assert matched(kafka) == ["a"]


def test_an_open_transaction_is_told_of_and_its_end_lets_all_through(kafka: Story) -> None:
    worker = kafka.worker()
    worker.ready()
    with writing(kafka) as writer:
        writer.begin("a", "b")
        kafka.posts(12)  # over all partitions, behind it in one
        until(lambda: metric(worker, "newsift_open_transaction_seconds") > 2 * STALL_S)
        assert worker.alive(), worker.said  # although the watchdog's patience has run out
        assert metric(worker, "newsift_open_transaction_messages") == 2 + 12 / PARTITIONS
        assert metric(worker, "newsift_lag_posts") == 0
        assert not {"a", "b"} & set(matched(kafka))
        writer.client.commit_transaction()
    caught_up(kafka, worker)
    until(lambda: metric(worker, "newsift_open_transaction_seconds") == 0)
    assert {"a", "b"} <= set(matched(kafka))


def test_read_uncommitted_takes_all_as_it_comes(
    kafka: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_KAFKA__ISOLATION", "uncommitted")
    worker = kafka.worker()
    worker.ready()
    with writing(kafka) as writer:
        writer.begin("a", "b")
        until(lambda: matched(kafka) == ["a", "b"])
        until(lambda: lag(kafka, "read_uncommitted")[0] == 0)
        writer.client.abort_transaction()
    until(lambda: lag(kafka, "read_uncommitted")[0] == 0)
    assert metric(worker, "newsift_open_transaction_messages") == 0


def test_posts_deleted_before_they_are_read_are_reported_once(story: Story) -> None:
    """The log begins after the commit: the worker goes on there, and commits that."""
    story.posts(30)
    first = story.worker()
    caught_up(story, first)
    assert first.terminate() == 0, first.said
    story.posts(30)
    place = TopicPartition(story.topics["posts"], 0)
    with admin(story.server.address) as client:
        client.delete_records({place: 20})
    second = story.worker()
    caught_up(story, second)
    assert metric(second, "newsift_offsets_lost_total") == 10
    assert second.said.count("were deleted before they were read") == 1
    second.kill()
    third = story.worker()
    third.ready()
    caught_up(story, third)
    assert metric(third, "newsift_offsets_lost_total") == 0
    assert "were deleted" not in third.said


def test_a_log_that_is_emptied_past_the_commit_leaves_no_lag(story: Story) -> None:
    story.posts(30)
    first = story.worker()
    caught_up(story, first)
    first.kill()
    story.posts(30)
    with admin(story.server.address) as client:
        client.delete_records({TopicPartition(story.topics["posts"], 0): -1})
    second = story.worker()
    caught_up(story, second)
    stays(second)
