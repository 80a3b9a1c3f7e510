"""Several hosts, and a frame that none can take in: each is gone past, and what that costs told."""

import asyncio

import pytest
from aiohttp import web

from tests.worker.sources.collecting import collecting
from tests.worker.sources.jetstream_side import (
    End,
    JetstreamSide,
    abort,
    after,
    refusing,
    runner_of,
    say,
)
from tests.worker.sources.test_bluesky import complete, mark_of, run, source_of
from worker.errors import AccessError
from worker.sources.source import BUSY, LIMITED, MALFORMED


def test_who_asks_to_stay_away_keeps_nobody_from_the_next() -> None:
    async def test(side: JetstreamSide) -> None:
        other = JetstreamSide(1, 0)
        other.faults.append(refusing(429, **{"Retry-After": "3000"}))
        side.faults.append(after(3, abort))
        side.faults.append(refusing(503))  # the turn of the other, who is still to be let alone
        runner = await runner_of(other)
        async with collecting(source_of(other.url, side.url)) as found:
            await found.until(complete(found))
            assert found.counted("reconnects_total", reason=LIMITED) == 1
            assert found.counted("reconnects_total", reason=BUSY) == 1
        assert len(other.asked) == 1
        await runner.cleanup()

    run(test, 1)


def test_two_hosts_that_refuse_end_it_and_one_that_is_not_there_does_not() -> None:
    async def test(side: JetstreamSide) -> None:
        side.faults.extend([refusing(403)] * 2)
        nobody = "ws://127.0.0.1:9/subscribe"
        async with collecting(source_of(side.url, nobody)) as found:
            await found.until(complete(found))
            assert found.counted("reconnects_total", reason=BUSY) == 2
        side.faults.extend([refusing(403)] * 2)
        with pytest.raises(AccessError, match="answers 403"):
            async with collecting(source_of(side.url, f"{side.url}?x=1")) as found:
                await found.until(lambda: False)

    run(test, 1)


async def unreadable(request: web.Request, _socket: web.WebSocketResponse) -> None:
    """A text that is no UTF-8."""
    assert request.transport is not None
    request.transport.write(b"\x81\x02\xff\xfe")
    await asyncio.sleep(0.05)


async def large(_request: web.Request, socket: web.WebSocketResponse) -> None:
    await socket.send_str("x" * 2**14)


@pytest.mark.parametrize("fault", [unreadable, large])
@pytest.mark.parametrize("version", [1, 2])
def test_a_frame_that_cannot_be_read_is_passed_by_in_the_end(
    version: int, fault: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.sources.bluesky.LARGEST", 2**13)

    async def test(side: JetstreamSide) -> None:
        side.faults.extend([after(3, fault), *[after(1, fault)] * 2])
        async with collecting(source_of(side.url)) as found:
            await found.until(complete(found))
            assert found.counted("reconnects_total", reason=MALFORMED) == 3
            assert found.counted("gaps_total") == 1
        mark = mark_of(side, 2)
        assert mark.at is not None
        assert side.cursors == [
            None, side.cursor_of(2), side.cursor_of(2), round((mark.at + 1) * 1_000_000),
        ]  # fmt: skip

    run(test, version)


def test_one_frame_that_cannot_be_read_costs_nothing() -> None:
    async def test(side: JetstreamSide) -> None:
        side.faults.extend([after(3, unreadable), after(3, unreadable), after(0, say())])
        async with collecting(source_of(side.url)) as found:
            await found.until(complete(found))
            assert found.counted("gaps_total") == 0

    run(test, 1)
