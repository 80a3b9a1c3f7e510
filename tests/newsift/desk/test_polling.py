"""Values are polled while a page is open; one that hangs hides no other."""

import itertools
import time
from collections.abc import Iterator
from threading import Event

import pytest

from newsift.desk import health
from newsift.desk.health import NOT_YET, PolledValue, ViewerPresence
from tests.newsift.desk.client import DEADLINE_S, until
from worker.errors import BrokerError


@pytest.fixture
def viewers() -> Iterator[ViewerPresence]:
    created = ViewerPresence()
    yield created
    created.close()


def test_nothing_is_polled_while_no_page_is_open(
    viewers: ViewerPresence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PRESENCE_S", 0.2)
    calls: list[int] = []
    polls: list[int] = []
    one = PolledValue("x", lambda: calls.append(1), viewers, lambda: polls.append(1), every_s=0.001)
    one.start()
    assert one.row() == {"away": NOT_YET, "since": None}
    time.sleep(0.05)
    assert calls == []
    viewers.note()
    until(lambda: len(polls) > 3)
    until(lambda: not viewers._arrival.is_set())  # no page is open any more
    time.sleep(0.02)  # an answer that was under way
    count = len(calls)
    time.sleep(0.05)
    assert len(calls) == count
    viewers.note()
    until(lambda: len(calls) > count)


def test_one_that_hangs_hides_no_other(viewers: ViewerPresence) -> None:
    stuck, count = Event(), itertools.count()
    hangs = PolledValue("hangs", lambda: stuck.wait(DEADLINE_S), viewers, lambda: None)
    works = PolledValue("works", lambda: next(count), viewers, lambda: None, every_s=0.001)
    hangs.start()
    works.start()
    viewers.note()
    until(lambda: (works.value or 0) > 3)
    assert (hangs.away, works.away) == (NOT_YET, "")
    stuck.set()


def test_a_failure_has_its_reason_and_since_when(viewers: ViewerPresence) -> None:
    outcomes: list[Exception | int] = [1, BrokerError("broker: away"), ValueError("odd"), 2]

    def ask() -> int:
        result = outcomes.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    one = PolledValue("x", ask, viewers, lambda: None)
    polled = []
    for _ in range(4):
        one.poll()
        polled.append((one.value, one.away, one.since))
    assert [row[:2] for row in polled] == [
        (1, ""), (1, "broker: away"), (1, "ValueError: odd"), (2, ""),
    ]  # fmt: skip
    since = [row[2] for row in polled]
    assert since[1] == since[2]
    assert since == sorted(since)
