import base64
import http.client
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_address, ip_network
from math import inf, nan
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from encoder.errors import InputError
from newsift.web.addresses import (
    MAX_WAIT_S,
    PrivateFirst,
    environment_proxy,
    excerpt,
    is_private,
    is_public,
    retry_after,
    seconds_until,
)
from newsift.web.client import RequestLimits, fetch
from tests.worker.fake_web_server import PAGES, Handler, Server, Site, serving
from worker.errors import ConfigError


class Proxy(Server):
    """What it was asked for, where it goes, and what it answers instead if it refuses."""

    def __init__(self, goes_to: int) -> None:
        super().__init__(Proxying)
        self.goes_to, self.refuses = goes_to, 0
        self.asked, self.logins = list[str](), list[str | None]()


class Proxying(Handler):
    server: Proxy

    def do_CONNECT(self) -> None:
        if self._noted():
            self.send_response(200)
            self.end_headers()
            with socket.create_connection(("127.0.0.1", self.server.goes_to)) as there:
                back = threading.Thread(target=copy, args=[there, self.connection])
                back.start()
                copy(self.connection, there)
                back.join()

    def do_GET(self) -> None:
        if self._noted():
            there = http.client.HTTPConnection("127.0.0.1", self.server.goes_to)
            there.request("GET", urlsplit(self.path).path)
            answer = there.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.read())
            there.close()

    def _noted(self) -> bool:
        self.server.asked.append(f"{self.command} {self.path}")
        self.server.logins.append(self.headers["Proxy-Authorization"])
        if self.server.refuses:
            self.send_error(self.server.refuses)
        return not self.server.refuses


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


INSIDE = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "::/127",
    "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "2001:db8::/32", "64:ff9b:1::/48",
    "::ffff:10.0.0.0/104", "::ffff:127.0.0.0/104", "64:ff9b::192.168.0.0/112", "2002:a00::/24",
    "2001::/32",
]  # fmt: skip


METADATA = ["192.0.0.192", "168.63.129.16", "100.100.100.200", "169.254.169.254", "fd00:ec2::254",
            "::ffff:168.63.129.16", "2002:a83f:8110::", "64:ff9b::192.0.0.192"]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]


@pytest.mark.parametrize("address", METADATA + PUBLIC)
def test_addresses_of_the_internet_are_public_but_a_cloud_s_metadata(address: str) -> None:
    assert is_public(address) == (address in PUBLIC)
    assert not is_private(address)


def address_in(network: str, data: st.DataObject) -> str:
    net = ip_network(network)
    address = data.draw(st.integers(0, net.num_addresses - 1))
    return str(ip_address(int(net.network_address) + address))


@given(st.sampled_from(INSIDE), st.data())
def test_no_address_of_these_networks_is_public(network: str, data: st.DataObject) -> None:
    assert not is_public(address_in(network, data))


OWN = [
    "10.0.0.0/8", "100.64.0.0/12", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128",
    "fc00::/8", "fd12::/16", "fec0::/10", "::ffff:10.0.0.0/104", "64:ff9b::192.168.0.0/112",
]  # fmt: skip
NOBODYS = ["0.0.0.0/32", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4", "fe80::/10", "ff00::/8",
           "::/128", "fd00:ec2::/32", "::ffff:169.254.0.0/112"]  # fmt: skip


@given(st.sampled_from(OWN), st.sampled_from(NOBODYS), st.data())
def test_only_addresses_of_own_networks_are_inside(
    own: str, nobodys: str, data: st.DataObject
) -> None:
    assert is_private(address_in(own, data))
    assert not is_private(address_in(nobodys, data))


def test_a_page_outside_does_not_lead_inside() -> None:
    allow = PrivateFirst()
    addresses = ["10.0.0.1", "192.168.0.1", "169.254.169.254", "8.8.8.8", "10.0.0.1", "1.1.1.1"]
    assert [allow(URL("http://a.test"), each) for each in addresses] == [
        True,
        True,
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), ("0", 0), ("", 0), ("-3", 0), ("soon", 0), ("9" * 5000, MAX_WAIT_S),
     ("²", 0), ("Wed, 01 Jan 2020 00:00:00 GMT", 0), ("Fri, 31 Dec 9999 23:59:59 GMT", 3600)],
)  # fmt: skip
def test_retry_after_is_read_and_bounded(header: str, seconds: float) -> None:
    assert retry_after({"Retry-After": header}) == seconds
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 40 < retry_after({"Retry-After": soon}) <= 100


@pytest.mark.parametrize(
    ("moment", "date", "seconds"),
    [(700.0, "Thu, 01 Jan 1970 00:10:00 GMT", 100), (500.0, "Thu, 01 Jan 1970 00:10:00 GMT", 0),
     (inf, "", MAX_WAIT_S), (nan, "", 0), (1e9, "yesterday", 0)],
)  # fmt: skip
def test_the_clock_of_the_server_decides_how_long_to_wait(
    moment: float, date: str, seconds: float
) -> None:
    assert seconds_until(moment, {"Date": date}) == seconds


def test_an_excerpt_is_short_and_printable() -> None:
    assert excerpt(b"a\x1b[2J\nb\xff" + b"c" * 999)[:12] == "a [2J b\ufffdcccc"
    assert len(excerpt("x" * 999)) == 200


@pytest.fixture(scope="module")
def web() -> Iterator[int]:
    with serving(Site(PAGES)) as site:
        yield site.server_port


@pytest.fixture
def proxy(web: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with serving(Proxy(web)) as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://me:s%40cret@127.0.0.1:{proxy.server_port}")
        yield proxy


UNKNOWN = RequestLimits(
    resolve=lambda host, _: pytest.fail(host)
)  # only the proxy knows where anything is


def test_a_page_and_its_redirects_come_through_the_proxy(proxy: Proxy) -> None:
    page = fetch("http://courier.test/hop/2", UNKNOWN)
    assert b"Astrid Vane" in page.body
    assert page.url == "http://courier.test/article"
    assert proxy.asked[0] == "GET http://courier.test/hop/2"
    login = "Basic " + base64.b64encode(b"me:s@cret").decode()
    assert proxy.logins == [login] * 3


def test_a_secure_page_comes_through_a_tunnel(proxy: Proxy) -> None:
    """What is behind the proxy speaks no TLS, so the handshake fails."""
    with pytest.raises(InputError, match="cannot be fetched"):
        fetch("https://courier.test/article", UNKNOWN)
    assert proxy.asked == ["CONNECT courier.test:443"]
    assert proxy.logins[0] is not None


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "a.localhost", "10.0.0.1", "[::1]", "169.254.169.254", "2130706433",
     "0x7f.1", "127.1", "127.0.0.1.", "[::ffff:10.0.0.1]", "\uff11\uff12\uff17.0.0.1",
     "127\u30020\u30020\u30021", "\u24db\u24de\u24d2alhost"],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_address_of_the_own_network_is_refused_before_a_proxy(
    proxy: Proxy, scheme: str, host: str
) -> None:
    with pytest.raises(InputError, match="is not a public address"):
        fetch(f"{scheme}://{host}/article", UNKNOWN)
    assert proxy.asked == []


def test_no_proxy_goes_straight_and_is_checked(
    proxy: Proxy, web: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "inside.test")
    here = RequestLimits(resolve=lambda *_: ["127.0.0.1"])
    with pytest.raises(InputError, match=r"inside\.test is at 127\.0\.0\.1, which is not a public"):
        fetch(f"http://inside.test:{web}/article", here)
    own = RequestLimits(resolve=lambda *_: ["127.0.0.1"], allow=PrivateFirst())
    assert b"Astrid Vane" in fetch(f"http://inside.test:{web}/article", own).body
    assert proxy.asked == []


def test_a_page_from_a_proxy_does_not_lead_inside(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page redirects to http://inside.test/, which is asked for without the proxy."""
    monkeypatch.setenv("NO_PROXY", "inside.test")
    own = RequestLimits(resolve=lambda *_: ["10.0.0.1"], allow=PrivateFirst())
    with pytest.raises(InputError, match=r"inside\.test is at 10\.0\.0\.1"):
        fetch("http://courier.test/inside", own)


@pytest.mark.parametrize("status", [403, 407, 502])
def test_a_proxy_that_refuses_is_reported_without_its_login(proxy: Proxy, status: int) -> None:
    proxy.refuses = status
    with pytest.raises(
        InputError, match=f"cannot be fetched .*{status}.*by the proxy 127"
    ) as records:
        fetch("https://courier.test/article", UNKNOWN)
    assert "cret" not in str(records.value)
    with pytest.raises(InputError, match=f"answers {status}"):
        fetch("http://courier.test/article", UNKNOWN)


def test_an_unreachable_proxy_is_reported(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "127.0.0.1:1")
    with pytest.raises(InputError, match=r"Connection refused, by the proxy 127\.0\.0\.1:1"):
        fetch("https://courier.test/article", UNKNOWN)


@pytest.mark.usefixtures("no_proxy")
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
    for key, value in env.items():
        monkeypatch.setenv(key, value)
    result = environment_proxy(URL(url))
    assert (result and str(result)) == proxy


@pytest.mark.usefixtures("no_proxy")
@pytest.mark.parametrize(
    "name", ["socks5://user:secret@p:1", "https://me:secret@127.0.0.1", "http://", "http://[::1"]
)
def test_another_kind_of_proxy_is_refused_without_its_login(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", name)
    with pytest.raises(ConfigError, match=r"^HTTPS_PROXY: names no HTTP proxy") as caught:
        environment_proxy(URL("wss://h"))
    assert "secret" not in str(caught.value)
