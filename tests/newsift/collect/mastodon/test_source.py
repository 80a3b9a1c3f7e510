"""Events and ids of strangers: no bytes of theirs stop the collector, nor grow a key."""

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError
from newsift.collect.mastodon import (
    Feed,
    Mastodon,
    MastodonEvent,
    Newest,
    event_value,
    id_before,
    order,
    status_identity,
    statuses,
    stream_address,
    time_of_id,
)
from newsift.collect.source import BUSY, CLOSED, LIMITED, LostError
from newsift.web.client import client_session, limits
from tests.newsift.collect.following import Followed, first_of, following, until
from tests.newsift.collect.mastodon.instance_side import (
    TOKEN,
    FakeInstance,
    standing,
    status,
    status_id,
)
from tests.newsift.collect.mastodon.playing import STREAMING, ids, made
from worker.config.secret import Secret
from worker.errors import AccessError
from worker.posts.read import PassedOver, Post, read_post

NAMES = st.sampled_from(["update", "status.update", "delete", "announcement", "ü\n"])
IDS = st.one_of(st.text(), st.integers(), st.none(), st.from_regex(r"[0-9]{1,80}", fullmatch=True))
DATA = st.one_of(
    st.binary(max_size=60),
    IDS.map(lambda id: json.dumps({"id": id, "content": "a", "uri": "b"}).encode()),
    st.just(b"[" * 100_000),
)


@given(st.lists(st.tuples(NAMES, DATA), max_size=8))
def test_no_event_is_too_odd(events: list[tuple[str, bytes]]) -> None:
    newest = Newest()
    for name, data in events:
        frame = newest.event(MastodonEvent(name, data, event_value(name, data)))
        if frame is not None:
            assert len(frame.key or b"") <= 64
            assert isinstance(json.loads(frame.value), dict)
            read_post(frame.value)


@given(st.lists(st.integers(1, 10**18), unique=True, max_size=20))
def test_ids_are_in_the_order_of_their_numbers(numbers: list[int]) -> None:
    ids = sorted(map(str, numbers), key=order)
    assert [int(id) for id in ids] == sorted(numbers)


@given(st.integers(0, 10**9), st.integers(0, 10**6))
def test_an_id_holds_its_time(second: int, seconds: int) -> None:
    id = status_id(second)
    assert time_of_id(id) == 1_790_000_000 + second
    assert time_of_id(id_before(id, seconds)) == 1_790_000_000 + second - seconds


@pytest.mark.parametrize("id", ["17", "9yCjTtfzBxBqvbmXsm"])
def test_an_id_without_time_stays(id: str) -> None:
    assert time_of_id(id) is None
    assert id_before(id, 60) == id


def test_a_status_comes_once() -> None:
    newest, one = Newest(), json.dumps(status(status_id(1))).encode()
    id = status_identity(one)
    assert id == status_id(1)
    assert newest.status(one, id) is not None
    assert newest.status(one, id) is None


@given(st.lists(st.integers(1, 10**18), max_size=50))
def test_a_page_is_read_oldest_first(numbers: list[int]) -> None:
    body = json.dumps([{"id": str(number)} for number in numbers] + [{}, {"id": "a b"}]).encode()
    found = statuses(body, "m.example")
    assert [int(id) for id, _ in found] == sorted(numbers)
    assert [json.loads(value)["id"] for _, value in found] == [id for id, _ in found]


@pytest.mark.parametrize("body", [b"", b"{}", b"<html>", b"[" * 100_000])
def test_what_is_no_page_ends_the_connection(body: bytes) -> None:
    with pytest.raises(LostError, match="not as documented"):
        statuses(body, "m.example")


OPEN = {"local": "public", "remote": "authenticated"}
NO_REMOTE = {"local": "public", "remote": "disabled"}


def stream_of(side: FakeInstance, stream: str, token: str = TOKEN) -> Mastodon:
    tag = "#Fähre" if stream.startswith("hashtag") else None
    return Mastodon(stream_address(str(side.url), stream, tag), Secret(token))


@pytest.mark.parametrize(
    ("stream", "access", "said"),
    [
        ("public", NO_REMOTE, "live_feeds.remote: disabled.*public:local"),
        ("public", dict.fromkeys(OPEN, "disabled"), "local.*remote: disabled.*another instance"),
        ("public", "disabled", "live_feeds"),
        ("public:remote", NO_REMOTE, "live_feeds.remote"),
        ("hashtag", NO_REMOTE, "hashtag_feeds.remote"),
    ],
)
def test_a_stream_that_is_shown_to_nobody_is_refused(stream: str, access: Any, said: str) -> None:
    async def story() -> None:
        async with standing() as side:
            side.access = access
            await first_of(stream_of(side, stream))

    with pytest.raises(AccessError, match=said):
        asyncio.run(story())


@pytest.mark.parametrize(
    ("stream", "access", "path"),
    [
        ("public", OPEN, "/api/v1/streaming/public"),
        ("public:local", NO_REMOTE, "/api/v1/streaming/public/local"),
        ("public:remote", OPEN, "/api/v1/streaming/public/remote"),
        ("hashtag", OPEN, "/api/v1/streaming/hashtag?tag=F%C3%A4hre"),
        ("hashtag:local", NO_REMOTE, "/api/v1/streaming/hashtag/local?tag=F%C3%A4hre"),
        ("public", None, "/api/v1/streaming/public"),  # before 4.5 it said nothing on access
    ],
)
def test_a_stream_stands_where_it_is_documented(stream: str, access: Any, path: str) -> None:
    async def story() -> str:
        async with standing() as side:
            side.access = access
            async with following(stream_of(side, stream)) as seen:
                await side.opened.wait()
                await side.post(status_id(1))
                await until(lambda: seen.frames)
            timeline = str(side.urls("/api/v1/timelines")[0].raw_path)
            half = stream.partition(":")[2]
            shown = side.urls("/api/v1/timelines")[0].query
            assert shown.get("local") == ("true" if half == "local" else None)
            assert shown.get("remote") == ("true" if half == "remote" else None)
            assert timeline.endswith("/tag/F%C3%A4hre" if "tag" in stream else "/public")
            return str(side.urls("/api/v1/streaming")[0].raw_path_qs)

    assert asyncio.run(story()) == path


def test_a_server_without_the_document_is_streamed_from_all_the_same() -> None:
    async def story() -> None:
        async with standing() as side:
            side.document = None
            async with following(stream_of(side, "public")):
                await side.opened.wait()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("code", "remedy"), [(401, "user token"), (403, "user token"), (410, "address of a Mastodon")]
)
def test_an_instance_that_refuses_says_what_helps(code: int, remedy: str) -> None:
    async def story() -> None:
        async with standing() as side:
            said = web.json_response({"error": "Not for you"}, status=code)
            side.answers.append(("/api/v2/instance", said))
            await first_of(stream_of(side, "public"))

    with pytest.raises(AccessError, match=rf"{code} .*Not for you.*{remedy}"):
        asyncio.run(story())


def test_a_token_is_refused_in_one_line_that_does_not_hold_it() -> None:
    async def story() -> None:
        async with standing() as side:
            await first_of(stream_of(side, "public", "a-stale-token"))

    with pytest.raises(AccessError, match=r"401 .*user token") as told:
        asyncio.run(story())
    assert "stale" not in str(told.value)


@pytest.mark.parametrize(
    ("url", "stream", "tag", "feed", "exact"),
    [
        ("https://m.example", None, None, Feed("public"), None),
        ("wss://m.example/", "public:local", None, Feed("public:local"), None),
        ("https://m.example", "hashtag", "#a", Feed("hashtag", "a"), None),
        ("http://m.example:81/api/v1/streaming/public/local", None, None, Feed("public:local"),
         "http://m.example:81/api/v1/streaming/public/local"),
        ("wss://m.example/api/v1/streaming?stream=hashtag&tag=a", None, None,
         Feed("hashtag", "a"), "wss://m.example/api/v1/streaming?stream=hashtag&tag=a"),
        ("ws://m.example/api/v1/streaming", None, None, Feed("public"),
         "ws://m.example/api/v1/streaming?stream=public"),
        ("https://m.example/api/v1/streaming?stream=public:local", None, None,
         Feed("public:local"), "https://m.example/api/v1/streaming/public/local"),
        ("https://m.example/other?x=1", "public", None, Feed("public"),
         "https://m.example/other?x=1"),
    ],
)  # fmt: skip
def test_an_address_is_an_instance_or_a_stream_of_one(
    url: str, stream: str | None, tag: str | None, feed: Feed, exact: str | None
) -> None:
    found = stream_address(url, stream, tag)
    assert (found.feed, str(found.exact or "") or None) == (feed, exact)
    assert found.place in ("m.example", "m.example:81")


@pytest.mark.parametrize(
    ("url", "stream", "tag", "said"),
    [
        ("ftp://m.example", None, None, "--url"),
        ("https://m.example", "home", None, "--stream"),
        ("https://m.example", "hashtag", None, "--tag NAME"),
        ("https://m.example", "public", "a", "--tag"),
        ("https://m.example/api/v1/streaming/public", "public:local", None, "--stream"),
        ("https://m.example/api/v1/streaming/hashtag", None, None, "--tag NAME"),
    ],
)
def test_an_address_that_says_no_stream_is_refused(
    url: str, stream: str | None, tag: str | None, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        stream_address(url, stream, tag)


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
            async with client_session(limits(30)) as client:
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
