"""What an instance says of itself decides whether it is streamed from, and where."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from encoder.errors import InputError
from tests.worker.sources.following import first_of, following, until
from tests.worker.sources.mastodon.instance_side import TOKEN, FakeInstance, standing, status_id
from worker.config.secret import Secret
from worker.errors import AccessError
from worker.sources.mastodon.feeds import Feed, stream_address
from worker.sources.mastodon.source import Mastodon

OPEN = {"local": "public", "remote": "authenticated"}
NO_REMOTE = {"local": "public", "remote": "disabled"}


def made(side: FakeInstance, stream: str, token: str = TOKEN) -> Mastodon:
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
            await first_of(made(side, stream))

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
            async with following(made(side, stream)) as seen:
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
            async with following(made(side, "public")):
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
            await first_of(made(side, "public"))

    with pytest.raises(AccessError, match=rf"{code} .*Not for you.*{remedy}"):
        asyncio.run(story())


def test_a_token_is_refused_in_one_line_that_does_not_hold_it() -> None:
    async def story() -> None:
        async with standing() as side:
            await first_of(made(side, "public", "a-stale-token"))

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
