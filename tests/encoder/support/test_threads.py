import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, Lock, get_ident

import pytest

from encoder.support.threads import (
    PerProcess,
    ThreadPool,
    available_cpus,
    blas_libraries,
    one_thread,
)

V1 = {"cpu/x/cpu.cfs_period_us": "100000\n"}  # of the first version of cgroups


def machine(root: Path, cgroup: str, **files: str) -> Path:
    held = {"proc/self/cgroup": cgroup} | {f"sys/fs/cgroup/{k}": v for k, v in files.items()}
    for name, text in held.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("cgroup", "files", "count"),
    [
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "1000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 16),
        ("0::/a/b\n", {"a/cpu.max": "300000 100000\n", "a/b/cpu.max": "max 100000\n"}, 3),
        ("0::/beyond/this/mount\n", {"cpu.max": "500000 100000\n"}, 5),
        ("5:memory:/x\n4:cpu,cpuacct:/x\n", V1 | {"cpu/x/cpu.cfs_quota_us": "400000\n"}, 4),
        ("4:cpu,cpuacct:/x\n", V1 | {"cpu/x/cpu.cfs_quota_us": "-1\n"}, 16),
        ("0::/\n", {"cpu.max": "nonsense\n"}, 16),
        ("", {}, 16),
    ],
)
def test_a_quota_bounds_the_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cgroup: str, files: dict[str, str], count: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    assert available_cpus(machine(tmp_path, cgroup, **files)) == count


def test_threads_that_begin_together_share_one_value() -> None:
    started = Barrier(4)

    def make() -> object:
        time.sleep(0.01)
        return object()

    each = PerProcess(make)

    def get(_: int) -> object:
        started.wait()
        return each.get()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(get, range(4)))) == 1


def test_a_forked_child_makes_its_own() -> None:
    each = PerProcess(os.getpid)
    assert each.get() == os.getpid()
    child = os.fork()
    if child == 0:
        os._exit(0 if each.get() == os.getpid() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_crew_answers_in_order_also_after_a_shutdown() -> None:
    pool, jobs = ThreadPool(2), range(20)
    squares = [n * n for n in jobs]
    assert list(pool.map(lambda n: n * n, jobs)) == squares
    pool._pool.get().shutdown()
    assert list(pool.map(lambda n: n * n, jobs)) == squares
    pool.close()
    pool.close()


def test_a_crew_works_in_parallel_and_takes_few_jobs_in_advance() -> None:
    pool, both, taken = ThreadPool(2), Barrier(2, timeout=10), list[int]()

    def jobs() -> Iterator[int]:
        for n in range(100):
            taken.append(n)
            yield n

    answers = pool.map(lambda _: both.wait() in (0, 1), jobs())
    assert next(answers)
    assert len(taken) == 4
    assert all(answers)
    pool.close()


def test_threads_of_a_call_are_limited() -> None:
    pool, lock, active, most = ThreadPool(4), Lock(), 0, list[int]()

    def work(n: int) -> int:
        nonlocal active
        with lock:
            active += 1
            most.append(active)
        time.sleep(0.002)
        with lock:
            active -= 1
        return get_ident()

    for limit in (1, 2):
        most.clear()
        idents = set(pool.map(work, range(20), limit))
        assert max(most) <= limit
        assert (idents == {get_ident()}) == (limit == 1)
    pool.close()


def test_the_error_of_a_job_is_raised_and_no_other_job_starts() -> None:
    pool, begun, failed = ThreadPool(2), list[int](), Event()

    def work(n: int) -> None:
        begun.append(n)
        if n == 0:
            raise ZeroDivisionError
        failed.wait(10)

    with pytest.raises(ZeroDivisionError):
        list(pool.map(work, [0, *[1] * 50]))
    failed.set()
    pool.close()
    assert len(begun) <= 4


def threads() -> set[int]:
    return {row["num_threads"] for row in blas_libraries().info() if row["user_api"] == "blas"}


def test_overlapping_blocks_run_on_one_thread_and_restore_the_limit() -> None:
    with blas_libraries().limit(limits=2, user_api="blas"):
        before = threads()
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert threads() == {1}
        second.__exit__(None, None, None)
        assert threads() == before
