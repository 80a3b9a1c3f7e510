"""A desk's site in this process, and raw visits to it: what no browser would send, too."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from encoder.errors import InputError
from newsift.desk.api import Action, Download, EmptyRequest, Endpoint, get_endpoint, post_endpoint
from newsift.desk.session import Desk
from newsift.desk.site import DeskSite
from newsift.operations.messages import notify
from tests.worker.raw_http import PATIENCE_S, Reply, read_all
from worker.config import Config, WebConfig
from worker.config.secret import Secret
from worker.errors import RunError

TOKEN = "correct horse battery staple"
T = TypeVar("T")


class Word(Action, frozen=True, kw_only=True):
    word: str
    times: int = 1


class Asked(msgspec.Struct, frozen=True):
    word: str = ""
    times: int = 1


DONE: list[Word] = []
FILES: list[Download] = []
HELD = threading.Event()


@get_endpoint("/api/echo", Asked)
def echo(_desk: Desk, values: Asked) -> str:
    return values.word * values.times


@get_endpoint("/api/held", EmptyRequest)
def held(_desk: Desk, _asked: EmptyRequest) -> None:
    HELD.wait(PATIENCE_S)


@get_endpoint("/api/file", EmptyRequest)
def last_file(_desk: Desk, _asked: EmptyRequest) -> Download:
    return FILES[-1]


@post_endpoint("/api/say", Word, "say.word")
def say_word(_desk: Desk, values: Word) -> int:
    """Say something on the way, or be refused in one of three ways."""
    if values.word == "refused":
        raise InputError("word: is refused; give another")
    if values.word == "lost":
        raise RunError("Kafka at nowhere does not answer")
    if values.word == "broken":
        raise ZeroDivisionError("by zero")
    DONE.append(values)
    notify(f"said {values.word}")
    return values.times


ENDPOINTS = (echo, held, last_file, say_word)


Page = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Visitor:
    def __init__(self, site: DeskSite) -> None:
        self.site = site

    async def connect(self, path: str, *headers: str, limit: int = 2**16) -> Page:
        """Ask for a path, and leave the answer on the line."""
        page = await asyncio.open_connection("127.0.0.1", self.site.port, limit=limit)
        rows = [f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]
        page[1].write("\r\n".join(rows).encode())
        return page

    async def follow_changes(self, *headers: str) -> Page:
        page = await self.connect("/api/changes", *headers)
        await page[0].readuntil(b"event: change")
        return page

    async def raw(self, text: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.site.port)
        with contextlib.suppress(ConnectionError):
            writer.write(text)
            await writer.drain()
        result = await read_all(reader)
        writer.close()
        return result

    async def ask(
        self, path: str, method: str = "GET", body: bytes = b"", **headers: str | None
    ) -> Reply:
        """Ask as a script does; headers with underscores, None leaves one out."""
        values: dict[str, str | None] = {"Host": f"127.0.0.1:{self.site.port}"}
        if method == "POST":
            values |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        values |= {name.replace("_", "-"): value for name, value in headers.items()}
        rows = [f"{name}: {value}" for name, value in values.items() if value is not None]
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *rows, "", ""])
        return Reply.of(await self.raw(head.encode("utf-8", "surrogateescape") + body))

    async def do(self, word: object, **headers: str | None) -> Reply:
        body = json.dumps({"by": "Ann", "word": word}).encode()
        return await self.ask("/api/say", "POST", body, **headers)


class Still(Desk):
    def start(self) -> None:
        """Follow no topic."""

    def stop(self) -> None:
        """Nothing was started."""


def visited(
    visit: Callable[[Visitor], Coroutine[Any, Any, T]],
    *,
    token: str | None = None,
    read_only: bool = False,
    host: str = "127.0.0.1",
    endpoints: Sequence[Endpoint] = ENDPOINTS,
) -> T:
    async def serve() -> T:
        secret = Secret(token) if token else None
        desk = Still(Config(), read_only)
        site = DeskSite(desk, WebConfig(host, 0), secret, endpoints)
        try:
            await site.start()
            return await visit(Visitor(site))
        finally:
            await site.stop()

    return asyncio.run(serve())
