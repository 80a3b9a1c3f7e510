"""How a source speaks HTTP: sessions that never wait without end, tokens that are never shown."""

import os
from asyncio import timeout
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from pathlib import Path
from time import time
from typing import TypeVar
from urllib.request import getproxies_environment, proxy_bypass

import aiohttp
import msgspec
from yarl import URL

from encoder.errors import InputError, NewsiftError
from worker.config.secret import Secret, read_secret
from worker.errors import AccessError, ConfigError
from worker.sources.source import (
    BUSY,
    CLOSED,
    LIMITED,
    MALFORMED,
    STALLED,
    UNREACHABLE,
    LostError,
)

D = TypeVar("D")
CONNECT_S = 20.0
WHOLE_S = 120.0  # for an answer that ends
LONGEST_WAIT_S = 3600.0  # of what Retry-After may ask for
TOLD_BYTES = 2**12  # of an answer that is an error
SAID = 200  # characters of it
WEB_SCHEMES = {"ws": "http", "wss": "https"}


class TooLargeError(LostError):
    """An answer has more bytes than are read."""


def limits(stall_s: float) -> aiohttp.ClientTimeout:
    """How long a connection may take to stand, and to bring nothing; not how long it may last."""
    return aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=stall_s)


@asynccontextmanager
async def session(stall_s: float) -> AsyncIterator[aiohttp.ClientSession]:
    """A client whose connections and reads each end in time, by the proxy of the environment."""
    agent = {"User-Agent": f"newsift/{version('newsift')}"}
    async with aiohttp.ClientSession(
        timeout=limits(stall_s), headers=agent, middlewares=(by_proxy,),
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as client:  # fmt: skip
        yield client


async def by_proxy(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send a request by the proxy of the environment."""
    # Not by aiohttp's trust_env: that reads ~/.netrc too, whose login is refused beside a token,
    # and knows no proxy for a web socket.
    url = request.url
    proxy = environment_proxy(url.scheme, url.host_port_subcomponent or "")
    if proxy is not None:
        login = proxy_login(proxy)
        request.update_proxy(proxy.with_user(None), None, login)
        if not request.is_ssl():
            request.headers.update(login)
    return await send(request)


def environment_proxy(scheme: str, place: str) -> URL | None:
    """What HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names, for web sockets too, but for NO_PROXY."""
    scheme = WEB_SCHEMES.get(scheme, scheme)
    known = getproxies_environment()
    said = known.get(scheme) or known.get("all")
    if not said or proxy_bypass(place, known):
        return None
    if (found := address(said if "://" in said else f"http://{said}", "http")) is None:
        key = f"{scheme.upper()}_PROXY"
        raise ConfigError(f"{key}: names no HTTP proxy; give one as http://host:port")
    return found


def proxy_login(proxy: URL) -> dict[str, str]:
    """The header by which a proxy lets us pass, where its address has a login."""
    if proxy.user is None:
        return {}
    said = b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
    return {"Proxy-Authorization": f"Basic {said}"}


def address(url: str, *schemes: str) -> URL | None:
    """The address of a server that is written so; None where it is none of these schemes."""
    with suppress(ValueError):
        found = URL(url)
        if found.scheme in schemes and found.host and found.port is not None:
            return found
    return None


def endpoint(url: str, *schemes: str) -> URL:
    """An address that --url gave, refused where it is none of these schemes."""
    if (found := address(url, *schemes)) is None:
        raise InputError(f"--url: {_bare(url)!r}; give an address with {' or '.join(schemes)}")
    return found


def without_login(url: URL) -> URL:
    """An address to which a token is sent; refused where it names somebody else to log in."""
    if url.user or url.password:
        raise InputError("--url: holds a login, but the token says who asks; leave the login out")
    return url


def needed_token(variable: str, file: Path | None, env: Mapping[str, str] = os.environ) -> Secret:
    """The token of a file, else of an environment variable; it shows nowhere but in its request."""
    if file is not None:
        return read_secret(file, "--token-file")
    said = env.get(variable, "").strip()
    if not said:
        raise ConfigError(f"{variable}: is not set; set it to the token, or give --token-file FILE")
    if not (said.isascii() and said.isprintable()):
        raise ConfigError(f"{variable}: holds what is no token; set the token alone")
    return Secret(said)


def is_refusal(status: int) -> bool:
    """Whether waiting cures no such answer: the request itself, or who makes it, is refused."""
    return 400 <= status < 500 and status not in (408, 425, 429)


async def check_answer(answer: aiohttp.ClientResponse, refused: str) -> None:
    """Raise what an answer other than 2xx means; `refused` is what helps against a 4xx."""
    if 200 <= answer.status < 300:
        return
    said = excerpt(await answer.content.read(TOLD_BYTES))
    what = f"{answer.url.host} answers {answer.status}{f' ({said})' if said else ''}"
    raise answered(answer.status, answer.headers, what, refused)


def answered(
    status: int, headers: Mapping[str, str], what: str, refused: str
) -> LostError | AccessError:
    """What an answer means that is no success: another attempt after a while, or none."""
    if is_refusal(status):
        return AccessError(f"{what}; {refused}")
    return LostError(LIMITED if status == 429 else BUSY, what, retry_after(headers))


async def whole(answer: aiohttp.ClientResponse, largest: int) -> bytes:
    """The body of an answer, in bounded memory and time."""
    parts, size = list[bytes](), 0
    async with timeout(WHOLE_S):  # some drip
        async for part in answer.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > largest:
                said = f"{answer.url.host} answers more than {largest:,} bytes"
                raise TooLargeError(MALFORMED, said)
    return b"".join(parts)


def as_documented(decoder: msgspec.json.Decoder[D], body: bytes, what: str) -> D:
    """What an answer holds, where it is as documented."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise LostError(
            MALFORMED, f"{what} is not as documented ({excerpt(str(error))})"
        ) from error


def retry_after(headers: Mapping[str, str]) -> float:
    """The seconds that an answer asks to wait, by number or by date; 0 where it does not."""
    said = headers.get("Retry-After", "").strip()
    try:
        if said.isdigit():
            return min(float(said), LONGEST_WAIT_S)
        return seconds_until(parsedate_to_datetime(said).timestamp(), headers)
    except (ValueError, OverflowError):
        return 0.0


def seconds_until(moment: float, headers: Mapping[str, str]) -> float:
    """The seconds until a time that a server named, by its own clock; an hour at most."""
    try:
        now = parsedate_to_datetime(headers.get("Date", "")).timestamp()
    except (ValueError, OverflowError):
        now = time()
    return min(max(0.0, moment - now), LONGEST_WAIT_S)  # 0 where it is not a number


def excerpt(said: bytes | str) -> str:
    """What somebody else wrote, on one short line."""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return " ".join("".join(c if c.isprintable() else " " for c in text[:SAID]).split())


@contextmanager
def losing(place: str) -> Iterator[None]:
    """Turn whatever breaks a connection into a LostError that says why."""
    try:
        yield
    except NewsiftError:
        raise
    except TimeoutError as error:
        raise LostError(STALLED, f"{place}: nothing came for too long") from error
    except aiohttp.ClientPayloadError as error:
        raise LostError(CLOSED, f"{place}: closed in the middle of an answer") from error
    # What these say by themselves holds the address, and in its query perhaps a token.
    except aiohttp.TooManyRedirects as error:
        raise LostError(MALFORMED, f"{place}: redirects again and again") from error
    except aiohttp.InvalidURL as error:
        raise LostError(MALFORMED, f"{place}: redirects to what is no address") from error
    except aiohttp.ClientResponseError as error:
        said = f"{excerpt(error.message)} ({error.status})"
        raise LostError(UNREACHABLE, f"{place}: {said}") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise LostError(UNREACHABLE, f"{place}: {excerpt(str(error)) or 'broke off'}") from error


def _bare(url: str) -> str:
    """An address without who logs in and what stands in its query, should a token be there."""
    return url.partition("?")[0].rpartition("@")[2][:SAID]
