"""A topic that is followed: to its end, past markers, when it is made, made again, or grows."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from newsift.desk import mirrors as following
from newsift.desk.mirrors import Follower, Following
from tests.worker.kafka_side import MATCHES, PARTITIONS, Kafka
from worker.config import load_config
from worker.kafka.reading import Offsets, StoredMessage, TopicReader

DEADLINE_S = 60.0


class Heard(Follower):
    """Keeps the values that came since it began."""

    def __init__(self, topic: str) -> None:
        self.topic, self.values, self.begun = topic, list[bytes | None](), 0

    def begin(self, cluster: TopicReader) -> Offsets:
        """Start over."""
        self.values, self.begun = [], self.begun + 1
        return cluster.beginnings(self.topic)

    def take(self, batch: Sequence[StoredMessage]) -> None:
        """Keep the values."""
        self.values += [message.value for message in batch]


def until(holds: Callable[[], object]) -> None:
    """Wait for a condition, not for ever."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, "it does not come to hold"
        time.sleep(0.02)


@contextmanager
def followed(topic: str) -> Iterator[tuple[Following, Heard]]:
    """A topic while it is followed, and what was heard of it."""
    heard = Heard(topic)
    one = Following(load_config(), topic, heard, lambda: None)
    one.start()
    try:
        yield one, heard
    finally:
        one.stop()
        one._thread.join(DEADLINE_S)


def test_all_that_is_there_comes_and_then_it_is_ready(kafka: Kafka) -> None:
    for partition in range(PARTITIONS[MATCHES]):
        kafka.fill(MATCHES, [b"%d" % n for n in range(700)], partition)
    with followed(MATCHES) as (one, heard):
        assert one.ready.wait(DEADLINE_S)
        assert Counter(heard.values) == dict.fromkeys((b"%d" % n for n in range(700)), 3)
        kafka.send(MATCHES, b"later")
        until(lambda: b"later" in heard.values)
        assert (one.away, heard.begun) == ("", 1)


def test_a_topic_that_is_missing_is_told_of_once_and_comes_when_it_is_made(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(following, "AGAIN_S", 0.05)
    with followed("later") as (one, heard):
        until(lambda: "has no topic 'later'" in one.away)
        assert not one.ready.is_set()
        _make(kafka, "later", 1)
        assert one.ready.wait(DEADLINE_S)
        kafka.send("later", b"first")
        until(lambda: heard.values == [b"first"])
    assert caplog.text.count("has no topic 'later'") == 1


def test_a_partition_that_is_added_is_noticed_and_nothing_is_read_twice(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.1)
    monkeypatch.setattr(following, "AGAIN_S", 0.05)
    _make(kafka, "grows", 1)
    kafka.send("grows", b"old")
    with followed("grows") as (_, heard):
        until(lambda: heard.values == [b"old"])
        with _admin(kafka) as admin:
            admin.create_partitions({"grows": 2})
        kafka.send("grows", b"new", partition=1)
        until(lambda: b"new" in heard.values)
        assert (heard.values, heard.begun) == ([b"old", b"new"], 1)


def test_a_topic_that_was_made_again_is_read_from_its_start(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "AGAIN_S", 0.05)
    _make(kafka, "again", 1)
    kafka.fill("again", [b"old"] * 3)
    with followed("again") as (_, heard):
        until(lambda: len(heard.values) == 3)
        with _admin(kafka) as admin:
            admin.delete_topics(["again"])
        _make(kafka, "again", 1)
        kafka.send("again", b"new")
        until(lambda: heard.values == [b"new"])
        assert heard.begun > 1


class Marked:
    """A cluster whose topic ends with a marker, which no record stands for."""

    def __getattr__(self, name: str) -> Callable[[str], object]:
        told = {"exists": True, "beginnings": {0: 0}, "ends": {0: 3}, "positions": {0: 3}}
        return lambda _topic: told[name]

    def follow(self, topic: str, _start: Offsets) -> Iterator[list[SimpleNamespace]]:
        """Two records, and nothing more."""
        yield [SimpleNamespace(topic=topic, partition=0, offset=n, value=b"") for n in range(2)]
        while True:
            yield []


def test_it_is_ready_where_the_marker_of_a_transaction_stands_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "connected", lambda _: nullcontext(Marked()))
    with followed("any") as (one, heard):
        assert one.ready.wait(DEADLINE_S)
        assert len(heard.values) == 2


@contextmanager
def _admin(kafka: Kafka) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=str(kafka.address))
    yield admin
    admin.close()


def _make(kafka: Kafka, topic: str, partitions: int) -> None:
    with _admin(kafka) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1)])
