"""A part that is looked at: only while somebody looks, and one that hangs hides no other."""

import itertools
import time
from collections.abc import Callable, Iterator
from threading import Event

import pytest

from newsift.desk import health as part
from newsift.desk.alerts import NOT_YET
from newsift.desk.health import PolledValue, ViewerPresence
from worker.errors import BrokerError

DEADLINE_S = 60.0


def until(holds: Callable[[], object]) -> None:
    """Wait for a condition, not for ever."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, "it does not come to hold"
        time.sleep(0.005)


@pytest.fixture
def eyes() -> Iterator[ViewerPresence]:
    made = ViewerPresence()
    yield made
    made.close()


def test_nothing_is_asked_while_nobody_looks(
    eyes: ViewerPresence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, "LOOKED_S", 0.2)
    asked: list[int] = []
    moved: list[int] = []
    one = PolledValue("x", lambda: asked.append(1), eyes, lambda: moved.append(1), every_s=0.001)
    one.start()
    assert (one.away, one.at) == (NOT_YET, None)
    time.sleep(0.05)
    assert asked == []
    eyes.look()
    until(lambda: len(moved) > 3)
    until(lambda: not eyes._arrival.is_set())  # nobody has looked for a while
    time.sleep(0.02)  # an answer that was under way
    count = len(asked)
    time.sleep(0.05)
    assert len(asked) == count
    eyes.look()
    until(lambda: len(asked) > count)


def test_one_that_hangs_hides_no_other(eyes: ViewerPresence) -> None:
    stuck, count = Event(), itertools.count()
    hangs = PolledValue("hangs", lambda: stuck.wait(DEADLINE_S), eyes, lambda: None)
    works = PolledValue("works", lambda: next(count), eyes, lambda: None, every_s=0.001)
    hangs.start()
    works.start()
    eyes.look()
    until(lambda: (works.answer or 0) > 3)
    assert (hangs.away, works.away) == (NOT_YET, "")
    stuck.set()


def test_why_and_since_when_it_is_away(eyes: ViewerPresence) -> None:
    says: list[Exception | int] = [1, BrokerError("broker: away"), ValueError("odd"), 2]

    def ask() -> int:
        found = says.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    one = PolledValue("x", ask, eyes, lambda: None)
    told = []
    for _ in range(4):
        one.look()
        told.append((one.answer, one.away, one.since))
    assert [row[:2] for row in told] == [
        (1, ""), (1, "broker: away"), (1, "ValueError: odd"), (2, ""),
    ]  # fmt: skip
    since = [row[2] for row in told]
    assert since[1] == since[2]
    assert since == sorted(since)


def test_a_look_in_the_moment_of_falling_asleep_is_not_lost(eyes: ViewerPresence) -> None:
    for _ in range(200):
        eyes.look()
        assert eyes.wait()
    eyes.close()
    assert not eyes.wait()
