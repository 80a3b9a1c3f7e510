import asyncio
import json
import random
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from newsift.collect.source import ANNOUNCED, BUSY, CLOSED, LIMITED, UNREACHABLE, LostError
from newsift.collect.x import XStream, parse_post_id, refusal_error, time_of_id
from tests.newsift.collect.fake_x import DISCONNECT, TOKEN, FakeX, make_tweet, serve_x, tweet_id
from tests.newsift.collect.running_collector import first_of, follow
from worker.config.secret import Secret
from worker.errors import AccessError
from worker.posts.read import Post, read_post

VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.text(max_size=30), st.integers(), st.just([{}]), st.just({})
)
KEYS = st.sampled_from(["data", "errors", "title", "type", "disconnect_type", "connection_issue"])
LINES = st.one_of(
    st.binary(max_size=60),
    st.dictionaries(KEYS, VALUES).map(lambda body: json.dumps(body).encode()),
    VALUES.map(lambda id: json.dumps({"data": {"id": id}}).encode()),
    st.just(b'{"errors":' + b"[" * 100_000),
)


@given(LINES)
def test_any_line_has_an_id_or_none(line: bytes) -> None:
    with suppress(LostError):
        id = parse_post_id(line, "x.example")
        assert id is None or (len(id) < 20 and id.isdigit())


@given(st.sampled_from([400, 403, 420, 429, 500, 503]), LINES)
def test_any_answer_is_an_error(status: int, body: bytes) -> None:
    result = refusal_error(status, {"x-rate-limit-reset": "soon"}, body, "x.example")
    assert isinstance(result, AccessError | LostError)
    assert str(result).isprintable()


def test_an_id_holds_its_time() -> None:
    """The example of X's manual, with its `created_at`."""
    made = time_of_id("1212092628029698048")
    assert made is not None
    assert int(made) == datetime(2019, 12, 31, 19, 26, 16, tzinfo=UTC).timestamp()
    assert time_of_id("20") is None


def source(side: FakeX) -> XStream:
    return XStream(str(side.url), Secret(TOKEN))


async def test_posts_come_as_the_platform_sent_them() -> None:
    async with serve_x() as side, follow(source(side)) as follower:
        await side.opened.wait()
        await side.write(b"\r\n")
        await side.post(tweet_id(2), tweet_id(1))
        await side.line({"something": "new"})
        await follower.until(lambda: len(follower.frames) == 3)
    late, early, new = follower.frames
    assert late.value == json.dumps(make_tweet(tweet_id(2)), separators=(",", ":")).encode()
    assert [late.key, early.key, new.key] == [tweet_id(2).encode(), tweet_id(1).encode(), None]
    assert {frame.cursor for frame in follower.frames} == {tweet_id(2)}  # the newest, however late
    assert late.at == 1_790_000_002.0
    post = read_post(late.value)
    assert isinstance(post, Post)
    assert (post.id, post.author) == (tweet_id(2), "anna")
    query = side.requests[0].query
    fields = {"created_at", "lang", "note_tweet", "author_id", "referenced_tweets"}
    assert fields <= set(query["tweet.fields"].split(","))
    assert "referenced_tweets.id.author_id" in query["expansions"]


@pytest.mark.parametrize("seed", range(4))
async def test_nothing_that_was_sent_is_missing_and_each_gap_is_reported(seed: int) -> None:
    """X sends a post to the stream that is open, and to nobody else: what was sent has to come."""
    chance = random.Random(seed)
    sent, ends = list[str](), 0
    async with serve_x() as side, follow(source(side)) as follower:
        for round in range(10):
            await asyncio.wait_for(side.opened.wait(), 30)
            ids = [tweet_id(10 * round + n) for n in range(chance.randrange(1, 5))]
            chance.shuffle(ids)
            await side.post(*ids, *ids[: chance.randrange(2)])  # duplicates may occur
            sent.extend(ids)
            await follower.until(lambda: set(sent) <= set(follower.outlet.keys))
            end = chance.choice([side.cut, side.end])
            last = chance.choice(["", "half", "caught"])
            if last == "half":
                await side.write(b'{"data":{"id":"12')
            if last == "caught":
                await side.line(DISCONNECT)
            if chance.random() < 0.3:
                side.answers.append(("stream", web.Response(status=503)))
            end()
            ends += 1
        await follower.until(lambda: len(follower.outlet.gaps) == ends)
    assert set(follower.outlet.keys) == set(sent)
    assert all(isinstance(read_post(frame.value), Post) for frame in follower.frames)
    assert len(follower.outlet.gaps) == ends
    reasons = {lost.reason for lost in follower.collector.lost}
    assert reasons <= {CLOSED, BUSY, ANNOUNCED, UNREACHABLE}


async def test_a_post_beside_a_disconnect_is_not_lost() -> None:
    async with serve_x() as side, follow(source(side)) as follower:
        await side.opened.wait()
        parts = [json.dumps(body).encode() for body in (make_tweet(tweet_id(1)), DISCONNECT)]
        await side.write(b"\r\n".join([*parts, b""]))
        await follower.until(lambda: follower.collector.lost)
    assert follower.outlet.keys == [tweet_id(1)]
    assert follower.collector.lost[0].reason == ANNOUNCED
    assert "UpstreamOperationalDisconnect" in str(follower.collector.lost[0])


@pytest.mark.parametrize(
    ("status", "body", "remedy"),
    [
        (400, {"title": "Invalid Request"}, "Invalid Request"),
        (401, {"title": "Unauthorized"}, "bearer token"),
        (403, {"title": "Client Forbidden", "detail": "Not enrolled"}, "Not enrolled.*access"),
        (409, {"title": "ConnectionException"}, "set rules at X"),
    ],
)
async def test_a_refusal_names_the_remedy(status: int, body: dict[str, str], remedy: str) -> None:
    async with serve_x() as side:
        side.answers.append(("stream", web.json_response(body, status=status)))
        with pytest.raises(AccessError, match=f"{status}.*{remedy}") as caught:
            await first_of(source(side))
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "headers", "wait"),
    [
        (420, {}, 0),
        (429, {"x-rate-limit-remaining": "48", "x-rate-limit-reset": "1"}, 0),
        (429, {"x-rate-limit-remaining": "0", "x-rate-limit-reset": "1000"}, 400),
        (429, {"Retry-After": "7"}, 7),
    ],
)
async def test_waits_as_long_as_x_asks_for(
    status: int, headers: dict[str, str], wait: float
) -> None:
    dated = {"Date": "Thu, 01 Jan 1970 00:10:00 GMT", **headers}
    async with serve_x() as side:
        side.answers.append(("stream", web.json_response({}, status=status, headers=dated)))
        with pytest.raises(LostError) as caught:
            await first_of(source(side))
    assert (caught.value.reason, caught.value.wait) == (LIMITED, wait)


@pytest.mark.parametrize(
    ("reason", "pauses"),
    [(CLOSED, [0.0, 0.25, 0.5]), (BUSY, [5.0, 10.0, 20.0]), (LIMITED, [60.0, 120.0, 240.0])],
)
def test_pauses_are_those_that_x_asks_for(reason: str, pauses: list[float]) -> None:
    backoff = XStream("https://x.example/s", Secret("t")).backoff(LostError(reason, ""))
    assert [backoff.pause() for _ in pauses] == pauses
    most = max(backoff.pause() for _ in range(100))
    assert most == {BUSY: 320.0, LIMITED: 960.0}.get(reason, 16.0)
