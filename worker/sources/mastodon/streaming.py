"""A stream of an instance, by server-sent events or by a web socket: its events as they come."""

from collections.abc import AsyncGenerator, Mapping

import msgspec
from aiohttp import ClientSession, ClientWSTimeout, WSServerHandshakeError
from yarl import URL

from worker.sources.events import sent_events
from worker.sources.http import WEB_SCHEMES, answered, check_answer, excerpt, limits
from worker.sources.lines import LARGEST
from worker.sources.mastodon.statuses import Happened, event_value
from worker.sources.mastodon.timeline import REFUSED
from worker.sources.sockets import texts

Streamed = AsyncGenerator[list[Happened], None]


class SocketMessage(msgspec.Struct):
    """A message of the web socket: an event, whose payload is a text, or an error."""

    event: str = ""
    payload: str = ""
    error: str | None = None
    status: int = 500


SOCKET_MESSAGE = msgspec.json.Decoder(SocketMessage)


def streamed(
    client: ClientSession, url: URL, headers: Mapping[str, str], stall_s: float
) -> Streamed:
    """The events of a stream, after an empty list that says that it stands."""
    by = _by_socket if url.scheme in WEB_SCHEMES else _by_sent_events
    return by(client, url, headers, stall_s)


async def _by_sent_events(
    client: ClientSession, url: URL, headers: Mapping[str, str], stall_s: float
) -> Streamed:
    async with client.get(url, headers=headers, timeout=limits(stall_s)) as answer:
        await check_answer(answer, REFUSED)
        yield []
        async for found in sent_events(answer.content.iter_any()):
            yield [
                Happened(each.name, each.data, event_value(each.name, each.data)) for each in found
            ]


async def _by_socket(
    client: ClientSession, url: URL, headers: Mapping[str, str], stall_s: float
) -> Streamed:
    patience = ClientWSTimeout(ws_receive=stall_s, ws_close=1.0)
    try:
        socket = await client.ws_connect(
            url, headers=headers, timeout=patience, max_msg_size=LARGEST
        )
    except WSServerHandshakeError as error:
        given: Mapping[str, str] = error.headers or {}
        said = excerpt(given.get("X-Error-Message", ""))
        what = f"{url.host} answers {error.status}{f' ({said})' if said else ''}"
        raise answered(error.status, given, what, REFUSED) from error
    async with socket:
        yield []
        async for text in texts(socket, str(url.host)):
            yield [_told(text, str(url.host))]


def _told(text: bytes, host: str) -> Happened:
    """What a message tells; what ends the connection is raised."""
    try:
        found = SOCKET_MESSAGE.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return Happened("update", text, text)  # a dead letter shows it
    if found.error is not None:
        raise answered(found.status, {}, f"{host} says: {excerpt(found.error)}", REFUSED)
    return Happened(found.event, found.payload.encode(), text)
