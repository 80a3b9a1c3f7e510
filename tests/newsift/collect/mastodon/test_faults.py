"""Streams that stall or are refused, limits of requests, and what cannot be filled."""

import asyncio
from types import SimpleNamespace

import pytest
from aiohttp import web

from newsift.collect.source import BUSY, CLOSED, LIMITED, MALFORMED, STALLED, LostError, SourceMark
from tests.newsift.collect.following import Followed, first_of, following, until
from tests.newsift.collect.mastodon.instance_side import FakeInstance, standing, status_id
from tests.newsift.collect.mastodon.playing import STREAMING, ids, made
from worker.errors import AccessError

PUBLIC = f"{STREAMING}/public"


def test_a_silent_stream_is_left() -> None:
    async def story() -> Followed:
        async with standing() as side, following(made(side, stall_s=0.2)) as seen:
            await side.opened.wait()
            await until(lambda: len(side.urls(PUBLIC)) > 2)
        return seen

    assert asyncio.run(story()).lost[0].reason == STALLED


def test_what_exceeds_the_limit_is_a_gap_and_the_stream_goes_on() -> None:
    mark = status_id(0)

    async def story() -> Followed:
        async with standing() as side:
            await side.post(*[status_id(second) for second in range(1, 301)])
            start = SourceMark(mark, side.url.authority, 1.0)
            async with following(made(side, most_pages=2), start) as seen:
                await until(lambda: seen.gaps)
                await side.post(status_id(301))
                await until(lambda: status_id(301) in seen.keyed())
        return seen

    seen = asyncio.run(story())
    assert ids(seen.frames) == [status_id(second) for second in [*range(1, 81), 301]]
    [gap] = seen.gaps
    assert gap.seconds is not None


def test_pages_that_are_not_full_may_not_be_the_last() -> None:
    every = [status_id(second) for second in range(1, 151)]

    async def story() -> Followed:
        async with standing() as side:
            side.hidden = {every[7], every[50]}
            await side.post(*every)
            start = SourceMark(status_id(0), side.url.authority)
            async with following(made(side), start) as seen:
                await until(lambda: seen.noted)
        return seen

    assert ids(asyncio.run(story()).frames) == [*every[:7], *every[8:50], *every[51:]]


@pytest.mark.parametrize("place", [None, "other.example"])
def test_what_cannot_be_filled_is_a_gap(place: str | None) -> None:
    """There is no timeline; or the state is another instance's."""

    async def story() -> Followed:
        async with standing() as side:
            if place is None:
                gone = [web.Response(status=404) for _ in range(2)]
                side.answers += [("/api/v1/timelines", answer) for answer in gone]
            start = SourceMark(status_id(0), place or side.url.authority, None if place else 1.0)
            async with following(made(side), start) as seen:
                await until(lambda: seen.gaps)
        return seen

    assert len(asyncio.run(story()).gaps) == 1


def test_the_state_of_another_instance_is_one_gap_however_often_it_connects() -> None:
    """Nothing is known here: there is no timeline, and no post comes."""

    async def story() -> Followed:
        async with standing() as side:
            gone = [web.Response(status=404) for _ in range(20)]
            side.answers += [("/api/v1/timelines", answer) for answer in gone]
            async with following(
                made(side), SourceMark(status_id(0), "other.example", 1.0)
            ) as seen:
                for count in range(1, 4):
                    await side.opened.wait()
                    await until(lambda: seen.gaps)
                    side.cut()
                    await until(lambda count=count: len(seen.lost) == count)  # type: ignore[misc]
                await side.opened.wait()
                await side.post(status_id(1))
                await until(lambda: seen.keyed() == [status_id(1)])
        return seen

    assert len(asyncio.run(story()).gaps) == 1


def test_a_page_that_is_too_large_is_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What people elsewhere write may be long; nothing is left out, and it does not go round."""
    monkeypatch.setattr("newsift.collect.mastodon.LARGEST_PAGE", 20_000)
    every = [status_id(second) for second in range(1, 91)]

    async def story() -> Followed:
        async with standing() as side:
            await side.post(*every)
            for number in (50, 51, 60):
                side.statuses[number] |= {"content": "x" * 9_000}
            start = SourceMark(status_id(0), side.url.authority)
            async with following(made(side), start) as seen:
                await until(lambda: seen.noted)
            assert not seen.lost
        return seen

    assert ids(asyncio.run(story()).frames) == every


def test_a_status_that_is_too_large_is_a_gap_and_the_stream_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("newsift.collect.mastodon.LARGEST_PAGE", 20_000)

    async def story() -> Followed:
        async with standing() as side:
            await side.post(*[status_id(second) for second in range(1, 4)])
            side.statuses[1] |= {"content": "x" * 20_000}
            start = SourceMark(status_id(0), side.url.authority)
            async with following(made(side), start) as seen:
                await until(lambda: seen.gaps)
                await side.post(status_id(4))
                await until(lambda: status_id(4) in seen.keyed())
            assert not seen.lost
        return seen

    seen = asyncio.run(story())
    assert ids(seen.frames) == [status_id(1), status_id(4)]
    assert len(seen.gaps) == 1


def test_pages_wait_for_the_limit_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = list[float]()

    async def noted(seconds: float) -> None:
        pauses.append(seconds)

    clock = SimpleNamespace(sleep=noted)
    monkeypatch.setattr("newsift.collect.mastodon.asyncio", clock)

    async def story() -> Followed:
        async with standing() as side:
            await side.post(*[status_id(second) for second in range(1, 100)])
            side.left = 7
            start = SourceMark(status_id(0), side.url.authority)
            async with following(made(side), start) as seen:
                await side.opened.wait()
                await until(lambda: len(seen.frames) == 99)
        return seen

    asyncio.run(story())
    assert len(pauses) == 2  # after each full page, of which the first left more than the reserve
    assert pauses[0] == 0
    assert 0 < pauses[1] <= 201


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422])
def test_a_stream_that_is_refused_ends_the_command(code: int) -> None:
    async def story() -> None:
        async with standing() as side:
            said = web.json_response({"error": "Not for you"}, status=code)
            side.answers.append((PUBLIC, said))
            await first_of(made(side))

    with pytest.raises(AccessError, match=rf"{code} .*Not for you"):
        asyncio.run(story())


def test_a_token_does_not_follow_a_redirect_to_another_host() -> None:
    async def story() -> FakeInstance:
        async with standing() as side, standing() as other:
            elsewhere = {"Location": str(other.url.with_path(PUBLIC))}
            side.answers.append((PUBLIC, web.Response(status=302, headers=elsewhere)))
            with pytest.raises(AccessError, match="answers 401"):
                await first_of(made(side))
        return other

    [asked] = asyncio.run(story()).asked
    assert "Authorization" not in asked.headers


@pytest.mark.parametrize(
    ("answer", "reason", "wait"),
    [
        (web.Response, BUSY, 0),
        (lambda: web.Response(status=429, headers={"Retry-After": "7"}), LIMITED, 7),
        (lambda: web.Response(text="<html>"), MALFORMED, 0),
    ],
)
def test_a_stream_that_is_not_there_for_now_is_asked_again(
    answer: type[web.Response], reason: str, wait: float
) -> None:
    async def story() -> Followed:
        async with standing() as side:
            early = answer() if reason != BUSY else web.Response(status=503)
            side.answers.append(("/api/v2" if reason == MALFORMED else PUBLIC, early))
            async with following(made(side)) as seen:
                await until(lambda: side.streams)
        return seen

    [lost] = asyncio.run(story()).lost
    assert (lost.reason, lost.wait) == (reason, wait)


def test_a_connection_that_stood_is_followed_by_one_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsift.collect.mastodon.HEALTHY_S", 0.0)

    async def story() -> list[float]:
        async with standing() as side:
            source = made(side)
            backoff = source.backoff(LostError(CLOSED, ""))
            pauses = [backoff.pause() for _ in range(3)]
            async with following(source) as seen:
                await until(lambda: seen.noted)
                await side.write(b":thump\n")
                await side.post(status_id(1))
                await until(lambda: seen.frames)
        return [*pauses, backoff.pause()]

    *_, third, again = asyncio.run(story())
    assert again < third / 2
