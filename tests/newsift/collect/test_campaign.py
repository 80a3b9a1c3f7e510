"""Faults in any order, crashes between them, a slow broker: an oracle counts what is missing.

A crash is a collector that ends without keeping anything more; the next begins at what was kept.
"""

import asyncio
import random

import pytest

from newsift.collect.bluesky import Bluesky
from newsift.collect.source import Backoff, SourceMark
from tests.newsift.collect.collecting import Collecting, collecting
from tests.newsift.collect.jetstream_side import (
    Fault,
    JetstreamSide,
    abort,
    address,
    after,
    fall_silent,
    half_a_frame,
    ping_in_silence,
    refuse_with,
    send_and_close,
    serve_jetstream,
)
from worker.config import StreamConfig

COUNT, ROUNDS, FAULTS = 300, 5, 3
SMALL = StreamConfig(batch_bytes=4096, in_flight=2, batch_posts=7, shutdown_s=2.1)


def some_fault(chance: random.Random) -> Fault:
    """One of the faults, after some events."""
    ends = (send_and_close(), abort, half_a_frame, fall_silent, ping_in_silence)
    some = after(chance.randrange(60), chance.choice(ends))
    return chance.choice((some, some, some, refuse_with(429), refuse_with(503)))


async def until_crash(result: Collecting, chance: random.Random) -> None:
    """Let it go on until so many more frames are delivered, the broker now fast and now slow."""
    count = len(result.outlet.frames) + chance.randrange(10, 60)
    while len(result.outlet.frames) < count and address(COUNT - 1) not in result.outlet.keys:
        if chance.random() < 0.2:
            result.outlet.free.clear()
            await asyncio.sleep(0.002)
            result.outlet.free.set()
        if result.task.done():
            result.task.result()
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(4))
async def test_nothing_is_missing_whatever_happens(
    version: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newsift.collect.collector.STORE_EVERY_S", 0.0005)
    chance = random.Random(seed)
    seen: set[str] = set()
    async with serve_jetstream(JetstreamSide(version, COUNT)) as side:
        number = {side.cursor_of(n): n for n in range(COUNT)}
        mark: SourceMark | None = None
        for lap in range(ROUNDS + 1):
            side.faults.extend(some_fault(chance) for _ in range(FAULTS))
            source = Bluesky((side.url,), (), (), 0.05)
            pauses = Backoff(0.001, 0.01)
            source.backoff = lambda _, pauses=pauses: pauses  # type: ignore[misc, method-assign]
            async with collecting(source, mark, SMALL) as result:
                if lap < ROUNDS:
                    await until_crash(result, chance)
                    result.outlet.free.clear()  # what is under way now is not acknowledged
                    await asyncio.sleep(0.02)
                    result.outlet.crashed = True
                    result.outlet.free.set()
                else:
                    await result.until(lambda: address(COUNT - 1) in result.outlet.keys)
            assert result.counts.gaps == 0
            seen.update(result.outlet.keys)
            mark = result.outlet.marks[-1] if result.outlet.marks else mark
            if mark is not None:  # all that it passes over was delivered
                assert {address(n) for n in range(number[int(mark.cursor)] + 1)} <= seen
    assert seen == {address(n) for n in range(COUNT)}
