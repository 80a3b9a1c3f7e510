"""Giving partitions up: what is in flight is finished and committed, as far as the time allows."""

import asyncio

import pytest
from aiokafka.errors import CommitFailedError, IllegalStateError

from tests.worker.stream.bench import PLACE, Bench, Hurried, play
from worker.kafka.consumers import REVOKE_S
from worker.stream import offsets as module


def test_on_revoke_it_waits_for_what_is_in_flight_commits_it_and_drops_nothing() -> None:
    async def story(bench: Bench) -> None:
        bench.feed(3)
        await bench.met(lambda: len(bench.ledger) == 1)
        batch = bench.ledger.take()
        assert batch is not None
        revoking = asyncio.ensure_future(bench.positions.on_partitions_revoked({PLACE}))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not revoking.done()
        bench.ledger.finish(batch)
        await revoking
        assert bench.consumer.commits == [{PLACE: 3}]
        assert len(bench.ledger) == 0

    play(story)


def test_on_revoke_what_takes_too_long_is_left_to_the_next_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REVOKE_S", module.COMMIT_S + 0.01)

    async def story(bench: Bench) -> None:
        bench.feed(3)
        bench.feed(3)
        await bench.met(lambda: len(bench.ledger) == 2)
        done, late = bench.ledger.take(), bench.ledger.take()
        assert done is not None
        assert late is not None
        bench.ledger.finish(done)
        await bench.positions.on_partitions_revoked({PLACE})
        assert bench.consumer.commits == [{PLACE: 3}]
        assert not bench.ledger.holds(late)

    play(story)


@pytest.mark.parametrize(
    "error", [CommitFailedError(), IllegalStateError()], ids=["left", "revoked"]
)
def test_a_zombies_commit_is_harmless(error: Exception) -> None:
    """Stopped past its session timeout, it still believes that the partitions are its own."""

    async def story(bench: Bench) -> None:
        bench.feed(3)
        await bench.met(lambda: len(bench.ledger) == 1)
        batch = bench.ledger.take()
        assert batch is not None
        bench.ledger.finish(batch)
        bench.consumer.commit_error = error
        await bench.positions.commit()
        assert len(bench.ledger) == 1  # until the rebalance
        await bench.positions.on_partitions_revoked({PLACE})
        assert len(bench.ledger) == 0

    play(story)


def test_what_goes_wrong_in_the_callback_is_not_swallowed() -> None:
    """aiokafka logs what a listener raises, and goes on as if nothing had been."""

    async def story(bench: Bench) -> None:
        bench.feed(3)
        await bench.met(lambda: len(bench.ledger) == 1)
        batch = bench.ledger.take()
        assert batch is not None
        bench.ledger.finish(batch)
        bench.consumer.commit_error = ZeroDivisionError("as the test wanted")
        await bench.positions.on_partitions_revoked({PLACE})
        [failure] = bench.failures
        assert isinstance(failure, ZeroDivisionError)

    play(story)


def test_giving_up_takes_no_longer_than_it_may_whatever_is_stuck() -> None:
    """A batch that is never done, and a commit that is never answered: one budget for both."""

    async def story(bench: Bench) -> None:
        bench.feed(3)
        bench.feed(3)
        await bench.met(lambda: len(bench.ledger) == 2)
        done = bench.ledger.take()
        assert done is not None
        bench.ledger.finish(done)
        bench.consumer.stuck = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        await bench.positions.on_partitions_revoked({PLACE})
        assert REVOKE_S - 0.1 < loop.time() - began < REVOKE_S + 1.5
        assert len(bench.ledger) == 0

    play(story, Hurried)


def test_the_commit_has_its_part_of_the_time_to_give_up() -> None:
    async def story(bench: Bench) -> None:
        bench.feed(3)
        bench.feed(3)
        await bench.met(lambda: len(bench.ledger) == 2)
        done = bench.ledger.take()
        assert done is not None
        bench.ledger.finish(done)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await bench.positions.on_partitions_revoked({PLACE})
        assert bench.consumer.commits == [{PLACE: 3}]
        assert loop.time() - began < REVOKE_S - 0.5  # time of a busy machine counts too

    play(story, Hurried)
