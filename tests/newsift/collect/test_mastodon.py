import asyncio
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from newsift.collect.mastodon import (
    STREAMING_PATH,
    Instance,
    Mastodon,
    MastodonEvent,
    PublicStream,
    RecentStatuses,
    event_value,
    stream_address,
)
from newsift.collect.mastodon_timeline import id_before, parse_statuses, time_of_id
from newsift.collect.source import BUSY, CLOSED, LIMITED, MALFORMED, STALLED, SourcePosition
from newsift.web.client import client_session, stream_timeout
from tests.newsift.collect.fake_mastodon import (
    TOKEN,
    FakeInstance,
    make_status,
    serve_instance,
    status_id,
)
from tests.newsift.collect.running_collector import first_of, follow
from worker.config.secret import Secret
from worker.errors import AccessError
from worker.posts.read import PassedOver, Post, read_post

PUBLIC = f"{STREAMING_PATH}/public"


def source_of(
    side: FakeInstance, socket: bool = False, stall_s: float = 20.0, max_pages: int = 100
) -> Mastodon:
    whole = side.url.with_scheme("ws").with_path(STREAMING_PATH) if socket else side.url
    address = stream_address(str(whole), None, None)
    return Mastodon(address, Secret(TOKEN), stall_s, max_pages)


def ids(frames: Sequence[Any]) -> list[str]:
    result = [read_post(frame.value) for frame in frames]
    assert all(isinstance(post, Post) for post in result), result
    return [post.id for post in result if isinstance(post, Post)]


NAMES = st.sampled_from(["update", "status.update", "delete", "announcement", "ü\n"])
IDS = st.one_of(st.text(), st.integers(), st.none(), st.from_regex(r"[0-9]{1,80}", fullmatch=True))
DATA = st.one_of(
    st.binary(max_size=60),
    IDS.map(lambda id: json.dumps({"id": id, "content": "a", "uri": "b"}).encode()),
    st.just(b"[" * 100_000),
)


@given(st.lists(st.tuples(NAMES, DATA), max_size=8))
def test_any_event_is_a_frame_or_nothing(events: list[tuple[str, bytes]]) -> None:
    seen = RecentStatuses("m.example")
    for name, data in events:
        frame = seen.event_frame(MastodonEvent(name, data, event_value(name, data)))
        if frame is not None:
            assert len(frame.key or b"") <= 64
            assert frame.headers == (("instance", b"m.example"),)
            assert isinstance(json.loads(frame.value), dict)
            read_post(frame.value)


@given(st.integers(0, 10**9), st.integers(0, 10**6))
def test_an_id_holds_its_time(second: int, seconds: int) -> None:
    id = status_id(second)
    assert time_of_id(id) == 1_790_000_000 + second
    assert time_of_id(id_before(id, seconds)) == 1_790_000_000 + second - seconds


@given(st.lists(st.integers(1, 10**18), max_size=50))
def test_a_page_is_read_oldest_first(numbers: list[int]) -> None:
    body = json.dumps([{"id": str(number)} for number in numbers] + [{}, {"id": "a b"}]).encode()
    result = parse_statuses(body, "m.example")
    assert [int(id) for id, _ in result] == sorted(numbers)
    assert [json.loads(value)["id"] for _, value in result] == [id for id, _ in result]


@pytest.mark.parametrize(
    ("url", "stream", "tag", "public_stream", "stream_url"),
    [
        ("https://m.example", None, None, PublicStream("public"), None),
        ("wss://m.example/", "public:local", None, PublicStream("public:local"), None),
        ("https://m.example", "hashtag", "#a", PublicStream("hashtag", "a"), None),
        ("http://m.example:81/api/v1/streaming/public/local", None, None,
         PublicStream("public:local"),
         "http://m.example:81/api/v1/streaming/public/local"),
        ("wss://m.example/api/v1/streaming?stream=hashtag&tag=a", None, None,
         PublicStream("hashtag", "a"), "wss://m.example/api/v1/streaming?stream=hashtag&tag=a"),
        ("https://m.example/other?x=1", "public", None, PublicStream("public"),
         "https://m.example/other?x=1"),
    ],
)  # fmt: skip
def test_an_address_is_an_instance_or_a_stream_of_one(
    url: str,
    stream: str | None,
    tag: str | None,
    public_stream: PublicStream,
    stream_url: str | None,
) -> None:
    result = stream_address(url, stream, tag)
    assert (result.stream, str(result.stream_url or "") or None) == (public_stream, stream_url)
    assert result.host.host == "m.example"


async def test_events_come_as_the_platform_sent_them() -> None:
    first, edited = status_id(1), json.dumps(make_status(status_id(0), "edited"))
    async with serve_instance() as side, follow(source_of(side)) as follower:
        await follower.until(lambda: len(side.urls("/api/v1/timelines")) == 3)  # then it streams
        await side.write(b":thump\n")
        await side.post(first)
        await side.tell("status.update", edited)
        await side.tell("filters_changed", "undefined")
        await side.tell("delete", first)
        await side.tell("update", "no status")
        await follower.until(lambda: len(follower.frames) == 4)
    posted, update, delete, odd = follower.frames
    values = [json.loads(frame.value) for frame in follower.frames]
    assert values[0] == {"event": "update", "payload": make_status(first)}
    assert (posted.key, posted.cursor) == (first.encode(), first)
    assert values[1] == {"event": "status.update", "payload": json.loads(edited)}
    assert (update.key, update.cursor) == (status_id(0).encode(), first)
    assert values[2] == {"event": "delete", "payload": first}
    assert delete.key == first.encode()
    assert isinstance(read_post(delete.value), PassedOver)
    assert not isinstance(read_post(odd.value), Post | PassedOver)  # a dead letter says what it was


@pytest.mark.parametrize(
    ("token", "stream", "message"),
    [("stale", "public", "401 .*Invalid access token"), (TOKEN, "public:local", "Unknown stream")],
)
async def test_a_web_socket_that_is_refused_ends_it(token: str, stream: str, message: str) -> None:
    async with serve_instance() as side, client_session(stream_timeout(30)) as client:
        url = side.url.with_scheme("ws").with_path(STREAMING_PATH)
        source = Mastodon(stream_address(str(url), stream, None), Secret(token))
        with pytest.raises(AccessError, match=message):
            async for _ in source.arrivals(client, None):
                pass


@pytest.mark.parametrize("socket", [False, True], ids=["sent events", "web socket"])
@pytest.mark.parametrize("seed", range(4))
async def test_nothing_is_missing_repeated_or_out_of_order(seed: int, socket: bool) -> None:
    """Statuses and faults come in an order that chance gives."""
    chance, count = random.Random(seed), 0
    async with serve_instance() as side, follow(source_of(side, socket)) as follower:
        for _ in range(12):
            fault = chance.choice(["cut", "half", "end", "busy", "limited"])
            await asyncio.wait_for(side.opened.wait(), 30)
            for _ in range(chance.randrange(4)):
                count += 1
                await side.post(status_id(count))
            if fault == "half":
                await side.write(b'event: update\ndata: {"id": "1')
            if fault == "busy":
                path = chance.choice(["/api/v1", "/api/v2"])
                side.answers.append((path, web.Response(status=503)))
            if fault == "limited":
                limited = web.Response(status=429, headers=side.limits() | {"Retry-After": "3"})
                side.answers.append(("/api/v1/timelines", limited))
            (side.end if fault == "end" else side.cut)()
            for _ in range(chance.choice([0, 1, 39, 40, 41, 100])):
                count += 1
                await side.post(status_id(count))
        await follower.until(lambda: len(follower.outlet.keys) >= count)
    assert ids(follower.frames) == [status_id(second) for second in range(1, count + 1)]
    assert [frame.cursor for frame in follower.frames] == ids(follower.frames)
    assert not follower.outlet.gaps
    reasons = {lost.reason for lost in follower.collector.lost}
    assert reasons <= {CLOSED, BUSY, LIMITED, "unreachable"}


@pytest.mark.parametrize("name", [status_id, "{:.0f}".format], ids=["ids with time", "ids without"])
@pytest.mark.parametrize("acknowledged", range(1, 11))
async def test_a_crash_loses_nothing(name: Callable[[float], str], acknowledged: int) -> None:
    """Disorder included: a status of another server has the id of its time, and comes later."""
    order = [1, 2, 5, 3, 4, 6, 9, 7, 8, 10]
    async with serve_instance() as side:
        async with follow(source_of(side)) as before:
            await before.until(lambda: before.outlet.frames)  # the cursor alone
            await side.post(*[name(number) for number in order])
            await before.until(lambda: len(before.frames) == len(order))
        side.cut()
        await side.post(name(11))
        last = before.frames[acknowledged - 1].cursor
        assert last is not None
        position = SourcePosition(last, source_of(side).place)
        async with follow(source_of(side), position) as after:
            await after.until(lambda: name(11) in after.outlet.keys)
    result = {*ids(before.frames[:acknowledged]), *ids(after.frames)}
    assert result == {name(number) for number in range(1, 12)}


OPEN = {"local": "public", "remote": "authenticated"}
NO_REMOTE = {"local": "public", "remote": "disabled"}


def instance(access: Any) -> Instance:
    shown = {"live_feeds": access, "hashtag_feeds": access}
    return msgspec.convert({"configuration": {"timelines_access": shown}}, Instance)


def public_stream(name: str) -> PublicStream:
    return PublicStream(name, "Fähre" if name.startswith("hashtag") else "")


@pytest.mark.parametrize(
    ("stream", "access", "words"),
    [
        ("public", NO_REMOTE, "live_feeds.remote: disabled.*public:local"),
        ("public", "disabled", "live_feeds"),
        ("hashtag", NO_REMOTE, "hashtag_feeds.remote"),
    ],
)
def test_refuses_a_stream_that_is_disabled(stream: str, access: Any, words: str) -> None:
    with pytest.raises(AccessError, match=words):
        instance(access).require_enabled(public_stream(stream), "m.example")


@pytest.mark.parametrize(
    ("stream", "access", "path", "timeline"),
    [
        ("public", OPEN, "/public", "/public"),
        ("public:local", NO_REMOTE, "/public/local", "/public?local=true"),
        ("hashtag", OPEN, "/hashtag?tag=F%C3%A4hre", "/tag/F%C3%A4hre"),
        ("hashtag:local", NO_REMOTE, "/hashtag/local?tag=F%C3%A4hre",
         "/tag/F%C3%A4hre?local=true"),
        ("public", None, "/public", "/public"),  # before 4.5 it said nothing on access
    ],
)  # fmt: skip
def test_the_addresses_of_a_stream(stream: str, access: Any, path: str, timeline: str) -> None:
    named, host = public_stream(stream), URL("https://m.example")
    instance(access).require_enabled(named, "m.example")
    assert str(named.url(host).raw_path_qs) == f"/api/v1/streaming{path}"
    assert str(named.timeline(host).raw_path_qs) == f"/api/v1/timelines{timeline}"


@pytest.mark.parametrize(
    ("path", "code", "remedy"),
    [
        ("/api/v2/instance", 401, "user token"),
        ("/api/v2/instance", 410, "address of a Mastodon"),
        (PUBLIC, 403, "user token"),
    ],
)
async def test_a_refusal_names_the_remedy(path: str, code: int, remedy: str) -> None:
    async with serve_instance() as side:
        side.answers.append((path, web.json_response({"error": "Not for you"}, status=code)))
        with pytest.raises(AccessError, match=rf"{code} .*Not for you.*{remedy}") as caught:
            await first_of(source_of(side))
    assert TOKEN not in str(caught.value)


async def test_more_pages_than_the_limit_are_a_gap() -> None:
    position = status_id(0)
    async with serve_instance() as side:
        await side.post(*[status_id(second) for second in range(1, 301)])
        start = SourcePosition(position, side.url.authority, 1.0)
        async with follow(source_of(side, max_pages=2), start) as follower:
            await follower.until(lambda: follower.outlet.gaps)
            await side.post(status_id(301))
            await follower.until(lambda: status_id(301) in follower.outlet.keys)
    assert ids(follower.frames) == [status_id(second) for second in [*range(1, 81), 301]]
    [gap] = follower.outlet.gaps
    assert gap.seconds is not None


async def test_a_timeline_that_ignores_min_id_is_a_gap() -> None:
    newest = [{"id": status_id(second)} for second in range(61, 101)]
    async with serve_instance() as side:
        answers = [web.json_response(newest[::-1]) for _ in range(9)]
        side.answers += [("/api/v1/timelines", answer) for answer in answers]
        start = SourcePosition(status_id(0), side.url.authority)
        async with follow(source_of(side), start) as follower:
            await follower.until(lambda: follower.outlet.gaps)
    assert follower.outlet.keys == [status["id"] for status in newest]


async def test_the_state_of_another_instance_is_one_gap() -> None:
    """Nothing is known here: there is no timeline, and no post comes."""
    async with serve_instance() as side:
        gone = [web.Response(status=404) for _ in range(20)]
        side.answers += [("/api/v1/timelines", answer) for answer in gone]
        position = SourcePosition(status_id(0), "other.example", 1.0)
        async with follow(source_of(side), position) as follower:
            for count in range(1, 4):
                await side.opened.wait()
                await follower.until(lambda: follower.outlet.gaps)
                side.cut()
                await follower.until(lambda n=count: len(follower.collector.lost) == n)  # type: ignore[misc]
            await side.opened.wait()
            await side.post(status_id(1))
            await follower.until(lambda: follower.outlet.keys == [status_id(1)])
    assert len(follower.outlet.gaps) == 1


async def test_a_status_above_the_limit_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsift.collect.mastodon_timeline.MAX_PAGE_BYTES", 20_000)
    async with serve_instance() as side:
        await side.post(*[status_id(second) for second in range(1, 4)])
        side.statuses[1] |= {"content": "x" * 20_000}
        start = SourcePosition(status_id(0), side.url.authority)
        async with follow(source_of(side), start) as follower:
            await follower.until(lambda: follower.outlet.gaps)
            await side.post(status_id(4))
            await follower.until(lambda: status_id(4) in follower.outlet.keys)
        assert not follower.collector.lost
    assert ids(follower.frames) == [status_id(1), status_id(4)]
    assert len(follower.outlet.gaps) == 1


async def test_a_token_does_not_follow_a_redirect_to_another_host() -> None:
    async with serve_instance() as side, serve_instance() as other:
        elsewhere = {"Location": str(other.url.with_path(PUBLIC))}
        side.answers.append((PUBLIC, web.Response(status=302, headers=elsewhere)))
        with pytest.raises(AccessError, match="answers 401"):
            await first_of(source_of(side))
    [request] = other.requests
    assert "Authorization" not in request.headers


async def test_tries_again_an_instance_that_does_not_describe_itself() -> None:
    async with serve_instance() as side:
        side.answers.append(("/api/v2", web.Response(text="<html>")))
        async with follow(source_of(side)) as follower:
            await follower.until(lambda: side.streams)
    assert [lost.reason for lost in follower.collector.lost] == [MALFORMED]


async def test_leaves_a_silent_stream() -> None:
    async with serve_instance() as side, follow(source_of(side, stall_s=0.2)) as follower:
        await follower.until(lambda: follower.collector.lost)
    assert follower.collector.lost[0].reason == STALLED


async def test_a_page_that_is_not_full_may_not_be_the_last() -> None:
    every = [status_id(second) for second in range(1, 151)]
    async with serve_instance() as side:
        side.hidden = {every[7], every[50]}
        await side.post(*every)
        start = SourcePosition(status_id(0), side.url.authority)
        async with follow(source_of(side), start) as follower:
            await follower.until(lambda: not all(frame.value for frame in follower.outlet.frames))
    assert ids(follower.frames) == [*every[:7], *every[8:50], *every[51:]]
