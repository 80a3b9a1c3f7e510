from math import inf, nan
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError
from newsift.operations.capacity import (
    BURST_S,
    Costs,
    LoadBurst,
    burst_lag,
    plan_capacity,
    read_costs,
)

COSTS = Costs(
    machine="one", date="today", command="none", posts="short", share=0.02, python_us=10,
    encode_us=5, match_ns=5, more_match_ns=3, matched_us=100, start_s=2, start_ms=0.5,
    memory_mb=400, memory_kb=10, post_bytes=500, packed_post_bytes=200, packed_match_bytes=300,
)  # fmt: skip


def test_a_plan_is_what_one_computes_by_hand() -> None:
    made = plan_capacity(COSTS, 100_000, 1_000, LoadBurst(4))
    # 10 + 2 % of 100 for one thread at a time, 5 + 1,000 · 0.005 on all: 22 µs, so one thread
    assert (made.cpu_us, made.threads) == (22, 1)
    capacity = 4e6 / 22  # of 4 workers: 100,000 / 0.7 / 45,454.5 = 3.1
    assert (made.workers, made.cores) == (4, 4)
    assert made.worker_rate == pytest.approx(capacity / 4)
    assert made.partitions == 12  # 400,000 / 45,454.5 = 8.8 workers at the burst; a multiple of 4
    assert (made.memory_mb, made.memory_total_mb) == (576, 2304)  # 1.25 · 410; a multiple of 64
    assert (made.network_in_mb_s, made.network_in_unpacked_mb_s) == (20, 50)
    assert (made.matches_s, made.network_out_mb_s) == (2000, 0.6)
    assert made.start_cpu_s == 2.5
    assert made.burst is not None
    assert made.burst.lag == pytest.approx(600 * (400_000 - capacity))
    assert made.burst.drain_s == pytest.approx(made.burst.lag / (capacity - 100_000))


def test_workers_have_threads_where_there_is_work_for_them() -> None:
    assert plan_capacity(COSTS, 1_000_000, 10_000).threads == 4  # 49 µs, of which 12 on one thread
    assert plan_capacity(COSTS, 1_000_000, 10_000).worker_rate == pytest.approx(4e6 / 49, abs=0.1)
    assert plan_capacity(COSTS, 1_000_000, 100_000).threads == 8  # no more, whatever the seeds
    assert plan_capacity(COSTS, 100, 100_000).threads == 1  # 0.05 cores


def test_a_small_stream_needs_one_worker_and_no_seed_means_no_match() -> None:
    made = plan_capacity(COSTS, 0.5, 0)
    assert (made.partitions, made.workers, made.cores) == (4, 1, 1)
    assert (made.matches_s, made.cpu_us) == (0, 15)
    assert made.burst is None


RATES = st.floats(0.1, 1e6)
FACTORS = st.floats(1, 100)


@given(RATES, st.floats(1, 5), st.floats(1.1, 6))
def test_a_burst_is_a_queue(rate: float, factor: float, more: float) -> None:
    capacity = rate * more
    lag = 0.0
    for _ in range(BURST_S):
        lag = max(0.0, lag + factor * rate - capacity)
    result = burst_lag(rate, factor, capacity)
    assert result.lag == pytest.approx(lag, rel=1e-6, abs=1e-6)
    assert result.delay_s == pytest.approx(lag / capacity, rel=1e-6, abs=1e-6)
    seconds = 0
    while lag > 0:
        lag += rate - capacity
        seconds += 1
    assert seconds - 1 - 1e-6 <= result.drain_s <= seconds + 1e-6


@given(RATES, st.integers(1, 100_000), FACTORS, st.floats(1, 10_000))
def test_the_workers_are_the_least_that_suffice(
    rate: float, seeds: int, factor: float, drain: float
) -> None:
    def suffices(workers: int) -> bool:
        capacity = workers * COSTS.worker_rate(seeds, made.threads)
        if rate > 0.7 * capacity * (1 + 1e-9):
            return False
        return burst_lag(rate, factor, capacity).drain_s <= drain * (1 + 1e-6)

    made = plan_capacity(COSTS, rate, seeds, LoadBurst(factor, drain))
    assert suffices(made.workers)
    assert made.workers == 1 or not suffices(made.workers - 1)
    assert made.partitions % made.workers == 0
    assert made.partitions >= 2 * made.workers


@pytest.mark.parametrize(
    ("rate", "seeds", "burst", "key"),
    [
        (0, 1, None, "rate"), (-1, 1, None, "rate"), (nan, 1, None, "rate"), (inf, 1, None, "rate"),
        (1e10, 1, None, "rate"), (1, -1, None, "seeds"), (1, 10**8, None, "seeds"),
        (1, 1, LoadBurst(0.9), "burst"), (1, 1, LoadBurst(nan), "burst"),
        (1, 1, LoadBurst(1e9), "burst"), (1, 1, LoadBurst(2, 0), "drain"),
        (1, 1, LoadBurst(2, nan), "drain"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_for_is_refused(
    rate: float, seeds: int, burst: LoadBurst | None, key: str
) -> None:
    with pytest.raises(InputError, match=f"^{key}: "):
        plan_capacity(COSTS, rate, seeds, burst)


def test_a_share_is_between_none_and_all() -> None:
    assert COSTS.with_share(0.5).serial_us() == 60
    for share in (-0.1, 1.1, nan):
        with pytest.raises(InputError, match=r"^share: "):
            COSTS.with_share(share)


GOOD = msgspec.to_builtins(COSTS)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "bad JSON"), (b"[]", "object"), (b"\xff", "bad JSON"), (b"{}", "machine"),
        (msgspec.json.encode(GOOD | {"python_us": 0}), "python_us"),
        (msgspec.json.encode(GOOD | {"match_ns": -1}), "match_ns"),
        (msgspec.json.encode(GOOD | {"share": 2}), "share"),
        (msgspec.json.encode(GOOD | {"memory_kb": "much"}), "memory_kb"),
        (msgspec.json.encode(GOOD | {"machine": ""}), "machine"),
        (msgspec.json.encode(GOOD | {"python_ms": 1}), "python_ms"),
        (b" " * 100_000, "larger"),
    ],
)  # fmt: skip
def test_costs_that_are_none_are_refused(tmp_path: Path, content: bytes, named: str) -> None:
    file = tmp_path / "costs.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=named):
        read_costs(file)


def test_a_file_of_costs_that_is_missing_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(InputError, match="cannot be read"):
            read_costs(path)
