"""What an instance says of itself: where it streams, and what of it is shown to whom."""

from typing import Any

import msgspec
from aiohttp import ClientSession
from yarl import URL

from worker.errors import AccessError
from worker.sources.http import WEB_SCHEMES, as_documented, check_answer, whole
from worker.sources.mastodon.feeds import Feed
from worker.sources.mastodon.timeline import REFUSED
from worker.sources.source import MALFORMED, LostError

DOCUMENT = "/api/v2/instance"
LARGEST = 2**22  # bytes
NO_INSTANCE = "give the address of a Mastodon instance to --url"


class Urls(msgspec.Struct):
    """Addresses that an instance names."""

    streaming: str | None = None


class Configured(msgspec.Struct):
    """The part of an instance's document that is about its streams."""

    urls: Urls | None = None
    timelines_access: dict[str, Any] | None = None


class Instance(msgspec.Struct):
    """The document of an instance, as https://docs.joinmastodon.org/entities/Instance/ has it."""

    configuration: Configured | None = None

    def streaming(self, host: URL) -> URL:
        """The host of its streams."""
        urls = self.configuration.urls if self.configuration else None
        if urls is None or not urls.streaming:
            return host
        try:
            told = URL(urls.streaming)
            return told.with_scheme(WEB_SCHEMES.get(told.scheme, told.scheme)).origin()
        except ValueError as error:
            said = f"{host.authority}: configuration.urls.streaming is no address"
            raise LostError(MALFORMED, said) from error

    def closed(self, feed: Feed) -> dict[str, str]:
        """Which halves of a feed it shows to nobody, by the keys that say so."""
        access = (self.configuration.timelines_access if self.configuration else None) or {}
        key = "hashtag_feeds" if feed.tags else "live_feeds"
        found = access.get(key)
        shown = found if isinstance(found, dict) else dict.fromkeys(feed.parts, found)
        prefix = f"configuration.timelines_access.{key}"
        return {half: f"{prefix}.{half}" for half in feed.parts if shown.get(half) == "disabled"}


DECODER = msgspec.json.Decoder(Instance)


async def look(session: ClientSession, host: URL, headers: dict[str, str]) -> Instance:
    """The document of an instance; an empty one where a server has none."""
    async with session.get(host.with_path(DOCUMENT), headers=headers) as answer:
        if answer.status == 404:
            return Instance()
        await check_answer(answer, REFUSED if answer.status in (401, 403) else NO_INSTANCE)
        return as_documented(DECODER, await whole(answer, LARGEST), f"{host.authority}: {DOCUMENT}")


def refuse_closed(instance: Instance, feed: Feed, place: str) -> None:
    """Refuse a feed that the instance shows to nobody: its stream would stay silent for ever."""
    closed = instance.closed(feed)
    if not closed:
        return
    open_half = [half for half in feed.parts if half not in closed]
    base = feed.name.partition(":")[0]
    other = f"--stream {base}:{open_half[0]}, or " if open_half and base == "public" else ""
    raise AccessError(
        f"{place}: does not show the stream {feed.name} ({', '.join(closed.values())}: disabled); "
        f"give {other}another instance to --url"
    )
