"""What others write in transactions: on Apache Kafka, as the embedded broker has none."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaProducer

from newsift.operations.seed_topic import SeedTopic
from tests.broker.clients import until
from tests.broker.workers import STALL_S, caught_up, configured, lag, matched, metric, status, stays
from tests.faults.expected import SeedWanted
from tests.faults.story import PARTITIONS, Story
from worker.errors import RunError
from worker.kafka.reading import connected

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.fixture
def kafka(request: pytest.FixtureRequest, story: Story) -> Story:
    if request.node.callspec.params["server"] == "embedded":
        pytest.skip("the embedded broker has no transactions, and refuses them")
    return story


class Writer:
    def __init__(self, story: Story) -> None:
        self.topics = story.topics
        self.client: Any = KafkaProducer(
            bootstrap_servers=story.server.address, transactional_id=story.name
        )
        self.client.init_transactions()

    def begin(self, *ids: str, partition: int = 0) -> None:
        self.client.begin_transaction()
        for name in ids:
            value = json.dumps({"id": name, "text": "storm flood river city"}).encode()
            self.client.send(self.topics["posts"], value, partition=partition)
        self.client.flush()


@contextmanager
def writing(story: Story) -> Iterator[Writer]:
    writer = Writer(story)
    try:
        yield writer
    finally:
        writer.client.close(timeout=5)


def test_markers_and_aborted_posts_are_skipped_and_leave_no_lag(kafka: Story) -> None:
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
    second = kafka.worker()
    second.ready()
    stays(second)
    assert metric(second, "newsift_posts_read_total") == 0


def test_an_open_transaction_is_reported_and_holds_its_partition(kafka: Story) -> None:
    worker = kafka.worker()
    worker.ready()
    with writing(kafka) as writer:
        writer.begin("a", "b")
        kafka.posts(12)  # over all partitions, behind it in one
        until(lambda: metric(worker, "newsift_open_transaction_seconds") > 2 * STALL_S)
        assert worker.alive(), worker.said  # although the watchdog's patience has run out
        assert metric(worker, "newsift_open_transaction_messages") == 2 + 12 / PARTITIONS
        assert metric(worker, "newsift_lag_posts") == 0
        assert status(kafka) == dict.fromkeys(range(PARTITIONS), 0)
        assert not {"a", "b"} & set(matched(kafka))
        writer.client.commit_transaction()
    caught_up(kafka, worker)
    until(lambda: metric(worker, "newsift_open_transaction_seconds") == 0)
    assert {"a", "b"} <= set(matched(kafka))


def test_a_worker_that_reads_uncommitted_waits_for_no_transaction(
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


def test_a_seed_of_an_aborted_transaction_is_ignored(kafka: Story) -> None:
    worker = kafka.worker()
    worker.ready()
    with writing(kafka) as writer:
        for name, end in (("x", "abort_transaction"), ("a", "commit_transaction")):
            writer.client.begin_transaction()
            seed = SeedWanted(name, name, "storm flood", 0.5)
            writer.client.send(kafka.topics["seeds"], seed.value, key=name.encode())
            writer.client.flush()
            getattr(writer.client, end)()
    until(lambda: f"{len(kafka.oracle.seeds) + 1} seeds, set" in worker.said)
    assert f"{len(kafka.oracle.seeds) + 2} seeds" not in worker.said
    config = configured(kafka)
    with connected(config) as cluster:
        keys = SeedTopic(cluster, config).state().records.keys()
    assert {b"a"} | {seed.id.encode() for seed in kafka.oracle.seeds} == keys


def test_a_seed_behind_an_open_transaction_has_to_wait(kafka: Story) -> None:
    config = configured(kafka)
    with writing(kafka) as writer, connected(config) as cluster:
        writer.client.begin_transaction()
        writer.client.send(kafka.topics["seeds"], b"{}", key=b"x")
        writer.client.flush()
        topic = SeedTopic(cluster, config)
        with pytest.raises(RunError, match="'late': is written, and takes effect when"):
            topic.publish({b"late": b'{"text": "storm"}'})
        writer.client.abort_transaction()
        until(lambda: "late" in topic.state().seeds)
        assert b"x" not in topic.state().records
