"""Open transactions are told of by how much they hold back and for how long."""

import logging

import pytest
from aiokafka import TopicPartition

from tests.worker.stream.fakes import FakeConsumer
from worker.metrics.registry import Metrics
from worker.stream.outage import Outage
from worker.stream.transactions import LONG_S, OpenTransactions

PLACE = TopicPartition("tweets", 3)


class Scene:
    """A consumer of one partition, looked at each second."""

    def __init__(self) -> None:
        self.consumer, self.metrics = FakeConsumer(), Metrics()
        self.consumer.places = {PLACE}
        self.open = OpenTransactions(self.metrics)

    def looks(self, stable: int, high: int, *, seconds: int = 1, fetches: bool = True) -> None:
        self.consumer.stable[PLACE], self.consumer.ends[PLACE] = stable, high
        for _ in range(seconds):
            self.consumer.polled_at += 1000 * fetches
            self.open.look(self.consumer)

    def told(self) -> tuple[float | None, float | None]:
        labels = {"topic": "tweets", "partition": "3"}
        value = self.metrics.registry.get_sample_value
        return (
            value("newsift_open_transaction_messages", labels),
            value("newsift_open_transaction_seconds", labels),
        )


def test_the_time_runs_while_the_stable_offset_stands() -> None:
    scene = Scene()
    scene.looks(10, 10, seconds=100)
    assert scene.told() == (0, 0)
    scene.looks(10, 13, seconds=5)
    scene.looks(10, 20)
    assert scene.told() == (10, 5)
    scene.looks(15, 20)  # that one has ended, and another is open
    assert scene.told() == (5, 0)
    scene.looks(21, 21)
    assert scene.told() == (0, 0)
    scene.looks(21, 22)
    assert scene.told() == (1, 0)


def test_no_time_runs_while_nothing_is_fetched() -> None:
    """What is known of a paused partition is old: its transaction may have ended long ago."""
    scene = Scene()
    scene.looks(10, 13, seconds=2)
    scene.looks(10, 13, seconds=500, fetches=False)
    assert scene.told() == (3, 1)


def test_of_partitions_that_are_given_up_nothing_is_held() -> None:
    scene = Scene()
    scene.looks(10, 13, seconds=9)
    scene.consumer.places = set()
    scene.open.look(scene.consumer)
    assert scene.told() == (0, 0)


@pytest.mark.parametrize("stable", [None, -1], ids=["not fetched", "uncommitted"])
def test_without_a_stable_offset_nothing_is_told(stable: int | None) -> None:
    scene = Scene()
    scene.consumer.stable, scene.consumer.ends = {}, {PLACE: 7}
    if stable is not None:
        scene.consumer.stable[PLACE] = stable
    scene.open.look(scene.consumer)
    assert scene.told() == (None, None)


def test_a_long_one_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    with caplog.at_level(logging.WARNING, "newsift.ingest"):
        scene.looks(10, 13, seconds=int(LONG_S))
        assert not ours(caplog)
        scene.looks(10, 13, seconds=100)
    [record] = ours(caplog)
    assert "open in tweets, partition 3, from offset 10 on" in record.message


def ours(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The records of newsift: a client of an earlier test may still look for its broker."""
    return [record for record in caplog.records if record.name.startswith("newsift")]


def test_an_outage_is_told_once_a_minute_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    outage = Outage(logging.getLogger("newsift.test"), "reading", lambda: now[0])
    outage.ended()
    for second in range(130):
        now[0] = float(second)
        outage.failed(OSError("gone"))
    outage.ended()
    outage.ended()
    outage.failed(OSError("again"))
    assert [record.getMessage() for record in caplog.records] == [
        "reading failed and is tried again: gone",
        "reading has failed for 60 s: gone",
        "reading has failed for 120 s: gone",
        "reading works again, after 129 s",
        "reading failed and is tried again: again",
    ]
