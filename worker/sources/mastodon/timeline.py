"""Pages of a timeline, from an id on: what a stream did not bring while it was away."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import msgspec
from aiohttp import ClientSession
from yarl import URL

from worker.sources.http import (
    TooLargeError,
    as_documented,
    check_answer,
    retry_after,
    seconds_until,
    whole,
)
from worker.sources.mastodon.statuses import PAGE, order, status_identity
from worker.sources.source import LIMITED, LostError

BEFORE_ALL = "0"  # an id
PAGES = (PAGE, 5, 1)  # statuses to ask for, where more are too large together
RESERVE = 5  # requests of the limit that are left to others who use the account
LARGEST = 2**24  # bytes of a page
RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])
REFUSED = "give a user token with the scope read:statuses"


@dataclass(frozen=True, slots=True)
class StatusPage:
    """The statuses right after an id, oldest first, and how long to wait before the next page."""

    statuses: list[tuple[str, bytes]]  # by id
    is_full: bool  # has as many as it may have
    pause: float


class Timeline:
    """A timeline of an instance, read page by page."""

    def __init__(self, session: ClientSession, url: URL, headers: Mapping[str, str]) -> None:
        self._session, self._url, self._headers = session, url, headers

    async def after(self, id: str) -> StatusPage | None:
        """The page right after an id, a short one if need be; None where none can be read."""
        for most in PAGES:
            with suppress(TooLargeError):
                return await self._page(most, min_id=id)
        return None

    async def newest(self) -> str | None:
        """The id of its last status, or before all; None where there is no timeline."""
        page = await self._page(1)
        if page is None:
            return None
        return page.statuses[-1][0] if page.statuses else BEFORE_ALL

    async def _page(self, most: int, **query: str) -> StatusPage | None:
        url = self._url.update_query(limit=most, **query)
        async with self._session.get(url, headers=self._headers) as answer:
            if answer.status == 404:
                return None
            if answer.status == 429:
                raise limited(answer.headers, f"{url.host} answers 429 for its timeline")
            await check_answer(answer, REFUSED)
            found = statuses(await whole(answer, LARGEST), f"{url.host}")
            return StatusPage(found, len(found) >= most, pause(answer.headers))


def statuses(body: bytes, host: str) -> list[tuple[str, bytes]]:
    """The statuses of a page with their ids, oldest first, whatever order they came in."""
    found = [bytes(raw) for raw in as_documented(RAW_LIST, body, f"{host}: its timeline")]
    named = [(id, status) for status in found if (id := status_identity(status)) is not None]
    return sorted(named, key=lambda each: order(each[0]))


def pause(headers: Mapping[str, str]) -> float:
    """The seconds to wait by X-RateLimit, until which no further request is allowed."""
    left = headers.get("X-RateLimit-Remaining", "")
    return until_reset(headers) if left.isdigit() and int(left) <= RESERVE else 0.0


def until_reset(headers: Mapping[str, str]) -> float:
    """The seconds until the limit of requests begins anew, by the server's own clock."""
    try:
        reset = datetime.fromisoformat(headers.get("X-RateLimit-Reset", "")).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return seconds_until(reset, headers)


def limited(headers: Mapping[str, str], said: str) -> LostError:
    """What it means that the limit of requests is used up."""
    return LostError(LIMITED, said, max(until_reset(headers), retry_after(headers)))


class Catching:
    """Goes through a timeline, within a limit of pages, as fast as the server allows."""

    def __init__(self, timeline: Timeline, since: str, most_pages: int) -> None:
        self._timeline, self.since = timeline, since
        self._left = most_pages
        self.there = True  # whether there is a timeline that can be read

    @property
    def ended_early(self) -> bool:
        """Whether there were more pages than the limit."""
        return self._left <= 0

    async def pages(self) -> AsyncIterator[list[tuple[str, bytes]]]:
        """The statuses after those of the last page, until two pages in a row were not full."""
        short = 0
        while self._left > 0 and short < 2:
            page = await self._timeline.after(self.since)
            self._left -= 1
            if page is None:
                self.there = False
                return
            new = [each for each in page.statuses if order(each[0]) > order(self.since)]
            if not new:
                return
            self.since = new[-1][0]
            yield new
            if not page.is_full:
                short += 1  # nearly there: the reserve is for this
                continue
            short = 0
            await asyncio.sleep(page.pause)
