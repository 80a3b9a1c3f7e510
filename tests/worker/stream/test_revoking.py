"""On revoke, batches in flight are finished and committed as far as the time allows."""

import asyncio

import pytest
from aiokafka.errors import CommitFailedError, IllegalStateError

from tests.worker.stream.bench import PLACE, Bench, FastLoop
from worker.kafka.consumers import REVOKE_S

pytestmark = pytest.mark.anyio


async def test_revoking_waits_for_the_batch_in_flight_and_commits_it(bench: Bench) -> None:
    bench.feed(3)
    batch = await bench.take()
    revoking = asyncio.ensure_future(bench.positions.on_partitions_revoked({PLACE}))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not revoking.done()
    bench.ledger.finish(batch)
    await revoking
    assert bench.consumer.commits == [{PLACE: 3}]
    assert len(bench.ledger) == 0


@pytest.mark.parametrize(
    "error", [CommitFailedError(), IllegalStateError()], ids=["left", "revoked"]
)
async def test_a_refused_commit_of_a_former_member_is_harmless(
    bench: Bench, error: Exception
) -> None:
    """Stopped past its session timeout, it still believes that the partitions are its own."""
    bench.feed(3)
    batch = await bench.take()
    bench.ledger.finish(batch)
    bench.consumer.commit_error = error
    await bench.positions.commit()
    assert len(bench.ledger) == 1  # until the rebalance
    await bench.positions.on_partitions_revoked({PLACE})
    assert len(bench.ledger) == 0


async def test_an_error_in_the_callback_ends_the_worker(bench: Bench) -> None:
    """aiokafka only logs what a listener raises."""
    bench.feed(3)
    batch = await bench.take()
    bench.ledger.finish(batch)
    bench.consumer.commit_error = ZeroDivisionError("as the test wanted")
    await bench.positions.on_partitions_revoked({PLACE})
    [failure] = bench.failures
    assert isinstance(failure, ZeroDivisionError)


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"loop_factory": FastLoop})], ids=["fast"])
@pytest.mark.parametrize("stuck", [False, True], ids=["commit answered", "commit never answered"])
async def test_revoking_ends_in_time_and_leaves_slow_batches_to_the_next_owner(
    bench: Bench, stuck: bool
) -> None:
    """One budget for a batch that never ends and for the commit."""
    bench.feed(3)
    bench.feed(3)
    await bench.wait_for(lambda: len(bench.ledger) == 2)
    bench.ledger.finish(await bench.take())
    bench.consumer.stuck = stuck
    loop = asyncio.get_running_loop()
    start = loop.time()
    await bench.positions.on_partitions_revoked({PLACE})
    duration = loop.time() - start
    assert len(bench.ledger) == 0
    if stuck:
        assert REVOKE_S - 0.1 < duration < REVOKE_S + 1.5
    else:
        assert bench.consumer.commits == [{PLACE: 3}]
        assert duration < REVOKE_S - 0.5  # time of a busy machine counts too
