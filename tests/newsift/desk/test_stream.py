"""The rate of posts, by a broker; near misses, by workers that may be away."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pytest

from newsift.desk import scoring
from newsift.desk.scoring import StreamMonitor
from newsift.desk.threads import TimedCache
from newsift.operations.cluster_status import DAY, StreamRate, stream_rate
from newsift.statistics.pass_rates import HOUR
from tests.worker.kafka_side import POSTS, Kafka
from worker.config import Config, DeskConfig, load_config
from worker.errors import BrokerError
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


def test_a_broker_that_is_away_is_said_and_no_matter() -> None:
    config = Config()
    away = replace(config, kafka=replace(config.kafka, bootstrap_servers="127.0.0.1:9"))
    result = StreamMonitor(away).traffic()
    assert "127.0.0.1:9" in result.why
    assert result.hourly == 0


def test_while_one_waits_for_a_broker_others_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = Event(), Event()

    def gone(_: Config) -> None:
        begun.set()
        assert go.wait(10)
        raise BrokerError("gone")

    monkeypatch.setattr(scoring, "connected", gone)
    here = StreamMonitor(Config())
    here._traffic = TimedCache(here._read_traffic, 1.0, patience_s=0.05)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(here.traffic)
        assert begun.wait(10)
        assert "another page" in here.traffic().why
        go.set()
        assert first.result(10).why == "gone"


def test_a_worker_that_is_away_is_told_of() -> None:
    desk = DeskConfig(workers="127.0.0.1:9")
    result = StreamMonitor(replace(Config(), desk=desk)).near_misses("fire")
    assert result.answers == ()
    (line,) = result.messages
    assert "127.0.0.1:9" in line
