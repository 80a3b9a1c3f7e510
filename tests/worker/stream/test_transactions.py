"""Open transactions: how much they hold back and for how long; and outages in the log."""

import logging

import pytest
from aiokafka import TopicPartition

from tests.worker.stream.fakes import FakeConsumer
from worker.metrics.registry import Metrics
from worker.stream.outage import Outage
from worker.stream.transactions import LONG_S, OpenTransactions

PLACE = TopicPartition("tweets", 3)


class Scene:
    def __init__(self) -> None:
        self.consumer, self.metrics = FakeConsumer(), Metrics()
        self.consumer.places = {PLACE}
        self.open = OpenTransactions(self.metrics)

    def look(self, stable: int, high: int, *, seconds: int = 1, fetches: bool = True) -> None:
        self.consumer.stable[PLACE], self.consumer.ends[PLACE] = stable, high
        for _ in range(seconds):
            self.consumer.polled_at += 1000 * fetches
            self.open.look(self.consumer)

    def values(self) -> tuple[float | None, float | None]:
        labels = {"topic": "tweets", "partition": "3"}
        value = self.metrics.registry.get_sample_value
        return (
            value("newsift_open_transaction_messages", labels),
            value("newsift_open_transaction_seconds", labels),
        )


def test_the_time_runs_while_the_stable_offset_stands() -> None:
    scene = Scene()
    scene.look(10, 10, seconds=100)
    assert scene.values() == (0, 0)
    scene.look(10, 13, seconds=5)
    scene.look(10, 20)
    assert scene.values() == (10, 5)
    scene.look(15, 20)  # that one has ended, and another is open
    assert scene.values() == (5, 0)
    scene.look(21, 21)
    assert scene.values() == (0, 0)
    scene.look(21, 22)
    assert scene.values() == (1, 0)


def test_no_time_runs_while_nothing_is_fetched() -> None:
    scene = Scene()
    scene.look(10, 13, seconds=2)
    scene.look(10, 13, seconds=500, fetches=False)
    assert scene.values() == (3, 1)


def test_a_revoked_partition_has_no_open_transaction() -> None:
    scene = Scene()
    scene.look(10, 13, seconds=9)
    scene.consumer.places = set()
    scene.open.look(scene.consumer)
    assert scene.values() == (0, 0)


@pytest.mark.parametrize("stable", [{}, {PLACE: -1}], ids=["not fetched", "uncommitted"])
def test_without_a_stable_offset_there_are_no_values(stable: dict[TopicPartition, int]) -> None:
    scene = Scene()
    scene.consumer.stable, scene.consumer.ends = stable, {PLACE: 7}
    scene.open.look(scene.consumer)
    assert scene.values() == (None, None)


def test_a_long_one_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.look(10, 13, seconds=int(LONG_S) + 100)
    [message] = [row.message for row in caplog.records if row.name == "newsift.ingest"]
    assert "open in tweets, partition 3, from offset 10 on" in message


def test_an_outage_is_logged_each_minute_and_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    outage = Outage(logging.getLogger("newsift.test"), "reading", lambda: now[0])
    outage.ended()
    for second in range(130):
        now[0] = float(second)
        outage.failed(OSError("gone"))
    outage.ended()
    outage.ended()
    outage.failed(OSError("again"))
    assert caplog.messages == [
        "reading failed and is tried again: gone",
        "reading has failed for 60 s: gone",
        "reading has failed for 120 s: gone",
        "reading works again, after 129 s",
        "reading failed and is tried again: again",
    ]
