import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

import pytest
from yarl import URL

from encoder.errors import InputError
from newsift.files.articles import extract_in_process
from newsift.web.client import RequestLimits, fetch
from tests.worker.command_topics import SEEDS, Kafka
from tests.worker.fake_command import Command
from tests.worker.fake_web_server import ARTICLE, PAGES, Site, dripping, serving

pytestmark = pytest.mark.usefixtures("read_in_process")

HERE = RequestLimits(allow=lambda *_: True)


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    with serving(Site(PAGES)) as site:
        yield site.url


@pytest.mark.parametrize("name", ["article", "gzip", "chunked", "latin", "meta", "hop/5"])
def test_reads_an_article_in_any_transfer_form(web: str, name: str) -> None:
    result = extract_in_process(fetch(f"{web}/{name}", HERE))
    assert result.title == "Fire on the ferry"
    assert result.text.count("nine people are missing") == 8
    assert "Café" in result.text
    assert "Sport" not in result.text
    assert result.url == f"{web}/{'article' if name == 'hop/5' else name}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "answers 404 Not Found"),
        ("pdf", "is application/pdf, not text"),
        ("pdf-as-html", "pdf-as-html: is a PDF; save the text"),
        ("redirect-to-file", "file:///etc/hostname: is not an address of the web"),
        ("brotli", "is packed as 'br'"),
        ("bomb", "is larger than 1 MiB"),
        ("endless", "is larger than 1 MiB"),
        ("broken", "is damaged"),
        ("cut", "ends early"),
        ("cut-gzip", "is damaged or cut off"),
        ("loop", "redirects more than 5 times"),
        ("menu", r"menu: looks like a cookie or consent notice \('Please accept our cookies"),
    ],
)
def test_refuses_what_holds_no_article(web: str, name: str, message: str) -> None:
    small = RequestLimits(max_bytes=2**20, allow=lambda *_: True, max_seconds=20.0)
    with pytest.raises(InputError, match=message):
        extract_in_process(fetch(f"{web}/{name}", small)).require_article(name)


@pytest.mark.parametrize(
    ("scheme", "head", "message"),
    [
        ("http", b"H", "cannot be fetched"),
        ("http", b"HTTP/1.1 200 OK\r\nX: ", "took longer"),
        ("http", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", "took longer"),
        ("https", b"\x16\x03\x03\x40\x00", "took longer"),  # a handshake of 16 KiB is to come
    ],
)
def test_closes_a_connection_that_drips_for_ever(scheme: str, head: bytes, message: str) -> None:
    """Else whoever follows a feed for months would gather such connections."""
    with dripping(head) as (port, broken):
        with pytest.raises(InputError, match=message):
            fetch(f"{scheme}://127.0.0.1:{port}/", replace(HERE, max_seconds=0.3))
        assert broken.wait(30)


def test_every_address_of_a_host_is_checked(web: str) -> None:
    both = RequestLimits(resolve=lambda *_: ["8.8.8.8", "10.0.0.1"])
    with pytest.raises(InputError, match=r"two\.test is at 10\.0\.0\.1"):
        fetch("http://two.test/", both)


def test_a_name_is_resolved_once_and_the_checked_address_is_used() -> None:
    """A second look-up could give another address than the one that was checked."""
    answers = [["127.0.0.1"], ["10.9.9.9"]]
    checked: list[str] = []

    def allow(_: URL, address: str) -> bool:
        checked.append(address)
        return address == "127.0.0.1"

    with serving(Site(PAGES)) as site:
        host = f"moving.test:{site.server_port}"
        limits = RequestLimits(resolve=lambda *_: answers.pop(0), allow=allow)
        assert fetch(f"http://{host}/article", limits).body == ARTICLE.encode()
    assert [headers["Host"] for _, headers in site.asked] == [host]
    assert checked == ["127.0.0.1"]
    assert len(answers) == 1


@pytest.mark.parametrize(
    ("answer", "code", "published"), [("y\n", 0, 1), ("n\n", 0, 0), ("\n", 0, 0), ("", 130, 0)]
)
def test_shows_the_page_and_asks_before_it_publishes(
    newsift: Command, kafka: Kafka, web: str, monkeypatch: pytest.MonkeyPatch,
    answer: str, code: int, published: int,
) -> None:  # fmt: skip
    monkeypatch.setattr("newsift.operations.seed_drafts.fetch", lambda url, _: fetch(url, HERE))
    for name in ("seeds", "seed_publication"):  # else they import the stand-in, and keep it
        import_module(f"newsift.cli.{name}")
    monkeypatch.setattr("newsift.cli.terminal.at_terminal", lambda: True)
    done = newsift("seeds", "add", "--url", f"{web}/gzip", stdin=answer.encode())
    assert done.code == code
    assert ("interrupted" in done.err) == (code == 130)
    assert ("nothing was published" in done.err) == (code == 0 and not published)
    assert "fire-on-the-ferry" in done.err
    assert "The ferry Astrid Vane burns" in done.err
    assert len(kafka.records(SEEDS)) == published


def test_a_page_becomes_a_seed(newsift: Command, kafka: Kafka, web: str) -> None:
    args = ("seeds", "add", "--url", f"{web}/article", "--yes", "--event", "ferry")
    refused = newsift(*args)
    assert (refused.code, "--intranet" in refused.err) == (2, True)
    assert kafka.records(SEEDS) == []
    assert newsift(*args, "--intranet").code == 0
    (record,) = kafka.records(SEEDS)
    own = {"title": "Fire on the ferry", "url": f"{web}/article", "event": "ferry"}
    assert (record.key, json.loads(record.value).items() >= own.items()) == (
        b"fire-on-the-ferry", True,
    )  # fmt: skip
