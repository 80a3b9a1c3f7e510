import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

import pytest
from kafka import KafkaProducer, TopicPartition

from newsift.operations.cluster_status import read_offsets
from newsift.operations.seed_topic import SeedTopic
from tests.broker.clients import admin, consumer, producer, read_to_end, until
from tests.broker.conftest import STALL_S
from tests.broker.raw_requests import plant
from tests.broker.record_batches import CODECS, PACK, record, sealed
from tests.faults.expected_matches import SeedWanted
from tests.faults.process import Worker
from tests.faults.story import PARTITIONS, Story
from tests.hostile.costly_posts import SHAPES
from worker.config import Config, KafkaConfig, TopicsConfig
from worker.errors import RunError
from worker.kafka.reading import connected
from worker.kafka.topics import admin_client

pytestmark = pytest.mark.slow
ANSWERS_WITHIN_S, MAX_MEMORY = 5.0, 1536 * 2**20
ARTICLE_POST = b'{"id": "neighbour", "text": "storm flood river city in the storm"}'
ZSTD = CODECS["zstd"]
impatient = pytest.mark.usefixtures("impatient")


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
    with connected(config) as cluster, admin_client(config) as admin:
        return read_offsets(cluster, admin, config).lag


def caught_up(story: Story, worker: Worker) -> None:
    def done() -> bool:
        assert worker.alive(), worker.output
        return lag(story) == dict.fromkeys(range(PARTITIONS), 0)

    story.until(done)


def matched(story: Story) -> list[str]:
    rows = read_to_end(story.server.address, story.topics["matches"])
    return sorted(json.loads(row.value)["post"]["id"] for row in rows)


def metric(worker: Worker, name: str) -> float:
    line = next(line for line in worker.output.splitlines() if "/metrics" in line)
    with urlopen(line.rsplit(" ", 1)[1], timeout=10) as page:
        rows = page.read().decode().splitlines()
    return sum(float(row.split()[-1]) for row in rows if row.startswith(name))


def test_records_and_web_pages_are_those_of_the_contract(story: Story) -> None:
    story.posts(50)
    story.message(b"{", "bad_json")
    worker = story.worker()
    story.nothing_lost()
    matches = read_to_end(story.server.address, story.topics["matches"])
    for row in matches:
        assert row.key.decode() == json.loads(row.value)["post"]["id"]
        assert dict(row.headers)["schema"] == b"newsift.match/1"
    first: set[tuple[int, str]] = set()
    for row in sorted(
        (json.loads(row.value) for row in matches), key=lambda row: row["source"]["offset"]
    ):
        partition, name = row["source"]["partition"], row["matches"][0]["match_id"]
        assert row["new"] == (row["group"] == name)
        first |= {(partition, name)} if row["new"] else set()
        assert (partition, row["group"]) in first
    (letter,) = read_to_end(story.server.address, story.topics["rejected"])
    headers = {name: value.decode() for name, value in letter.headers}
    assert (letter.key, letter.value, headers["attempt"]) == (b"any", b"{", "1")
    assert headers["schema"] == "newsift.rejected/1"
    assert metric(worker, "newsift_posts_read_total") == 51
    assert metric(worker, "newsift_posts_matched_total") == len(matches)
    assert metric(worker, "newsift_posts_rejected_total") == 1
    assert metric(worker, "newsift_stories_total") >= len(first) > 0
    assert worker.page("/healthz") is not None
    assert (worker.page("/readyz") or {})["ready"]


@impatient
def test_posts_deleted_before_they_are_read_are_reported_once(story: Story) -> None:
    story.posts(30)
    first = story.worker()
    caught_up(story, first)
    assert first.terminate() == 0, first.output
    story.posts(30)
    place = TopicPartition(story.topics["posts"], 0)
    with admin(story.server.address) as client:
        client.delete_records({place: 20})
    second = story.worker()
    caught_up(story, second)
    assert metric(second, "newsift_offsets_lost_total") == 10
    assert second.output.count("were deleted before they were read") == 1
    second.kill()
    third = story.worker()
    third.ready()
    caught_up(story, third)
    assert metric(third, "newsift_offsets_lost_total") == 0
    assert "were deleted" not in third.output


def test_a_worker_among_costly_posts_answers_and_reads_on(story: Story) -> None:
    worker = story.worker(story.settings() | {"limits": {"post_bytes": 2**20}})
    worker.ready()
    with producer(story.server.address, max_request_size=2**23) as client:
        for shape in SHAPES.values():
            client.send(story.topics["posts"], shape(700_000), key=b"any", partition=0)
            client.send(story.topics["posts"], ARTICLE_POST, key=b"any", partition=1)
    silences = list[float]()

    def done() -> bool:
        began = time.monotonic()
        assert worker.page("/healthz") is not None
        silences.append(time.monotonic() - began)
        return not any(lag(story).values())

    story.until(lambda: matched(story).count("neighbour") == len(SHAPES))
    story.until(done)
    assert max(silences) < ANSWERS_WITHIN_S
    assert worker.memory() < MAX_MEMORY


DAMAGED = sealed(record(0, 0, b"any", b'{"id": "1", "text": "storm"}'), 0, 0, 1)[:-1] + b"x"
LARGEST = sealed(
    PACK[ZSTD](b"".join(record(0, n, b"any", b"cat " * 250_000) for n in range(31))), ZSTD, 0, 31
)


@pytest.fixture
def embedded(request: pytest.FixtureRequest, story: Story) -> Story:
    if request.node.callspec.params["server"] != "embedded":
        pytest.skip("Apache Kafka takes no damaged batch, and no such timestamp")
    return story


def test_a_damaged_batch_is_one_dead_letter_or_no_seed(embedded: Story) -> None:
    plant(embedded.server, embedded.topics["seeds"], DAMAGED)
    worker = embedded.worker()
    worker.ready()
    plant(embedded.server, embedded.topics["posts"], DAMAGED)
    plant(embedded.server, embedded.topics["posts"], LARGEST)
    plant(embedded.server, embedded.topics["seeds"], DAMAGED)
    for at in (-1, 0, 2**63 - 1, -(2**63)):
        times = {"first_timestamp": at, "max_timestamp": at}
        plant(
            embedded.server, embedded.topics["posts"],
            sealed(record(0, 0, b"any", b"{"), 0, 0, 1, **times),
        )  # fmt: skip

    def letters() -> list[dict[str, bytes]]:
        records = read_to_end(embedded.server.address, embedded.topics["rejected"])
        return [dict(each.headers) for each in records]

    until(lambda: len(letters()) >= 36)
    reasons = Counter(each["reason"] for each in letters())
    assert reasons == {b"bad_batch": 1, b"limits.post_bytes": 31, b"bad_json": 4}
    (bad,) = (each for each in letters() if each["reason"] == b"bad_batch")
    assert bad["offsets"] == b"0-0"
    assert worker.alive()
    assert {each["id"] for each in (worker.page("/seeds") or {})["live"]} == set(embedded.seeds)


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


@impatient
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
    assert worker.terminate() == 0, worker.output
    second = kafka.worker()
    second.ready()
    time.sleep(2 * STALL_S)
    assert second.alive(), second.output  # the watchdog lets it be: it has nothing to do
    assert metric(second, "newsift_posts_read_total") == 0


@impatient
def test_an_open_transaction_is_reported_and_holds_its_partition(kafka: Story) -> None:
    worker = kafka.worker()
    worker.ready()
    with writing(kafka) as writer:
        writer.begin("a", "b")
        kafka.posts(12)  # over all partitions, behind it in one
        until(lambda: metric(worker, "newsift_open_transaction_seconds") > 2 * STALL_S)
        assert worker.alive(), worker.output  # although the watchdog's patience has run out
        assert metric(worker, "newsift_open_transaction_messages") == 2 + 12 / PARTITIONS
        assert metric(worker, "newsift_lag_posts") == 0
        assert status(kafka) == dict.fromkeys(range(PARTITIONS), 0)
        assert not {"a", "b"} & set(matched(kafka))
        writer.client.commit_transaction()
    caught_up(kafka, worker)
    until(lambda: metric(worker, "newsift_open_transaction_seconds") == 0)
    assert {"a", "b"} <= set(matched(kafka))


@impatient
def test_a_seed_of_an_aborted_transaction_is_ignored(kafka: Story) -> None:
    worker = kafka.worker()
    worker.ready()
    assert metric(worker, "newsift_last_progress_timestamp_seconds") > time.time() - 60
    with writing(kafka) as writer:
        for name, end in (("x", "abort_transaction"), ("a", "commit_transaction")):
            writer.client.begin_transaction()
            seed = SeedWanted(name, name, "storm flood", 0.5)
            writer.client.send(kafka.topics["seeds"], seed.value, key=name.encode())
            writer.client.flush()
            getattr(writer.client, end)()
    until(lambda: f"{len(kafka.oracle.seeds) + 1} seeds, set" in worker.output)
    assert f"{len(kafka.oracle.seeds) + 2} seeds" not in worker.output
    config = configured(kafka)
    with connected(config) as cluster:
        keys = SeedTopic(cluster, config).state().records.keys()
    assert {b"a"} | {seed.id.encode() for seed in kafka.oracle.seeds} == keys


@impatient
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
