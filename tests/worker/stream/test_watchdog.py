import logging
from collections.abc import Sequence
from itertools import pairwise

import pytest
from aiokafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.stream.fake_clients import FakeConsumer
from worker.errors import StalledError
from worker.metrics.registry import Metrics
from worker.stream.outage import Outage
from worker.stream.partitions import Backlog
from worker.stream.transactions import LOG_AFTER_S, OpenTransactions
from worker.stream.watchdog import Observation, Watchdog

STALL_S = 5.0

backlogs = st.dictionaries(
    st.integers(0, 2),
    st.builds(Backlog, st.just(0), st.integers(0, 1), st.integers(0, 2)),
    max_size=3,
)
sights = st.builds(Observation, backlogs, st.booleans(), st.integers(0, 1), st.integers(0, 1))


def moved(before: Observation, after: Observation) -> bool:
    """Whether a batch was finished, or a partition that waited has come on."""
    waited = [n for n, each in before.backlogs.items() if each.lag and n in after.backlogs]
    on = any(before.backlogs[n].done != after.backlogs[n].done for n in waited)
    return on or before.finished != after.finished


def is_excused(before: Observation, after: Observation) -> bool:
    """Whether it waits on purpose, or reads the posts of one batch."""
    reads = before.portions_read != after.portions_read and before.finished == after.finished
    return after.paused or reads


def stalls(looks: Sequence[Observation]) -> bool:
    """Whether all stood still for the last looks, one a second, or one partition for longer."""
    last = looks[-1]
    behind = [n for n, each in last.backlogs.items() if each.lag]
    seconds, pairs = 0, list(pairwise(looks))[::-1]
    for before, after in pairs:
        excused = is_excused(before, after) or not any(each.lag for each in after.backlogs.values())
        if moved(before, after) or excused:
            break
        seconds += 1
    if seconds >= STALL_S:
        return True
    for number in behind:
        stood = 0
        for before, after in pairs:
            was, is_ = before.backlogs.get(number), after.backlogs[number]
            if was is None or not was.lag or was.done != is_.done or is_excused(before, after):
                break
            stood += 1
        if stood >= STALL_S * len(behind):
            return True
    return False


@given(st.lists(st.tuples(sights, st.integers(1, 12)), max_size=12))
def test_it_fires_after_so_many_looks_without_an_excuse(
    runs: list[tuple[Observation, int]],
) -> None:
    """One look a second; the model looks back from each of them."""
    at, looks = 0.0, [Observation({}, paused=False, finished=0)]
    dog = Watchdog(STALL_S, lambda: at)
    for sight in [sight for sight, times in runs for _ in range(times)]:
        at += 1
        looks.append(sight)
        if stalls(looks):
            with pytest.raises(StalledError):
                dog.observe(sight)
            return
        dog.observe(sight)


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
            self.open.observe(self.consumer)

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


def test_no_time_runs_while_nothing_is_fetched_and_none_after_a_revocation() -> None:
    scene = Scene()
    for stable in ({}, {PLACE: -1}):  # nothing fetched yet; reading what is not committed too
        scene.consumer.stable, scene.consumer.ends = stable, {PLACE: 7}
        scene.open.observe(scene.consumer)
        assert scene.values() == (None, None)
    scene.look(10, 13, seconds=2)
    scene.look(10, 13, seconds=500, fetches=False)
    assert scene.values() == (3, 1)
    scene.consumer.places = set()
    scene.open.observe(scene.consumer)
    assert scene.values() == (0, 0)


def test_a_long_one_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.look(10, 13, seconds=int(LOG_AFTER_S) + 100)
    [message] = [row.message for row in caplog.records if row.name == "newsift.ingest"]
    assert "open in tweets, partition 3, from offset 10 on" in message


def test_an_outage_is_logged_each_minute_and_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    outage = Outage(logging.getLogger("newsift.test"), "reading", lambda: now[0])
    outage.report_success()
    for second in range(130):
        now[0] = float(second)
        outage.report_failure(OSError("gone"))
    outage.report_success()
    outage.report_success()
    outage.report_failure(OSError("again"))
    assert caplog.messages == [
        "reading failed and is tried again: gone",
        "reading has failed for 60 s: gone",
        "reading has failed for 120 s: gone",
        "reading works again, after 129 s",
        "reading failed and is tried again: again",
    ]
