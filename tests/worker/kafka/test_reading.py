import time
from typing import Any

import pytest
from kafka import KafkaConsumer

from tests.broker.clients import admin, create
from tests.worker.command_topics import MATCHES, PARTITIONS, POSTS, Kafka, hide
from worker.config.load import load_config
from worker.errors import AccessError, ConflictError
from worker.kafka import reading
from worker.kafka.reading import connected

COUNT, STEP = 1500, 100


def test_windows_of_a_topic_are_read_one_after_the_other(kafka: Kafka) -> None:
    parts = range(PARTITIONS[POSTS])
    for partition in parts:
        values = [f"{partition} {offset}".encode() for offset in range(COUNT)]
        kafka.fill(POSTS, values, partition)
    with connected(load_config()) as cluster:
        for first in range(0, COUNT, STEP):
            start = {partition: first + partition for partition in parts}
            end = {partition: first + 2 * partition + 5 for partition in parts}
            result = [record for batch in cluster.read(POSTS, start, end) for record in batch]
            expected = [(n, at) for n in start for at in range(start[n], end[n])]
            assert sorted((each.partition, each.offset) for each in result) == expected
            assert all(r.value == f"{r.partition} {r.offset}".encode() for r in result)


def test_reading_ends_when_time_is_up(kafka: Kafka) -> None:
    kafka.fill(POSTS, [b"a post"] * 10)
    with connected(load_config()) as cluster:
        assert list(cluster.read(POSTS, until=time.monotonic())) == []
        assert sum(map(len, cluster.read(POSTS, until=time.monotonic() + 60))) == 10


def test_a_hidden_topic_is_told_from_a_missing_one(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, MATCHES)
    with connected(load_config()) as cluster:
        for topic, there in ((POSTS, True), ("nothing", False)):
            assert (cluster.exists(topic), cluster.is_visible(topic)) == (there, there)
        assert not cluster.is_visible(MATCHES)
        for ask in (cluster.exists, cluster.partitions):
            with pytest.raises(AccessError, match=f"no right on the topic {MATCHES}; grant Desc"):
                ask(MATCHES)
        with pytest.raises(AccessError, match="has no topic 'nothing'"):
            cluster.partitions("nothing")


@pytest.mark.parametrize("count", [0, 10])
def test_a_topic_that_is_recreated_while_it_is_read_is_reported(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(reading, "MAX_STUCK_S", 1.0)
    kafka.fill(POSTS, [b"x" * 3000] * 600)  # more than one fetch returns
    with connected(load_config()) as cluster:
        batches = cluster.read(POSTS)
        next(batches)
        with admin(kafka.address) as client:
            client.delete_topics([POSTS])
        create(kafka.address, POSTS, PARTITIONS[POSTS])
        kafka.fill(POSTS, [b"new"] * count)
        with pytest.raises(ConflictError):
            list(batches)


def test_what_comes_while_a_time_is_looked_up_lies_after_it(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = KafkaConsumer.offsets_for_times

    def then_a_post(consumer: KafkaConsumer, times: Any) -> Any:
        result = answer(consumer, times)
        kafka.fill(POSTS, [b"meanwhile"])
        return result

    monkeypatch.setattr(KafkaConsumer, "offsets_for_times", then_a_post)
    with connected(load_config()) as cluster:
        start = cluster.offsets_at(POSTS, int(time.time() * 1000))
        result = [record.value for batch in cluster.read(POSTS, start) for record in batch]
    assert result == [b"meanwhile"]
