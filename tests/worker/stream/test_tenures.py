import asyncio

import pytest

from tests.worker.stream.ingest_bench import FastLoop
from worker.stream.partitions import Tenures

pytestmark = pytest.mark.parametrize(
    "anyio_backend", [("asyncio", {"loop_factory": FastLoop})], ids=["fast"]
)
KEEP_S = 30


@pytest.fixture
async def tenures() -> Tenures:
    made = Tenures(KEEP_S)
    made.assign({0, 1}, {0: None, 1: 7})
    return made


async def test_partitions_that_come_back_as_they_were_go_on(tenures: Tenures) -> None:
    first, second = tenures[0], tenures[1]
    tenures.commit({1: 9})
    tenures.revoke()
    tenures.commit({1: 12})  # answered late
    assert not tenures.ready.is_set()
    tenures.assign({0, 1}, {0: None, 1: 12})
    assert tenures.ready.is_set()
    assert (tenures[0], tenures[1]) == (first, second)


@pytest.mark.parametrize("offset", [8, 6, None], ids=["beyond", "set back", "no answer"])
async def test_a_partition_in_which_another_worker_committed_starts_again(
    tenures: Tenures, offset: int | None
) -> None:
    first, second = tenures[0], tenures[1]
    tenures.revoke()
    tenures.assign({0, 1}, {0: None} if offset is None else {0: None, 1: offset})
    assert tenures[0] is first
    assert tenures[1] is not second


@pytest.mark.parametrize("away_s", [KEEP_S - 1, KEEP_S + 1])
async def test_a_partition_may_be_away_for_a_bounded_time(tenures: Tenures, away_s: int) -> None:
    """A rebalance in between, which another partition survives, changes nothing."""
    first, second = tenures[0], tenures[1]
    tenures.revoke()
    tenures.assign({1}, {1: 7})
    await asyncio.sleep(away_s - 5)
    tenures.revoke()
    tenures.assign({1}, {1: 7})
    await asyncio.sleep(5)
    assert (tenures[0] is first) == (away_s < KEEP_S)
    tenures.revoke()
    tenures.assign({0, 1}, {0: None, 1: 7})
    assert (tenures[0] is first) == (away_s < KEEP_S)
    assert tenures[1] is second
