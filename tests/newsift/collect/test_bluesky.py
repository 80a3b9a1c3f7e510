import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from encoder.errors import InputError
from newsift.collect.bluesky import (
    MAX_CURSOR,
    MAX_KEY_BYTES,
    Bluesky,
    JetstreamHost,
    JetstreamNotice,
)
from newsift.collect.source import (
    BUSY,
    CLOSED,
    LIMITED,
    MALFORMED,
    STALLED,
    Backoff,
    SourceFrame,
    SourcePosition,
)
from tests.newsift.collect import fake_jetstream as jet
from tests.newsift.collect.fake_jetstream import JetstreamSide, address, after, serve_jetstream
from tests.newsift.collect.running_collector import Collecting, collecting
from worker.config import StreamConfig
from worker.errors import AccessError

HOSTS = {1: "wss://one.test/subscribe",
         2: "wss://two.test/xrpc/network.bsky.jetstream.subscribeEvents"}  # fmt: skip


def jetstream(version: int, *langs: str) -> JetstreamHost:
    return JetstreamHost(URL(HOSTS[version]), ("app.bsky.feed.post",), langs)


def read(version: int, message: Any, *langs: str) -> SourceFrame | JetstreamNotice:
    value = message if isinstance(message, bytes) else json.dumps(message).encode()
    return jetstream(version, *langs).parse(value)


@pytest.mark.parametrize("version", [1, 2])
def test_an_event_is_a_frame_with_its_address_its_cursor_and_its_time(version: int) -> None:
    value = jet.event(7, version).encode()
    at = (jet.BASE + 7 * jet.STEP) / 1e6
    cursor = jet.BASE + 7 * jet.STEP if version == 1 else 8
    assert read(version, value) == SourceFrame(value, address(7).encode(), cursor, at)


@pytest.mark.parametrize(
    ("version", "message", "key", "cursor"),
    [
        (1, {"did": "did:plc:a", "time_us": 5, "kind": "account", "account": {}}, b"did:plc:a", 5),
        (1, {"did": "d", "time_us": 5, "kind": "commit", "commit": {
            "operation": "delete", "collection": "c", "rkey": "k"}}, b"at://d/c/k", 5),
        (1, {"kind": "commit"}, None, None),
        (1, {"did": "d" * (MAX_KEY_BYTES + 1), "time_us": 5}, None, 5),
        (2, {"$type": "message", "payload": {"$type": f"{jet.LEXICON}sync", "seq": 5, "did": "d",
             "time": "2024-09-09T19:46:02.329308Z"}}, b"d", 5),
        (2, {"$type": "message", "payload": {"$type": f"{jet.LEXICON}commit", "seq": 5, "did": "d",
             "collection": "c", "rkey": "k"}}, b"at://d/c/k", 5),
        (2, {"$type": "other"}, None, None),
    ],
)  # fmt: skip
def test_other_events_are_frames_too(
    version: int, message: dict[str, Any], key: bytes | None, cursor: int | None
) -> None:
    result = read(version, message)
    assert isinstance(result, SourceFrame)
    assert (result.key, result.cursor) == (key, cursor)


@pytest.mark.parametrize("version", [1, 2])
def test_a_frame_that_is_nested_too_deep_is_passed_on(version: int) -> None:
    value = b'{"record": ' + b"[" * 99_999
    assert jetstream(version).parse(value) == SourceFrame(value)


@pytest.mark.parametrize("langs", [[], ["EN-us", "de"], ["en"], None])
def test_filters_posts_by_language(langs: list[str] | None) -> None:
    message = json.loads(jet.event(1, 1))
    message["commit"]["record"]["langs"] = langs
    result = read(1, message, "en")
    assert isinstance(result, SourceFrame)
    assert result.value
    other = read(1, message, "ja")
    assert isinstance(other, SourceFrame)
    assert bool(other.value) == (not langs)
    assert other.cursor == result.cursor


ODD = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
KEYS = ("did", "time_us", "commit", "collection", "rkey", "record", "langs", "$type", "payload",
        "seq", "time", "error", "name", "message")  # fmt: skip


@given(st.sampled_from([1, 2]), st.data())
def test_one_value_changed_does_no_harm(version: int, data: st.DataObject) -> None:
    message = json.loads(jet.event(3, version))
    place = message
    while True:
        key = data.draw(st.sampled_from([*KEYS, *place]))
        if not isinstance(place.get(key), dict) or data.draw(st.booleans()):
            place[key] = data.draw(ODD)
            break
        place = place[key]
    value = json.dumps(message).encode()
    result = read(version, value, "en")
    if isinstance(result, SourceFrame):
        assert result.value in (value, b"")
        assert result.cursor is None or 0 <= int(result.cursor) <= MAX_CURSOR


@pytest.mark.parametrize("cursor", ["", "abc", -1, 2**63, "5"])
def test_a_state_with_a_cursor_of_another_kind_is_refused(cursor: int | str) -> None:
    host = jetstream(1)
    with pytest.raises(InputError, match=r"^--state: the cursor .* delete the file"):
        host.cursor_after(SourcePosition(cursor, host.place))


async def test_a_host_that_asks_to_wait_holds_up_no_other() -> None:
    async with serve_jetstream(JetstreamSide(1, COUNT)) as side:
        other = JetstreamSide(1, 0)
        other.faults.append(jet.refuse_with(429, **{"Retry-After": "3000"}))
        side.faults.append(after(3, jet.abort))
        side.faults.append(jet.refuse_with(503))  # the turn of the other, still to be let alone
        async with serve_jetstream(other):
            async with collecting(source_of(other.url, side.url)) as result:
                await result.until(complete(result))
                assert result.counted("reconnects_total", reason=LIMITED) == 1
                assert result.counted("reconnects_total", reason=BUSY) == 1
            assert len(other.requests) == 1


async def test_two_hosts_that_refuse_end_it_and_one_that_is_not_there_does_not() -> None:
    async with serve_jetstream(JetstreamSide(1, COUNT)) as side:
        side.faults.extend([jet.refuse_with(403)] * 2)
        nobody = "ws://127.0.0.1:9/subscribe"
        async with collecting(source_of(side.url, nobody)) as result:
            await result.until(complete(result))
            assert result.counted("reconnects_total", reason=BUSY) == 2
        side.faults.extend([jet.refuse_with(403)] * 2)
        with pytest.raises(AccessError, match="answers 403"):
            async with collecting(source_of(side.url, f"{side.url}?x=1")) as result:
                await result.until(lambda: False)


async def unreadable(request: web.Request, _socket: web.WebSocketResponse) -> None:
    """A text that is not UTF-8."""
    assert request.transport is not None
    request.transport.write(b"\x81\x02\xff\xfe")
    await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "fault", [unreadable, lambda _, socket: socket.send_str("x" * 2**14)], ids=["bytes", "large"]
)
@pytest.mark.parametrize("version", [1, 2])
async def test_skips_a_bad_frame(
    version: int, fault: jet.End, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newsift.collect.bluesky.MAX_FRAME_BYTES", 2**13)
    async with serve_jetstream(JetstreamSide(version, COUNT)) as side:
        side.faults.extend([after(3, fault), *[after(1, fault)] * 2])
        async with collecting(source_of(side.url)) as result:
            await result.until(complete(result))
            assert result.counted("reconnects_total", reason=MALFORMED) == 3
            assert result.counted("gaps_total") == 1
        position = position_of(side, 2)
        assert position.at is not None
        assert side.cursors == [
            None, side.cursor_of(2), side.cursor_of(2), round((position.at + 1) * 1_000_000),
        ]  # fmt: skip


FAULTS: list[tuple[str, jet.Fault]] = [
    (CLOSED, after(5, jet.send_and_close())),
    (CLOSED, after(5, jet.abort)),
    (CLOSED, after(5, jet.half_a_frame)),
    (STALLED, after(5, jet.ping_in_silence)),
    (MALFORMED, after(5, jet.binary)),
    (LIMITED, jet.refuse_with(429)),
    (BUSY, jet.refuse_with(503)),
    (BUSY, jet.refuse_with(500, **{"Retry-After": "nonsense"})),
]
COUNT = 12


def source_of(*urls: str) -> Bluesky:
    return Bluesky(urls, (), (), 0.5)


def complete(result: Collecting) -> Callable[[], bool]:
    return lambda: {address(n) for n in range(COUNT)} <= set(result.outlet.keys)


def position_of(side: JetstreamSide, number: int, place: str | None = None) -> SourcePosition:
    here = f"127.0.0.1:{side.port}{side.path}"
    return SourcePosition(
        side.cursor_of(number), place or here, (jet.BASE + number * jet.STEP) / 1e6
    )


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("reason", "fault"), FAULTS)
async def test_a_fault_loses_nothing(version: int, reason: str, fault: jet.Fault) -> None:
    async with serve_jetstream(JetstreamSide(version, COUNT)) as side:
        side.faults.append(fault)
        async with collecting(source_of(side.url)) as result:
            await result.until(complete(result))
            assert result.counted("reconnects_total", reason=reason) == 1
            assert result.counted("gaps_total") == 0
        last = side.cursors[1]  # the second visit goes on where the first was acknowledged
        assert last in (None, side.cursor_of(4))
        assert result.outlet.positions[-1].cursor == side.cursor_of(COUNT - 1)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("at", "place", "floor"),
    [(7, None, 0), (2, None, 8), (5, "another.test:443/subscribe", 0)],
    ids=["inclusive", "deleted events", "another host"],
)
async def test_resumes_at_the_position_or_after_a_gap(
    version: int, at: int, place: str | None, floor: int
) -> None:
    """At another host by time, and a little earlier."""
    first = max(at, floor)
    async with serve_jetstream(JetstreamSide(version, COUNT)) as side:
        side.floor = floor
        url = side.url + ("?compress=" if version == 1 else "")  # v1 may deflate what it sends
        async with collecting(source_of(url), position_of(side, at, place)) as result:
            await result.until(lambda: address(COUNT - 1) in result.outlet.keys)
            assert result.counted("gaps_total") == (first > at)
            assert result.counted("gap_seconds_total") == (first - at) * jet.STEP / 1e6
        earlier = jet.BASE + at * jet.STEP - 10_000_000
        assert side.cursors[0] == (earlier if place else side.cursor_of(at))
        assert result.outlet.keys == [address(n) for n in range(first, COUNT)]
        assert [frame.value for frame in result.outlet.frames] == [
            text.encode() for text in side.events[first:]
        ]


@pytest.mark.parametrize(
    ("version", "query"),
    [
        (1, "wantedCollections=app.bsky.feed.post"),
        (2, "collections=app.bsky.feed.post&kinds=commit"),
    ],
)
def test_posts_are_requested_unless_the_address_says_otherwise(version: int, query: str) -> None:
    assert jetstream(version).url.query_string == query
    own = f"{query.partition('=')[0]}=app.bsky.feed.like"
    assert JetstreamHost(URL(f"{HOSTS[version]}?{own}"), ("a",), ()).url.query_string == own


MANY, ROUNDS, FAULTS_EACH = 300, 5, 3
SMALL = StreamConfig(batch_bytes=4096, in_flight=2, batch_posts=7, shutdown_s=2.1)


ENDS = (jet.send_and_close(), jet.abort, jet.half_a_frame, jet.fall_silent, jet.ping_in_silence)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(4))
async def test_nothing_is_missing(version: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsift.collect.collector.STORE_INTERVAL_S", 0.0005)
    chance = random.Random(seed)
    seen: set[str] = set()
    async with serve_jetstream(JetstreamSide(version, MANY)) as side:
        number = {side.cursor_of(n): n for n in range(MANY)}
        position: SourcePosition | None = None
        for lap in range(ROUNDS + 1):
            for _ in range(FAULTS_EACH):
                some = after(chance.randrange(60), chance.choice(ENDS))
                refusals = jet.refuse_with(429), jet.refuse_with(503)
                side.faults.append(chance.choice((some, some, some, *refusals)))
            source = Bluesky((side.url,), (), (), 0.05)
            pauses = Backoff(0.001, 0.01)
            source.backoff = lambda _, pauses=pauses: pauses  # type: ignore[misc, method-assign]
            async with collecting(source, position, SMALL) as result:
                if lap < ROUNDS:
                    frames = result.outlet.frames  # so many more are delivered before the crash
                    count = len(frames) + chance.randrange(10, 60)
                    while len(frames) < count and address(MANY - 1) not in result.outlet.keys:
                        if chance.random() < 0.2:  # the broker is now fast and now slow
                            result.outlet.free.clear()
                            await asyncio.sleep(0.002)
                            result.outlet.free.set()
                        if result.task.done():
                            result.task.result()
                        await asyncio.sleep(0.001)
                    result.outlet.free.clear()  # what is under way now is not acknowledged
                    await asyncio.sleep(0.02)
                    result.outlet.crashed = True
                    result.outlet.free.set()
                else:
                    await result.until(lambda: address(MANY - 1) in result.outlet.keys)
            assert result.metrics.gaps == 0
            seen.update(result.outlet.keys)
            position = result.outlet.positions[-1] if result.outlet.positions else position
            if position is not None:  # all that it passes over was delivered
                assert {address(n) for n in range(number[int(position.cursor)] + 1)} <= seen
    assert seen == {address(n) for n in range(MANY)}
