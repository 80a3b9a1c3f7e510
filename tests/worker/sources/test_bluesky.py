"""A Jetstream's faults, one by one: nothing is missing, and each is counted as what it is."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.worker.sources.collecting import Collecting, collecting
from tests.worker.sources.jetstream_side import (
    BASE,
    LEXICON,
    STEP,
    Fault,
    JetstreamSide,
    abort,
    address,
    after,
    binary,
    event,
    fall_silent,
    half_a_frame,
    ping_in_silence,
    refusing,
    runner_of,
    say,
)
from worker.errors import AccessError
from worker.sources.bluesky import Bluesky
from worker.sources.frame import Mark
from worker.sources.source import BUSY, CLOSED, LIMITED, MALFORMED, STALLED, TOLD, TOO_OLD

SLOW = '{"$type": "error", "error": "ConsumerTooSlow", "message": "too far behind"}'
FAULTS: list[tuple[str, Fault]] = [
    (CLOSED, after(5, say())),
    (CLOSED, after(5, abort)),
    (CLOSED, after(5, half_a_frame)),
    (CLOSED, after(0, abort)),
    (STALLED, after(5, fall_silent)),
    (STALLED, after(5, ping_in_silence)),
    (MALFORMED, after(5, binary)),
    (LIMITED, refusing(429)),
    (LIMITED, refusing(429, **{"Retry-After": "1"})),
    (BUSY, refusing(503)),
    (BUSY, refusing(500, **{"Retry-After": "nonsense"})),
]
COUNT = 12


def run(
    test: Callable[[JetstreamSide], Coroutine[Any, Any, None]], version: int, count: int = COUNT
) -> None:
    """Run a test beside a Jetstream."""

    async def beside() -> None:
        side = JetstreamSide(version, count)
        runner = await runner_of(side)
        try:
            await test(side)
        finally:
            await runner.cleanup()

    asyncio.run(beside())


def source_of(*urls: str, langs: tuple[str, ...] = (), stall_s: float = 0.5) -> Bluesky:
    return Bluesky(urls, (), langs, stall_s)


def complete(found: Collecting, count: int = COUNT) -> Callable[[], bool]:
    return lambda: {address(n) for n in range(count)} <= set(found.outlet.keys)


def mark_of(side: JetstreamSide, number: int, place: str | None = None) -> Mark:
    here = f"127.0.0.1:{side.port}{side.path}"
    return Mark(side.cursor_of(number), place or here, (BASE + number * STEP) / 1e6)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("reason", "fault"), FAULTS)
def test_nothing_is_missing_after_a_fault(version: int, reason: str, fault: Fault) -> None:
    async def test(side: JetstreamSide) -> None:
        side.faults.append(fault)
        async with collecting(source_of(side.url)) as found:
            await found.until(complete(found))
            assert found.counted("reconnects_total", reason=reason) == 1
            assert found.counted("gaps_total") == 0
        last = side.cursors[1]  # the second visit goes on where the first was acknowledged
        assert last in (None, side.cursor_of(4))
        assert found.outlet.marks[-1].cursor == side.cursor_of(COUNT - 1)

    run(test, version)


def test_an_error_frame_of_v2_ends_the_connection() -> None:
    async def test(side: JetstreamSide) -> None:
        side.faults.append(after(5, say(SLOW)))
        async with collecting(source_of(side.url)) as found:
            await found.until(complete(found))
            assert found.counted("reconnects_total", reason=TOLD) == 1
        assert "$type" not in "".join(found.outlet.keys)

    run(test, 2)


@pytest.mark.parametrize("version", [1, 2])
def test_it_goes_on_from_the_mark_inclusive(version: int) -> None:
    async def test(side: JetstreamSide) -> None:
        url = side.url + ("?compress=" if version == 1 else "")  # v1 may deflate what it sends
        async with collecting(source_of(url), mark_of(side, 7)) as found:
            await found.until(lambda: len(found.outlet.keys) == COUNT - 7)
        assert found.outlet.keys == [address(n) for n in range(7, COUNT)]
        assert side.cursors == [side.cursor_of(7)]
        assert [frame.value for frame in found.outlet.frames] == [
            text.encode() for text in side.events[7:]
        ]

    run(test, version)


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_no_longer_there_is_a_gap(version: int) -> None:
    async def test(side: JetstreamSide) -> None:
        side.floor = 8
        async with collecting(source_of(side.url), mark_of(side, 2)) as found:
            await found.until(lambda: len(found.outlet.keys) == COUNT - 8)
            assert found.counted("gaps_total") == 1
            assert found.counted("gap_seconds_total") == 6 * STEP / 1e6
        assert found.outlet.keys == [address(n) for n in range(8, COUNT)]

    run(test, version)


TOO_OLD_FRAME = {"$type": "error", "error": "CursorTooOld", "message": "cursor 3 below floor 9"}


@pytest.mark.parametrize("error", [TOO_OLD_FRAME, TOO_OLD_FRAME | {"message": "no number"}])
def test_a_frame_that_says_that_the_cursor_is_too_old_is_heeded_too(error: dict[str, str]) -> None:
    async def test(side: JetstreamSide) -> None:
        side.floor = 8
        side.faults.append(after(0, say(json.dumps(error))))
        async with collecting(source_of(side.url), mark_of(side, 2)) as found:
            await found.until(lambda: len(found.outlet.keys) == COUNT - 8)
            assert found.counted("gaps_total") == 1
            assert found.counted("reconnects_total", reason=TOO_OLD) == 1
        assert found.outlet.keys == [address(n) for n in range(8, COUNT)]

    run(test, 2)


def test_a_host_that_brings_nothing_for_a_time_is_asked_for_what_is_new() -> None:
    async def test(side: JetstreamSide) -> None:
        side.floor = 8
        wordless = TOO_OLD_FRAME | {"message": ""}
        side.faults.extend([after(0, say(json.dumps(wordless))), after(0, fall_silent)])
        async with collecting(source_of(side.url), mark_of(side, 2)) as found:
            await found.until(lambda: len(found.outlet.keys) == COUNT - 8)
            assert found.counted("gaps_total") == 1
        assert side.cursors == [side.cursor_of(2), BASE + 2 * STEP - 10_000_000, None]

    run(test, 2)


@pytest.mark.parametrize("version", [1, 2])
def test_another_host_is_asked_by_the_time_and_a_little_earlier(version: int) -> None:
    async def test(side: JetstreamSide) -> None:
        mark = mark_of(side, 5, "another.test:443/subscribe")
        async with collecting(source_of(side.url), mark) as found:
            await found.until(lambda: address(COUNT - 1) in found.outlet.keys)
            assert found.counted("gaps_total") == 0
        assert side.cursors == [BASE + 5 * STEP - 10_000_000]
        assert found.outlet.keys[0] == address(5)

    run(test, version)


def test_another_host_that_brings_nothing_for_a_time_is_asked_for_what_is_new() -> None:
    async def test(side: JetstreamSide) -> None:
        side.faults.append(after(0, fall_silent))
        async with collecting(source_of(side.url), mark_of(side, 5, "another.test/")) as found:
            await found.until(complete(found))
            assert found.counted("gaps_total") == 1
        assert side.cursors == [BASE + 5 * STEP - 10_000_000, None]

    run(test, 2)


def test_a_number_of_another_instance_without_a_time_begins_with_what_is_new() -> None:
    async def test(side: JetstreamSide) -> None:
        async with collecting(source_of(side.url), Mark(77, "another.test/")) as found:
            await found.until(lambda: bool(found.outlet.keys))
            assert found.counted("gaps_total") == 1
        assert side.cursors == [None]

    run(test, 2)


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_time_from_another_host_is_clamped_and_told(version: int) -> None:
    async def test(side: JetstreamSide) -> None:
        side.floor = 8
        async with collecting(source_of(side.url), mark_of(side, 2, "another.test/")) as found:
            await found.until(lambda: len(found.outlet.keys) == COUNT - 8)
            assert found.counted("gaps_total") == 1

    run(test, version)


def test_a_refusal_ends_it_unless_another_host_is_there() -> None:
    async def test(side: JetstreamSide) -> None:
        side.faults.extend([refusing(403)])
        with pytest.raises(AccessError, match=r"answers 403.*--url"):
            async with collecting(source_of(side.url)) as found:
                await found.until(lambda: False)
        nobody = "ws://127.0.0.1:9/subscribe"
        async with collecting(source_of(nobody, side.url)) as found:
            await found.until(complete(found))
            assert found.counted("reconnects_total", reason="unreachable") == 1

    run(test, 1)


def test_a_refusal_is_waited_for_once_it_has_let_us_in() -> None:
    async def test(side: JetstreamSide) -> None:
        side.faults.extend([after(3, say()), refusing(404)])
        async with collecting(source_of(side.url)) as found:
            await found.until(complete(found))
            assert found.counted("reconnects_total", reason=BUSY) == 1

    run(test, 1)


@pytest.mark.parametrize("version", [1, 2])
def test_other_languages_are_left_out_and_the_cursor_moves_on(version: int) -> None:
    async def test(side: JetstreamSide) -> None:
        side.events = [event(n, version, [["en-GB"], ["ja"]][n % 2]) for n in range(COUNT)]
        async with collecting(source_of(side.url, langs=("en",))) as found:
            last = side.cursor_of(COUNT - 1)
            await found.until(
                lambda: bool(found.outlet.marks) and last == found.outlet.marks[-1].cursor
            )
        assert found.outlet.keys == [address(n) for n in range(0, COUNT, 2)]

    run(test, version)


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_no_event_goes_on_as_it_is(version: int) -> None:
    odd = ["{", "null", '{"did": 5}', '{"$type": "message"}', "[]", '{"time_us": "x"}']

    async def test(side: JetstreamSide) -> None:
        whole = list(side.events)
        side.events = [whole[0], *odd, *whole[1:], whole[3], whole[2]]  # twice, and out of order
        async with collecting(source_of(side.url)) as found:
            await found.until(lambda: len(found.outlet.frames) >= len(side.events))
        sent = [(frame.value or b"").decode() for frame in found.outlet.frames]
        assert sent == side.events
        assert found.outlet.marks[-1].cursor == side.cursor_of(2)

    run(test, version)


@pytest.mark.parametrize(
    ("version", "asked"),
    [
        (1, {"wantedCollections": "app.bsky.feed.post"}),
        (2, {"collections": "app.bsky.feed.post", "kinds": "commit"}),
    ],
)
def test_it_asks_for_posts_unless_the_address_says_otherwise(
    version: int, asked: dict[str, str]
) -> None:
    async def test(side: JetstreamSide) -> None:
        async with collecting(source_of(side.url)) as found:
            await found.until(complete(found))
        assert [dict(one) for one in side.asked] == [asked]
        own = {1: "wantedCollections=app.bsky.feed.like", 2: "collections=app.bsky.feed.like"}
        async with collecting(source_of(f"{side.url}?{own[version]}")) as found:
            await found.until(complete(found))
        assert [f"{k}={v}" for k, v in side.asked[1].items()] == [own[version]]

    run(test, version)


def test_the_notice_of_v2_is_no_frame() -> None:
    said = {"$type": f"{LEXICON}info", "name": "Other", "message": "x"}
    info = json.dumps({"$type": "message", "payload": said})

    async def test(side: JetstreamSide) -> None:
        side.events.insert(3, info)
        async with collecting(source_of(side.url)) as found:
            await found.until(complete(found))
        assert found.outlet.keys == [address(n) for n in range(COUNT)]

    run(test, 2)
