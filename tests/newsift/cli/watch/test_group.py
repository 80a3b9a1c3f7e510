"""The group of `newsift watch`: partitions are shared, and a broker that is away is waited for."""

import json
import signal
from pathlib import Path

import pytest

from newsift.broker.server import running
from tests.newsift.cli.test_matches import record
from tests.newsift.cli.watch.receiver import receiving, watching
from tests.worker.kafka_side import MATCHES, PARTITIONS, Kafka

pytestmark = pytest.mark.slow


def fill(kafka: Kafka, start: int, end: int) -> None:
    """Matches of three events, over all partitions."""
    for number in range(start, end):
        value = record(str(number), "A fire", **{"abc"[number % 3]: 0.5})
        kafka.send(MATCHES, value, partition=number // 3 % 3)


def test_two_share_the_partitions_and_one_goes_on_alone_without_a_gap(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_KAFKA__SESSION_TIMEOUT_S", "2")
    fill(kafka, 0, 30)
    with receiving() as receiver:
        args = ("--webhook", receiver.url, "--since", "1h")
        with watching(tmp_path, *args) as first, watching(tmp_path, *args) as second:
            second.until(lambda: "to read: " in second.said and len(set(receiver.names())) == 30)
            fill(kafka, 30, 60)
            first.process.send_signal(signal.SIGKILL)
            fill(kafka, 60, 90)
            second.until(lambda: len(receiver.names()) == 90)
            assert second.leave() == 0
    assert sorted(map(int, receiver.names())) == list(range(90))
    assert all(json.loads(post.body)["matches"] for post in receiver.came)


def test_a_broker_that_goes_away_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(auto_create=False) as broker:
        kafka = Kafka(broker)
        kafka.make(*PARTITIONS)
        monkeypatch.setenv("NEWSIFT_KAFKA", str(broker))
        monkeypatch.setenv("NEWSIFT_KAFKA__REQUEST_TIMEOUT_S", "4")
        fill(kafka, 0, 9)
        with receiving() as receiver:
            args = ("--webhook", receiver.url, "--since", "1h")
            with watching(tmp_path, *args) as command:
                command.until(lambda: len(receiver.taken) == 9)
                broker.stop()
                command.until(lambda: "the broker does not answer: waiting" in command.said)
                broker.start()
                fill(kafka, 9, 18)
                command.until(lambda: len(receiver.names()) == 18)
                broker.stop()
                assert command.leave() == 0
                assert "Traceback" not in command.said
                broker.start()
    assert sorted(map(int, receiver.names())) == list(range(18))
