"""The stream of an instance, and what fills its gaps, beside an oracle that knows every status."""

import asyncio
import json
import random
from collections.abc import Callable

import pytest
from aiohttp import web

from tests.worker.sources.following import Followed, following, until
from tests.worker.sources.mastodon.instance_side import (
    TOKEN,
    FakeInstance,
    standing,
    status,
    status_id,
)
from tests.worker.sources.mastodon.playing import STREAMING, ids, made
from worker.config.secret import Secret
from worker.errors import AccessError
from worker.posts.read import PassedOver, Post, read_post
from worker.sources.http import session
from worker.sources.mastodon.feeds import stream_address
from worker.sources.mastodon.source import Mastodon
from worker.sources.source import BUSY, CLOSED, LIMITED


def test_events_come_as_the_platform_sent_them() -> None:
    first, edited = status_id(1), json.dumps(status(status_id(0), "edited"))

    async def story() -> Followed:
        async with standing() as side, following(made(side)) as seen:
            await until(lambda: len(side.urls("/api/v1/timelines")) == 3)  # from now on it streams
            await side.write(b":thump\n")
            await side.post(first)
            await side.tell("status.update", edited)
            await side.tell("filters_changed", "undefined")
            await side.tell("delete", first)
            await side.tell("update", "no status")
            await until(lambda: len(seen.frames) == 4)
        return seen

    seen = asyncio.run(story())
    posted, update, delete, odd = seen.frames
    values = [json.loads(value) for value in seen.values()]
    assert values[0] == {"event": "update", "payload": status(first)}
    assert (posted.key, posted.cursor) == (first.encode(), first)
    assert values[1] == {"event": "status.update", "payload": json.loads(edited)}
    assert (update.key, update.cursor) == (status_id(0).encode(), first)
    assert values[2] == {"event": "delete", "payload": first}
    assert delete.key == first.encode()
    assert isinstance(read_post(delete.value), PassedOver)
    assert not isinstance(read_post(odd.value), Post | PassedOver)  # a dead letter says what it was


def test_a_web_socket_brings_the_same() -> None:
    first = status_id(1)

    async def story() -> Followed:
        async with standing() as side, following(made(side, socket=True)) as seen:
            await until(lambda: len(side.urls("/api/v1/timelines")) == 3)
            await side.post(first)
            await side.tell("delete", first)
            await side.sockets[0].send_str("no JSON")
            await until(lambda: len(seen.frames) == 3)
        return seen

    posted, delete, odd = asyncio.run(story()).frames
    event = {"stream": ["public"], "event": "update", "payload": json.dumps(status(first))}
    assert json.loads(posted.value) == event
    assert (posted.key, posted.cursor) == (first.encode(), first)
    assert ids([posted]) == [first]
    assert delete.key == first.encode()
    assert isinstance(read_post(delete.value), PassedOver)
    assert odd.value == b"no JSON"


@pytest.mark.parametrize(
    ("token", "stream", "said"),
    [("stale", "public", "401 .*Invalid access token"), (TOKEN, "public:local", "Unknown stream")],
)
def test_a_web_socket_that_is_refused_ends_the_command(token: str, stream: str, said: str) -> None:
    async def story() -> None:
        async with standing() as side:
            url = side.url.with_scheme("ws").with_path(STREAMING)
            source = Mastodon(stream_address(str(url), stream, None), Secret(token))
            async with session(30) as client:
                async for _ in source.arrivals(client, None):
                    pass

    with pytest.raises(AccessError, match=said):
        asyncio.run(story())


async def troubled(side: FakeInstance, seen: Followed, chance: random.Random) -> int:
    """Statuses and faults in an order that chance gives; how many statuses there were."""
    count = 0
    for _ in range(12):
        fault = chance.choice(["cut", "half", "end", "busy", "limited"])
        await asyncio.wait_for(side.opened.wait(), 30)
        for _ in range(chance.randrange(4)):
            count += 1
            await side.post(status_id(count))
        if fault == "half":
            await side.write(b'event: update\ndata: {"id": "1')
        if fault == "busy":
            side.answers.append((chance.choice(["/api/v1", "/api/v2"]), web.Response(status=503)))
        if fault == "limited":
            headers = {**side.limits(), "Retry-After": "3"}
            side.answers.append(("/api/v1/timelines", web.Response(status=429, headers=headers)))
        (side.end if fault == "end" else side.cut)()
        for _ in range(chance.choice([0, 1, 39, 40, 41, 100])):
            count += 1
            await side.post(status_id(count))
    await until(lambda: len(seen.keyed()) >= count)
    return count


@pytest.mark.parametrize("socket", [False, True], ids=["sent events", "web socket"])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_missing_and_nothing_comes_twice_or_before_its_turn(
    seed: int, socket: bool
) -> None:
    async def story() -> tuple[Followed, int]:
        async with standing() as side, following(made(side, socket=socket)) as seen:
            count = await troubled(side, seen, random.Random(seed))
        return seen, count

    seen, count = asyncio.run(story())
    assert ids(seen.frames) == [status_id(second) for second in range(1, count + 1)]
    assert [frame.cursor for frame in seen.frames] == ids(seen.frames)
    assert not seen.gaps
    assert {lost.reason for lost in seen.lost} <= {CLOSED, BUSY, LIMITED, "unreachable"}


def small(number: float) -> str:
    return str(round(number))


@pytest.mark.parametrize("name", [status_id, small], ids=["ids with time", "ids without"])
def test_after_a_crash_nothing_is_missing_wherever_it_was(name: Callable[[float], str]) -> None:
    """Disorder included: a status of another server has the id of its time, and comes later."""
    order = [1, 2, 5, 3, 4, 6, 9, 7, 8, 10]

    async def story(acknowledged: int) -> tuple[list[str], list[str]]:
        async with standing() as side:
            async with following(made(side)) as before:
                await until(lambda: before.noted)
                await side.post(*[name(number) for number in order])
                await until(lambda: len(before.frames) == len(order))
            side.cut()
            await side.post(name(11))
            mark = before.mark(made(side).place, acknowledged)
            async with following(made(side), mark) as after:
                await until(lambda: name(11) in after.keyed())
            return ids(before.frames[:acknowledged]), ids(after.frames)

    for acknowledged in range(1, len(order) + 1):
        kept, given = asyncio.run(story(acknowledged))
        assert set(kept) | set(given) == {name(number) for number in range(1, 12)}


def test_a_timeline_that_fails_does_not_keep_the_stream_from_beginning() -> None:
    async def story() -> Followed:
        async with standing() as side:
            await side.post(status_id(1))
            side.answers.append(("/api/v1/timelines", web.Response(status=500)))
            async with following(made(side)) as seen:
                await side.opened.wait()
                await until(lambda: not side.answers)
                await side.post(status_id(2))
                await until(lambda: seen.frames)
        return seen

    seen = asyncio.run(story())
    assert (ids(seen.frames), seen.lost) == ([status_id(2)], [])
