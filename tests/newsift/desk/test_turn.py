"""What one does at a time: others wait a little, and are refused with the reason."""

from threading import Event, Lock, Thread

import pytest

from newsift.desk import threads as turn
from newsift.desk.threads import lock_or_busy
from worker.errors import BrokerError


def test_who_waits_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "PATIENCE_S", 0.05)
    lock = Lock()
    with (
        lock_or_busy(lock, "mine"),
        pytest.raises(BrokerError, match="mine is on its way; try again"),
        lock_or_busy(lock, "mine is on its way"),
    ):
        pass
    assert not lock.locked()


def test_who_waits_has_the_turn_after_one_that_failed() -> None:
    lock, held, done = Lock(), Event(), Event()

    def wait() -> None:
        with lock_or_busy(lock, "the other"):
            done.set()

    def fail() -> None:
        with lock_or_busy(lock, "the other"):
            waiting = Thread(target=wait)
            waiting.start()
            held.set()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert held.is_set()
    assert done.wait(10)
