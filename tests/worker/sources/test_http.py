"""What answers mean and addresses are, by hand."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from yarl import URL

from encoder.errors import InputError
from worker.errors import AccessError, ConfigError
from worker.sources.http import (
    LONGEST_WAIT_S,
    answered,
    endpoint,
    environment_proxy,
    excerpt,
    losing,
    needed_token,
    retry_after,
    seconds_until,
    session,
    whole,
    without_login,
)
from worker.sources.source import BUSY, LIMITED, MALFORMED, STALLED, LostError


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("7", 7), ("0", 0), ("", 0), ("-3", 0), ("soon", 0), ("9" * 5000, LONGEST_WAIT_S),
     ("²", 0), ("Wed, 01 Jan 2020 00:00:00 GMT", 0), ("Fri, 31 Dec 9999 23:59:59 GMT", 3600)],
)  # fmt: skip
def test_how_long_to_stay_away(said: str, seconds: float) -> None:
    assert retry_after({"Retry-After": said}) == seconds
    assert retry_after({}) == 0


@pytest.mark.parametrize(
    ("moment", "date", "seconds"),
    [(700.0, "Thu, 01 Jan 1970 00:10:00 GMT", 100), (500.0, "Thu, 01 Jan 1970 00:10:00 GMT", 0),
     (inf, "", LONGEST_WAIT_S), (nan, "", 0), (1e9, "yesterday", 0)],
)  # fmt: skip
def test_a_server_s_own_clock_says_how_long(moment: float, date: str, seconds: float) -> None:
    assert seconds_until(moment, {"Date": date}) == seconds


def test_a_date_is_so_many_seconds_away() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 40 < retry_after({"Retry-After": soon}) <= 100


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, LIMITED), (500, BUSY), (503, BUSY), (408, BUSY), (425, BUSY), (302, BUSY)],
)
def test_what_waiting_cures_is_lost(status: int, kind: str) -> None:
    found = answered(status, {"Retry-After": "3"}, "it answers", "do this")
    assert isinstance(found, LostError)
    assert (found.reason, found.wait) == (kind, 3)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_what_waiting_does_not_cure_is_refused(status: int) -> None:
    found = answered(status, {}, "it answers", "do this")
    assert isinstance(found, AccessError)
    assert str(found) == "it answers; do this"


@pytest.mark.parametrize("url", ["ws://h/a?b=1", "wss://[::1]:8/a", "ws://h:80"])
def test_an_address_is_taken_as_it_is(url: str) -> None:
    assert endpoint(url, "ws", "wss").scheme in ("ws", "wss")


@pytest.mark.parametrize(
    "url", ["", "h/a", "http://h/a", "ws://", "ws:///a", "ws://h:x/", "ws://[/", "ws://h:99999/"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InputError, match=r"^--url: .* ws or wss"):
        endpoint(url, "ws", "wss")


def test_a_refusal_shows_no_secret_of_an_address() -> None:
    with pytest.raises(InputError) as refused:
        endpoint("gopher://user:secret@h/a?token=hidden", "ws", "wss")
    assert "secret" not in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_a_token_comes_from_a_file_else_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-a-file\n")
    env = {"T": " from-the-environment "}
    for given, wanted in ((file, "from-a-file"), (None, "from-the-environment")):
        found = needed_token("T", given, env)
        assert (found.reveal(), str(found)) == (wanted, "***")
    with pytest.raises(ConfigError, match=r"^T: is not set; "):
        needed_token("T", None, {})
    for odd in ("zwei wörter", "a\nb"):
        with pytest.raises(ConfigError, match=r"^T: ") as refused:
            needed_token("T", None, {"T": odd})
        assert odd not in str(refused.value)


def test_what_somebody_else_wrote_is_short_and_steers_nothing() -> None:
    assert excerpt(b"a\x1b[2J\nb\xff" + b"c" * 999)[:12] == "a [2J b\ufffdcccc"
    assert len(excerpt("x" * 999)) == 200


@pytest.mark.parametrize(
    ("url", "env", "proxy"),
    [
        ("wss://h/a", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("ws://h/a", {"HTTP_PROXY": "p:1"}, "http://p:1"),
        ("https://h/a", {"HTTP_PROXY": "p:1"}, None),
        ("https://h/a", {"ALL_PROXY": "p:1"}, "http://p:1"),
        ("https://a.h/a", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "h"}, None),
        ("https://h:8/a", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "h:8"}, None),
    ],
)
def test_a_proxy_of_the_environment_serves_web_sockets_too(
    url: str, env: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_proxy(monkeypatch)
    for key, value in env.items():
        monkeypatch.setenv(key, value)
    asked = URL(url)
    found = environment_proxy(asked.scheme, asked.host_port_subcomponent or "")
    assert (found and str(found)) == proxy


def test_a_proxy_of_another_kind_is_refused_without_its_login(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_proxy(monkeypatch)
    monkeypatch.setenv("HTTPS_PROXY", "socks5://user:secret@p:1")
    with pytest.raises(ConfigError, match=r"^HTTPS_PROXY: names no HTTP proxy") as refused:
        environment_proxy("wss", "h")
    assert "secret" not in str(refused.value)


def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in list(os.environ):
        if key.lower().endswith("_proxy"):
            monkeypatch.delenv(key)


def answering(handler: Any, ask: Callable[[ClientSession, str], Coroutine[Any, Any, Any]]) -> Any:
    """What a request comes to at a server of this machine."""

    async def test() -> Any:
        app = web.Application()
        app.add_routes([web.get("/{tail:.*}", handler)])
        async with TestServer(app) as server, session(30) as client:
            return await ask(client, f"http://127.0.0.1:{server.port}/")

    return asyncio.run(test())


def test_a_login_in_netrc_does_not_stand_in_the_way_of_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    async def said(request: web.Request) -> web.Response:
        return web.Response(text=request.headers["Authorization"])

    async def ask(client: ClientSession, url: str) -> bytes:
        async with client.get(url, headers={"Authorization": "Bearer t"}) as answer:
            return await whole(answer, 100)

    assert answering(said, ask) == b"Bearer t"


def test_a_request_goes_by_the_proxy_with_its_login(monkeypatch: pytest.MonkeyPatch) -> None:
    no_proxy(monkeypatch)

    async def proxy(request: web.Request) -> web.Response:
        return web.Response(text=f"{request.raw_path} {request.headers['Proxy-Authorization']}")

    async def ask(client: ClientSession, url: str) -> bytes:
        monkeypatch.setenv("HTTP_PROXY", url.replace("://", "://me:secret@"))
        async with client.get("http://elsewhere.test/a") as answer:
            return await whole(answer, 100)

    assert answering(proxy, ask) == b"http://elsewhere.test/a Basic bWU6c2VjcmV0"


def test_an_answer_that_drips_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.sources.http.WHOLE_S", 0.2)

    async def drip(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x")
            await asyncio.sleep(0.02)

    async def ask(client: ClientSession, url: str) -> None:
        with losing("there"):
            async with client.get(url) as answer:
                await whole(answer, 10**6)

    with pytest.raises(LostError, match="nothing came for too long") as lost:
        answering(drip, ask)
    assert lost.value.reason == STALLED


def test_what_goes_in_a_circle_shows_nothing_of_its_address() -> None:
    async def circle(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": str(request.rel_url)})

    async def ask(client: ClientSession, url: str) -> None:
        with losing("there"):
            await client.get(f"{url}?access_token=hidden")

    with pytest.raises(LostError, match=r"^there: redirects again and again$") as lost:
        answering(circle, ask)
    assert lost.value.reason == MALFORMED
    assert "hidden" not in str(lost.value)


def test_a_login_beside_a_token_is_refused() -> None:
    with pytest.raises(InputError, match=r"^--url: holds a login") as refused:
        without_login(URL("https://me:secret@h/a"))
    assert "secret" not in str(refused.value)
