"""Mastodon and X beneath the collector: what is marked when."""

import asyncio

from newsift.collect.mastodon import Mastodon, stream_address
from newsift.collect.x import XStream
from tests.newsift.collect.collecting import collecting
from tests.newsift.collect.mastodon import instance_side as mastodon_side
from tests.newsift.collect.x import stream_side as x_side
from worker.config.secret import Secret

IDS = [mastodon_side.status_id(second) for second in range(1, 7)]
TWEETS = [x_side.tweet_id(second) for second in range(1, 7)]


def mastodon(side: mastodon_side.FakeInstance) -> Mastodon:
    return Mastodon(stream_address(str(side.url), None, None), Secret(mastodon_side.TOKEN))


def x(side: x_side.FakeX) -> XStream:
    return XStream(str(side.url), Secret(x_side.TOKEN))


def test_an_instance_is_marked_before_its_first_post() -> None:
    """A crash before anything came: what came meanwhile is not lost."""

    async def story() -> None:
        async with mastodon_side.standing() as side:
            await side.post(IDS[0])
            async with collecting(mastodon(side)) as first:
                await first.until(lambda: bool(first.outlet.marks))
            mark = first.outlet.marks[-1]
            assert (mark.cursor, first.outlet.keys) == (IDS[0], [])
            side.cut()
            await side.post(*IDS[1:])
            async with collecting(mastodon(side), mark) as second:
                await second.until(lambda: IDS[-1] in second.outlet.keys)
            assert set(second.outlet.keys) >= set(IDS[1:])

    asyncio.run(story())


def test_a_gap_of_x_begins_with_the_last_sign_of_life() -> None:
    async def story() -> None:
        async with x_side.streaming() as side:
            async with collecting(x(side)) as first:
                await first.until(lambda: bool(side.streams))
                await side.post(*TWEETS)
                await first.until(lambda: first.outlet.keys == TWEETS)
                await side.write(b"\r\n")
                await first.until(lambda: not first.outlet.frames[-1].value)
            mark = first.outlet.marks[-1]
            side.cut()
            async with collecting(x(side), mark) as second:
                await second.until(lambda: second.counts.gaps == 1)
            assert second.outlet.keys == []
            assert second.outlet.marks[-1].cursor == TWEETS[-1]
            assert second.counted("gap_seconds_total") < 3600

    asyncio.run(story())
