"""Web sockets: the texts that come by one, and how it ends."""

from asyncio import timeout
from collections.abc import AsyncIterator

from aiohttp import ClientWebSocketResponse, WebSocketError, WSMessage, WSMsgType

from worker.sources.http import excerpt, losing
from worker.sources.source import CLOSED, MALFORMED, LostError


class UnreadableFrameError(LostError):
    """A frame is no text, or too large: whoever asks for the same again will get it again."""


async def texts(
    socket: ClientWebSocketResponse, place: str, silent_s: float | None = None
) -> AsyncIterator[bytes]:
    """The texts that come; LostError when no more do.

    A ping counts as a sign of life unless `silent_s` says how long there may be no text.
    """
    while True:
        with losing(place):
            async with timeout(silent_s):
                message = await socket.receive()
        if message.type is not WSMsgType.TEXT:
            raise _ended(socket, message, place)
        yield message.data.encode()


def _ended(socket: ClientWebSocketResponse, message: WSMessage, place: str) -> LostError:
    if message.type is WSMsgType.BINARY:
        return LostError(MALFORMED, f"{place}: sends binary frames, which nobody asked for")
    if isinstance(message.data, WebSocketError):
        said = excerpt(str(message.data))
        return UnreadableFrameError(MALFORMED, f"{place}: sends what cannot be read ({said})")
    why = message.extra or message.data
    said = f" ({excerpt(str(why))})" if why and why != socket.close_code else ""
    return LostError(CLOSED, f"{place}: closed the connection with {socket.close_code}{said}")
