"""An answer that costs something is got once in its time, whoever asks."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

from newsift.desk import threads as turn
from newsift.desk.threads import TimedCache
from worker.errors import BrokerError


def test_it_is_asked_anew_once_it_is_old() -> None:
    now, asked = 0.0, list[str]()

    def make(name: str) -> int:
        asked.append(name)
        return len(asked)

    kept = TimedCache(make, 10.0, most=2, clock=lambda: now)
    assert [kept.of("a"), kept.of("a"), kept.of("b")] == [1, 1, 2]
    now = 9.9
    assert kept.of("a") == 1
    now = 10.0
    assert [kept.of("a"), kept.of("c")] == [3, 4]
    assert asked == ["a", "b", "a", "c"]
    assert [kept.of("a"), kept.of("b")] == [3, 5]  # of b, the oldest, there was no room


def test_one_asks_and_the_others_wait_for_it() -> None:
    asked, ready = list[str](), Barrier(4)

    def make(name: str) -> str:
        asked.append(name)
        return name

    kept = TimedCache(make, 60.0)

    def ask(name: str) -> str:
        ready.wait(10)
        return kept.of(name)

    with ThreadPoolExecutor(4) as hands:
        assert list(hands.map(ask, "aaaa")) == list("aaaa")
    assert asked == ["a"]


def test_who_waits_for_another_gets_what_was_before_or_is_refused_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn, "PATIENCE_S", 0.05)
    now, begun, go = 0.0, Event(), Event()

    def make(name: str) -> float:
        if now or name == "slow":
            begun.set()
            assert go.wait(10)
        return now

    kept = TimedCache(make, 10.0, clock=lambda: now)
    for name, at in (("slow", 0.0), ("known", 10.0)):
        begun.clear()
        go.clear()
        before = kept.of("known")
        now = at
        with ThreadPoolExecutor(1) as hand:
            asked = hand.submit(kept.of, name)
            assert begun.wait(10)
            if name == "known":
                assert kept.of(name) == before
            else:
                with pytest.raises(BrokerError, match="try again"):
                    kept.of(name)
            go.set()
            assert asked.result(10) == at


def test_what_took_long_to_get_is_good_for_longer() -> None:
    now = 0.0

    def make(_: str) -> float:
        nonlocal now
        now += 5.0
        return now

    kept = TimedCache(make, 10.0, times=4, clock=lambda: now)
    assert kept.of("a") == 5.0
    now = 24.9
    assert kept.of("a") == 5.0
    now = 25.0
    assert kept.of("a") == 30.0


def test_what_is_refused_is_asked_again() -> None:
    def refuse(_: str) -> str:
        raise ValueError("no")

    kept = TimedCache(refuse, 60.0)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            kept.of("a")
