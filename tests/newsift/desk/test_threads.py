from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

from newsift.desk.threads import DaemonExecutor, TimedCache
from worker.errors import BrokerError


def test_a_value_is_computed_again_once_it_is_old() -> None:
    now, values = 0.0, list[str]()

    def make(name: str) -> int:
        values.append(name)
        return len(values)

    cache = TimedCache(make, 10.0, max_entries=2, clock=lambda: now)
    assert [cache.get("a"), cache.get("a"), cache.get("b")] == [1, 1, 2]
    now = 9.9
    assert cache.get("a") == 1
    now = 10.0
    assert [cache.get("a"), cache.get("c")] == [3, 4]
    assert values == ["a", "b", "a", "c"]
    assert [cache.get("a"), cache.get("b")] == [3, 5]  # of b, the oldest, there was no room


def test_a_thread_that_waits_gets_the_previous_value_or_is_refused() -> None:
    now, begun, go = 0.0, Event(), Event()

    def make(name: str) -> float:
        if now or name == "slow":
            begun.set()
            assert go.wait(10)
        return now

    cache = TimedCache(make, 10.0, clock=lambda: now, patience_s=0.05)
    for name, at in (("slow", 0.0), ("known", 10.0)):
        begun.clear()
        go.clear()
        before = cache.get("known")
        now = at
        with ThreadPoolExecutor(1) as pool:
            values = pool.submit(cache.get, name)
            assert begun.wait(10)
            if name == "known":
                assert cache.get(name) == before
            else:
                with pytest.raises(BrokerError, match="try again"):
                    cache.get(name)
            go.set()
            assert values.result(10) == at


def test_so_many_calls_run_at_once_and_errors_are_raised_where_results_are_read() -> None:
    executor, running, go = DaemonExecutor(2), Barrier(3), Event()

    def call(number: int) -> float:
        if number < 2:
            running.wait(10)
            go.wait(10)
        return 1 / (number - 2)

    futures = [executor.submit(call, number) for number in range(2)]
    running.wait(10)
    waiting = executor.submit(call, 2)
    assert not waiting.running()
    go.set()
    assert [future.result(10) for future in futures] == [-0.5, -1]
    with pytest.raises(ZeroDivisionError):
        waiting.result(10)
