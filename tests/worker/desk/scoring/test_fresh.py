"""An answer that costs something is got once in its time, whoever asks."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from worker.desk.scoring.fresh import Fresh


def test_it_is_asked_anew_once_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = 0.0, list[str]()
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def make(name: str) -> int:
        asked.append(name)
        return len(asked)

    kept = Fresh(make, 10.0, most=2)
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

    kept = Fresh(make, 60.0)

    def ask(name: str) -> str:
        ready.wait(10)
        return kept.of(name)

    with ThreadPoolExecutor(4) as hands:
        assert list(hands.map(ask, "aaaa")) == list("aaaa")
    assert asked == ["a"]


def test_what_is_refused_is_asked_again() -> None:
    def refuse(_: str) -> str:
        raise ValueError("no")

    kept = Fresh(refuse, 60.0)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            kept.of("a")
