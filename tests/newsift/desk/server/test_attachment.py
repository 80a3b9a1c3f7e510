"""A file as an answer: whole, saved under a harmless name, and closed whatever the browser does."""

import asyncio
import io
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import Message
from urllib.parse import unquote

import pytest
from aiohttp import ClientSession, web
from hypothesis import given
from hypothesis import strategies as st

from newsift.desk.api import Attachment
from newsift.desk.site import CHUNK, send_file


@asynccontextmanager
async def served(
    file: Attachment, ended: asyncio.Event | None = None
) -> AsyncIterator[tuple[str, int]]:
    """Host and port of a server that answers with a file."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await send_file(request, file)
        finally:
            if ended is not None:
                ended.set()

    app = web.Application()
    app.add_routes([web.get("/", answer)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][:2]
    finally:
        await runner.cleanup()


def fetched(file: Attachment) -> tuple[bytes, dict[str, str]]:
    async def ask() -> tuple[bytes, dict[str, str]]:
        async with (
            served(file) as (host, port),
            ClientSession() as client,
            client.get(f"http://{host}:{port}/") as reply,
        ):
            return await reply.read(), dict(reply.headers)

    return asyncio.run(ask())


@pytest.mark.parametrize("size", [0, 1, CHUNK, 3 * CHUNK + 7])
def test_a_file_is_sent_whole_and_closed(size: int) -> None:
    content = io.BytesIO(bytes(n % 251 for n in range(size)))
    expected = content.getvalue()
    got, headers = fetched(Attachment("newsift-ferry.csv", "text/csv", content))
    assert got == expected
    assert headers["Content-Length"] == str(size)
    assert headers["Content-Type"] == "text/csv"
    assert headers["Cache-Control"] == "no-store"
    assert content.closed


def test_a_client_that_disconnects_leaves_nothing_open(caplog: pytest.LogCaptureFixture) -> None:
    content = io.BytesIO(bytes(2**26))
    caplog.set_level("INFO", "newsift.desk")

    async def run() -> None:
        ended = asyncio.Event()
        async with served(Attachment("a", "text/csv", content), ended) as (host, port):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readexactly(100)
            writer.transport.abort()
            async with asyncio.timeout(20):
                await ended.wait()

    asyncio.run(run())
    assert content.closed
    assert "was not sent to its end" in caplog.text


@pytest.mark.parametrize(
    ("name", "plain", "full"),
    [
        ("newsift-ferry.csv", "newsift-ferry.csv", "newsift-ferry.csv"),
        ("newsift-../../etc/passwd.csv", "newsift-..-..-etc-passwd.csv", None),
        ('a";x=\r\nSet-Cookie: b.db', "a-x-Set-Cookie-b.db", None),
        ("newsift-überfall.svg", "newsift-berfall.svg", "newsift-überfall.svg"),
        ("newsift-\u202egnp.csv", "newsift-gnp.csv", "newsift-gnp.csv"),
    ],
)
def test_a_file_name_has_a_plain_form(name: str, plain: str, full: str | None) -> None:
    text = Attachment(name, "text/csv", io.BytesIO()).headers["Content-Disposition"]
    assert f'filename="{plain}"' in text
    if full is not None:
        assert unquote(text.rpartition("''")[2]) == full


@given(st.text(max_size=300))
def test_no_file_name_is_a_path(name: str) -> None:
    given_name = f"newsift-{name}.csv"
    text = Attachment(given_name, "text/csv", io.BytesIO()).headers["Content-Disposition"]
    assert text.isascii()
    assert text.isprintable()
    read = Message()
    read["Content-Disposition"] = text
    result = read.get_filename() or ""
    assert re.search(r"[/\\\s\"<>|:*?]", result) is None
    assert not result.startswith(".")
    assert result.endswith(".csv")
