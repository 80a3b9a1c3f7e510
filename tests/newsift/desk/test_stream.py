"""The rate of posts, by a broker; near misses, by workers that may be away."""

import pytest

from newsift.desk.scoring import StreamMonitor
from newsift.operations.cluster_status import DAY, StreamRate, stream_rate
from newsift.statistics.pass_rates import HOUR
from tests.worker.kafka_side import POSTS, Kafka
from worker.config import Config, DeskConfig, KafkaConfig, load_config
from worker.kafka.reading import connected

NOW = 1_795_000_000_000


def test_posts_are_counted_since_the_first_of_a_day(kafka: Kafka) -> None:
    ages = [30 * HOUR, 20 * HOUR, 5 * HOUR, HOUR - 1, 5]
    for n, age in enumerate(ages):
        kafka.send(POSTS, b"{}", at=NOW - age, partition=n % 3)
    with connected(load_config()) as cluster:
        result = stream_rate(cluster, POSTS, NOW)
        assert result == StreamRate(4, NOW - 20 * HOUR, NOW, 2)
        assert result.hourly == pytest.approx(4 / 20)
        later = stream_rate(cluster, POSTS, NOW + 2 * DAY)
    assert (later.posts, later.hourly, later.since) == (0, 0.0, NOW + 2 * DAY)


def test_an_unreachable_broker_and_worker_are_reported() -> None:
    config = Config(
        kafka=KafkaConfig(bootstrap_servers="127.0.0.1:9"), desk=DeskConfig(workers="127.0.0.1:9")
    )
    monitor = StreamMonitor(config)
    traffic, near = monitor.traffic(), monitor.near_misses("fire")
    assert (traffic.hourly, near.answers) == (0, ())
    assert all("127.0.0.1:9" in text for text in (traffic.why, *near.messages))
