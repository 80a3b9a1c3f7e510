"""The timeline of a Mastodon instance: its statuses after an id, page by page.

See https://docs.joinmastodon.org/methods/timelines/.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import msgspec
from aiohttp import ClientSession
from yarl import URL

from newsift.collect.http import TooLargeError, check_answer, decode_answer, read_body
from newsift.collect.source import LIMITED, LostError
from newsift.files.platforms import IdObject
from newsift.web.addresses import retry_after, seconds_until

STATUS_ID = re.compile(r"[0-9A-Za-z]{1,64}")
MIN_TIMED_ID = 1_400_000_000_000 << 16  # of 2014; smaller ids hold no time
PAGE_SIZE = 40  # the largest page of a timeline that Mastodon allows
LOWEST_ID = "0"
PAGE_SIZES = (PAGE_SIZE, 5, 1)  # a smaller page is requested if one has too many bytes
RESERVED_REQUESTS = 5  # of the rate limit, left to other clients of the account
MAX_PAGE_BYTES = 2**24
TOKEN_REMEDY = "give a user token with the scope read:statuses"
STATUS_ID_DECODER = msgspec.json.Decoder(IdObject)


def id_sort_key(id: str) -> tuple[int, str]:
    """A longer id is later, as Mastodon's guidelines say."""
    return len(id), id


def time_of_id(id: str) -> float | None:
    """Seconds since 1970; None if the id holds no time."""
    number = int(id) if id.isascii() and id.isdigit() else 0
    return (number >> 16) / 1000 if number >= MIN_TIMED_ID else None


def id_before(id: str, seconds: float) -> str:
    """The id of this many seconds earlier; the same id if it holds no time."""
    time = time_of_id(id)
    return id if time is None else str(max(0, round((time - seconds) * 1000)) << 16)


def parse_status_id(status: bytes) -> str | None:
    """None if there is no valid id."""
    try:
        id = str(STATUS_ID_DECODER.decode(status).id)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return id if STATUS_ID.fullmatch(id) else None


@dataclass(frozen=True, slots=True)
class StatusPage:
    statuses: list[tuple[str, bytes]]  # ids and statuses, oldest first
    is_full: bool  # has as many statuses as were requested
    pause: float  # seconds before the next request


class Timeline:
    """Reads a timeline after an id, up to a number of pages, as fast as the server allows."""

    def __init__(
        self, session: ClientSession, url: URL, headers: Mapping[str, str], after_id: str = "",
        max_pages: int = 0,
    ) -> None:  # fmt: skip
        self._session, self._url, self._headers = session, url, headers
        self.after_id = after_id  # of the last status that was read; "" if there is none
        self.pages_left = max_pages if after_id else 0
        self.is_readable = True

    async def newest_id(self) -> str | None:
        """None if the instance has no timeline."""
        page = await self._page(1)
        if page is None:
            return None
        return page.statuses[-1][0] if page.statuses else LOWEST_ID

    async def pages(self) -> AsyncIterator[list[tuple[str, bytes]]]:
        """Ends after two consecutive pages that are not full."""
        short_pages = 0
        while self.pages_left > 0 and short_pages < 2:
            page = await self._next_page()
            self.pages_left -= 1
            if page is None:
                self.is_readable = False
                return
            after = id_sort_key(self.after_id)
            new = [status for status in page.statuses if id_sort_key(status[0]) > after]
            if not new:
                self.is_readable = not page.statuses  # else the server ignores min_id
                return
            self.after_id = new[-1][0]
            yield new
            if not page.is_full:
                short_pages += 1  # near the end: no pause, RESERVED_REQUESTS allow for it
                continue
            short_pages = 0
            await asyncio.sleep(page.pause)

    async def _next_page(self) -> StatusPage | None:
        """Smaller if the full one has too many bytes; None if no page can be read."""
        for size in PAGE_SIZES:
            with suppress(TooLargeError):
                return await self._page(size, min_id=self.after_id)
        return None

    async def _page(self, size: int, **query: str) -> StatusPage | None:
        url = self._url.update_query(limit=size, **query)
        async with self._session.get(url, headers=self._headers) as answer:
            if answer.status == 404:
                return None
            reset_s = seconds_until_reset(answer.headers)
            if answer.status == 429:
                message = f"{url.host} answers 429 for its timeline"
                raise LostError(LIMITED, message, max(reset_s, retry_after(answer.headers)))
            await check_answer(answer, TOKEN_REMEDY)
            statuses = parse_statuses(await read_body(answer, MAX_PAGE_BYTES), str(url.host))
            remaining = answer.headers.get("X-RateLimit-Remaining", "")
            is_limited = remaining.isdigit() and int(remaining) <= RESERVED_REQUESTS
            return StatusPage(statuses, len(statuses) >= size, reset_s if is_limited else 0.0)


def parse_statuses(body: bytes, host: str) -> list[tuple[str, bytes]]:
    """Ids and statuses, oldest first."""
    raw_items = decode_answer(list[msgspec.Raw], body, f"{host}: its timeline")
    items = [bytes(raw) for raw in raw_items]
    by_id = [(id, status) for status in items if (id := parse_status_id(status)) is not None]
    return sorted(by_id, key=lambda pair: id_sort_key(pair[0]))


def seconds_until_reset(headers: Mapping[str, str]) -> float:
    """Measured by the server's clock; 0 if the header is missing."""
    try:
        reset = datetime.fromisoformat(headers.get("X-RateLimit-Reset", "")).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return seconds_until(reset, headers)
