"""Pages by the proxy that the environment names."""

import base64
import ssl
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from encoder.errors import InputError
from tests.worker.proxy_side import ProxySide, proxy_server
from tests.worker.web_side import web_server
from worker.actions.seeds.addresses import OwnNetwork
from worker.actions.seeds.fetch import Bounds, fetch
from worker.actions.seeds.proxy import literal
from worker.errors import ConfigError


@pytest.fixture(scope="module")
def web() -> Iterator[int]:
    with web_server() as port:
        yield port


@pytest.fixture
def proxy(web: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProxySide]:
    with proxy_server(ProxySide(web)) as side:
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://me:s%40cret@127.0.0.1:{side.port}")
        yield side


def no_host_is_looked_up(host: str, port: int) -> list[str]:
    raise AssertionError(host)


UNKNOWN = Bounds(resolve=no_host_is_looked_up)  # only the proxy knows where anything is


class Plain(ssl.SSLContext):
    """Takes every connection for a secure one, and notes whose certificate would be looked at."""

    hosts: ClassVar[list[Any]] = []

    def wrap_socket(self, sock: Any, *_: Any, server_hostname: Any = None, **__: Any) -> Any:
        self.hosts.append(server_hostname)
        return sock


def test_a_page_is_asked_for_whole(proxy: ProxySide) -> None:
    page = fetch("http://courier.test/article?a=1", UNKNOWN)
    assert b"Astrid Vane" in page.body
    assert page.url == "http://courier.test/article?a=1"
    assert proxy.asked == ["GET http://courier.test/article?a=1"]
    login = "Basic " + base64.b64encode(b"me:s@cret").decode()
    assert proxy.logins == [login]


def test_a_secure_page_comes_through_a_tunnel(
    proxy: ProxySide, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Plain(ssl.PROTOCOL_TLS_CLIENT)
    monkeypatch.setattr(ssl, "create_default_context", lambda: plain)
    page = fetch("https://courier.test/article", UNKNOWN)
    assert b"Astrid Vane" in page.body
    assert proxy.asked == ["CONNECT courier.test:443"]
    assert proxy.logins[0] is not None
    assert Plain.hosts == ["courier.test"]


def test_each_redirect_goes_by_the_proxy_too(proxy: ProxySide) -> None:
    page = fetch("http://courier.test/hop/2", UNKNOWN)
    assert page.url == "http://courier.test/article"
    assert len(proxy.asked) == 3


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "a.localhost", "10.0.0.1", "[::1]", "169.254.169.254", "2130706433",
     "0x7f.1", "127.1", "127.0.0.1.", "[::ffff:10.0.0.1]", "\uff11\uff12\uff17.0.0.1",
     "127\u30020\u30020\u30021", "\u24db\u24de\u24d2alhost"],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_address_of_the_own_network_is_not_asked_of_a_proxy(
    proxy: ProxySide, scheme: str, host: str
) -> None:
    with pytest.raises(InputError, match="which is no address of the open Internet"):
        fetch(f"{scheme}://{host}/article", UNKNOWN)
    assert proxy.asked == []


def test_no_proxy_goes_straight_and_is_checked(
    proxy: ProxySide, web: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "inside.test")
    here = Bounds(resolve=lambda *_: ["127.0.0.1"])
    with pytest.raises(InputError, match=r"inside\.test is at 127\.0\.0\.1, which is no address"):
        fetch(f"http://inside.test:{web}/article", here)
    own = Bounds(resolve=lambda *_: ["127.0.0.1"], allow=OwnNetwork())
    assert b"Astrid Vane" in fetch(f"http://inside.test:{web}/article", own).body
    assert proxy.asked == []


def test_what_a_proxy_fetched_leads_nowhere_in(
    proxy: ProxySide, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page redirects to http://inside.test/, which is asked for without the proxy."""
    monkeypatch.setenv("NO_PROXY", "inside.test")
    own = Bounds(resolve=lambda *_: ["10.0.0.1"], allow=OwnNetwork())
    with pytest.raises(InputError, match=r"inside\.test is at 10\.0\.0\.1"):
        fetch("http://courier.test/inside", own)


@pytest.mark.parametrize("status", [403, 407, 502])
def test_a_proxy_that_refuses_is_told(proxy: ProxySide, status: int) -> None:
    proxy.refuses = status
    with pytest.raises(InputError, match=f"cannot be fetched .*{status}.*by the proxy 127") as seen:
        fetch("https://courier.test/article", UNKNOWN)
    assert "cret" not in str(seen.value)
    with pytest.raises(InputError, match=f"answers {status}"):
        fetch("http://courier.test/article", UNKNOWN)


def test_a_proxy_that_is_not_there_is_told(
    proxy: ProxySide, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "127.0.0.1:1")
    with pytest.raises(InputError, match=r"Connection refused, by the proxy 127\.0\.0\.1:1"):
        fetch("https://courier.test/article", UNKNOWN)


@pytest.mark.parametrize(
    "named",
    ["socks5://127.0.0.1:1", "https://me:secret@127.0.0.1", "http://", "http://[::1", "x:y"],
)
def test_what_is_no_proxy_is_refused(
    proxy: ProxySide, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", named)
    with pytest.raises(ConfigError, match="HTTP_PROXY: names no HTTP proxy; give one as") as seen:
        fetch("http://courier.test/article", UNKNOWN)
    assert "secret" not in str(seen.value)


def test_a_name_is_no_address() -> None:
    assert literal("courier.test") is None
    assert literal("127.0.0.1.courier.test") is None
