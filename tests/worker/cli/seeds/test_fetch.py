"""Pages of the web: what is taken from them, and what is not asked for at all."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

import worker.cli.seeds.from_url
from encoder.errors import InputError
from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka
from tests.worker.web_side import web_server
from worker.cli.seeds.fetch import Bounds, fetch, is_public, within
from worker.cli.seeds.naming import seed_id
from worker.files.articles.extract import extracted
from worker.files.articles.page import Page, decoded

HERE = Bounds(allow=lambda _: True)


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    with web_server() as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("name", ["article", "gzip", "chunked", "latin", "meta", "hop/5"])
def test_an_article_however_it_is_sent(web: str, name: str) -> None:
    found = extracted(fetch(f"{web}/{name}", HERE))
    assert found.title == "Fire on the ferry"
    assert found.text.count("nine people are missing") == 8
    assert "Café" in found.text
    assert "Sport" not in found.text
    assert found.url or "".startswith(f"{web}/{'article' if name == 'hop/5' else name}")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "answers 404 Not Found"),
        ("pdf", "is no page of text but application/pdf"),
        ("brotli", "is packed as 'br'"),
        ("deflate", "is packed as 'deflate'"),
        ("bomb", "is larger than 1 MiB"),
        ("claims", "is larger than 1 MiB"),
        ("endless", "is larger than 1 MiB"),
        ("broken", "cannot be fetched"),
        ("cut", "bytes early"),
        ("cut-gzip", "ends early"),
        ("loop", "redirects more than 5 times"),
        ("hop/7", "redirects more than 5 times"),
        ("file", "file:///etc/passwd: is no address of the web"),
        ("menu", r"menu: looks like a cookie or consent notice \('Please accept our cookies"),
    ],
)
def test_what_no_article_can_be_taken_from(web: str, name: str, said: str) -> None:
    small = Bounds(size=2**20, allow=lambda _: True)
    with pytest.raises(InputError, match=said):
        extracted(fetch(f"{web}/{name}", small)).undoubted(name)


def test_a_slow_page_is_given_up(web: str) -> None:
    with pytest.raises(InputError, match=r"took (longer than 0\.3 s|too long)"):
        fetch(f"{web}/slow", Bounds(seconds=0.3, allow=lambda _: True))


def test_what_never_ends_is_given_up() -> None:
    never = threading.Event()
    with pytest.raises(InputError, match=r"longer than 0\.05 s"):
        within(0.05, never.wait, "http://x.y")
    never.set()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://example.org/x", "is no address of the web"),
        ("file:///etc/passwd", "is no address of the web"),
        ("example.org", "is no address of the web"),
        ("http://", "is no address of the web"),
        ("http://[::1", "is no address of the web"),
        ("http://example.org:99999/", "is no address of the web"),
        ("http://me:secret@example.org/", "holds a login"),
    ],
)
def test_addresses_that_are_not_fetched(url: str, said: str) -> None:
    def no_host_is_looked_up(host: str, port: int) -> list[str]:
        raise AssertionError(host)

    with pytest.raises(InputError, match=said) as caught:
        fetch(url, Bounds(resolve=no_host_is_looked_up))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "[::1]", "169.254.169.254"])
def test_this_machine_and_its_network_are_not_asked(web: str, host: str) -> None:
    port = web.rpartition(":")[2]
    with pytest.raises(InputError, match="no address of the open Internet"):
        fetch(f"http://{host}:{port}/article")


def test_every_address_of_a_host_is_checked(web: str) -> None:
    both = Bounds(resolve=lambda *_: ["8.8.8.8", "10.0.0.1"])
    with pytest.raises(InputError, match=r"two\.test is at 10\.0\.0\.1"):
        fetch("http://two.test/", both)


def test_a_redirect_into_the_network_is_not_followed(web: str) -> None:
    """The first host may be asked, the second not."""
    asked: list[str] = []

    def resolve(host: str, _: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if host == "127.0.0.1" else ["192.168.1.1"]

    limits = Bounds(resolve=resolve, allow=lambda address: address == "127.0.0.1")
    with pytest.raises(InputError, match=r"inside\.test is at 192\.168\.1\.1"):
        fetch(f"{web}/inside", limits)
    assert asked == ["127.0.0.1", "inside.test"]


def test_a_name_is_resolved_once_and_the_checked_address_is_used(web: str) -> None:
    """A second look-up could give another address than the one that was checked."""
    answers = [["127.0.0.1"], ["10.9.9.9"]]
    checked: list[str] = []

    def allow(address: str) -> bool:
        checked.append(address)
        return address == "127.0.0.1"

    port = web.rpartition(":")[2]
    page = fetch(
        f"http://moving.test:{port}/host", Bounds(resolve=lambda *_: answers.pop(0), allow=allow)
    )
    assert page.body.decode() == f"moving.test:{port}"
    assert checked == ["127.0.0.1"]
    assert len(answers) == 1


def test_a_host_that_nobody_knows(web: str) -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(InputError, match="Name or service not known"):
        fetch("http://no.such.test/", Bounds(resolve=unknown))
    with pytest.raises(InputError, match="the name has no address"):
        fetch("http://no.such.test/", Bounds(resolve=lambda *_: []))


INSIDE = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "::/127",
    "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "2001:db8::/32", "64:ff9b:1::/48",
    "::ffff:10.0.0.0/104", "::ffff:127.0.0.0/104", "64:ff9b::192.168.0.0/112", "2002:a00::/24",
    "2001::/32",
]  # fmt: skip


@pytest.mark.parametrize(
    "address",
    ["192.0.0.192", "168.63.129.16", "100.100.100.200", "169.254.169.254", "fd00:ec2::254",
     "::ffff:168.63.129.16", "2002:a83f:8110::", "64:ff9b::192.0.0.192"],
)  # fmt: skip
def test_no_address_of_a_cloud_s_metadata_is_public(address: str) -> None:
    assert not is_public(address)


@given(st.sampled_from(INSIDE), st.data())
def test_no_address_of_these_networks_is_public(network: str, data: st.DataObject) -> None:
    known = ip_network(network)
    address = data.draw(st.integers(0, known.num_addresses - 1))
    assert not is_public(str(ip_address(int(known.network_address) + address)))


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]
)
def test_addresses_of_the_open_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("é".encode(), None, "é"),
        ("é".encode("latin-1"), "latin-1", "é"),
        (b"\xef\xbb\xbf\xc3\xa9", "latin-1", "é"),
        ("é".encode("utf-16"), None, "é"),
        ("é".encode("cp1252"), "no-such-charset", "é"),
        (b"\x1f\x8b\x08packed twice", None, "\x1f‹\x08packed twice"),
        ("é".encode(), "hex", "é"),
    ],
)
def test_characters_are_found_out(body: bytes, charset: str | None, text: str) -> None:
    assert decoded(Page("http://x.y", body, charset)) == text


@pytest.mark.parametrize(
    ("title", "url", "expected"),
    [
        ("Fire on the Ferry: 9 missing!", "https://x.y/z", "fire-on-the-ferry-9-missing"),
        ("", "https://news.example/2026/ferry-fire.html", "news-example-2026-ferry-fire-html"),
        ("Ж" * 100, "https://x.y", "ж" * 59 + "…"),
        ("word " * 50, "https://x.y", "-".join(["word"] * 12)),
    ],
)
def test_an_id_for_people(title: str, url: str, expected: str) -> None:
    assert seed_id(title, url) == expected


@pytest.fixture
def open_web(web: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The web of this machine, as if it were the open one."""
    monkeypatch.setattr(worker.cli.seeds.from_url, "fetch", partial(fetch, bounds=HERE))
    return web


def test_a_page_becomes_a_seed(newsift: Command, kafka: Kafka, open_web: str) -> None:
    done = newsift("seeds", "add", "--url", f"{open_web}/article", "--yes", "--event", "ferry")
    assert done.code == 0, done.err
    record = kafka.records(SEEDS)[0]
    assert record.key == b"fire-on-the-ferry"
    value = json.loads(record.value)
    assert value | {"title": "Fire on the ferry", "url": f"{open_web}/article"} == value
    assert value["event"] == "ferry"


@pytest.mark.parametrize(
    ("answer", "code", "published"), [("y\n", 0, 1), ("n\n", 0, 0), ("\n", 0, 0), ("", 130, 0)]
)
def test_it_is_shown_and_asked_for(
    newsift: Command, kafka: Kafka, open_web: str, monkeypatch: pytest.MonkeyPatch,
    answer: str, code: int, published: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(worker.cli.seeds.from_url, "at_terminal", lambda: True)
    done = newsift("seeds", "add", "--url", f"{open_web}/gzip", stdin=answer.encode())
    assert done.code == code
    assert ("interrupted" in done.err) == (code == 130)
    assert ("nothing was published" in done.err) == (code == 0 and not published)
    for shown in ("fire-on-the-ferry", "Fire on the ferry", "words", "The ferry Astrid Vane burns"):
        assert shown in done.err
    assert len(kafka.records(SEEDS)) == published


def test_without_a_terminal_it_wants_yes(newsift: Command, kafka: Kafka, open_web: str) -> None:
    done = newsift("seeds", "add", "--url", f"{open_web}/article")
    assert (done.code, done.out) == (2, "")
    assert "give --yes" in done.err
    assert kafka.records(SEEDS) == []


def test_the_command_itself_keeps_out_of_the_network(
    newsift: Command, kafka: Kafka, web: str
) -> None:
    done = newsift("seeds", "add", "--url", f"{web}/article", "--yes")
    assert done.code == 2
    assert "127.0.0.1, which is no address of the open Internet" in done.err
    assert kafka.records(SEEDS) == []
