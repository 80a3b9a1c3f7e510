"""What feeds, sites and pages do to whoever follows them: each is told once, and nothing breaks."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from newsift.web.client import Bounds
from tests.newsift.cli.seeds.feed_side import Reply, Site, feed, item, page, seeds_of
from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka

RSS = "application/rss+xml"


def test_a_feed_that_has_moved_for_good_is_asked_where_it_is(once: Any, site: Site) -> None:
    site.replies |= {
        "/feed": Reply(status=301, headers={"Location": "/new"}),
        "/new": Reply(status=302, headers={"Location": "/today"}),
        "/today": feed(),
    }
    assert f"has moved for good, to {site.url}/new" in once().err
    assert site.paths() == ["/feed", "/new", "/today"]
    assert "has moved" not in once().err
    assert site.paths() == ["/new", "/today"]


def test_a_feed_that_is_gone_for_good_is_given_up(once: Any, site: Site) -> None:
    site.replies["/feed"] = Reply(status=410)
    done = once()
    assert done.code == 1
    assert "410 Gone: the feed is gone for good" in done.err


@pytest.mark.parametrize("status", [429, 503])
def test_a_site_that_asks_to_wait_is_left_alone(once: Any, site: Site, status: int) -> None:
    site.replies["/feed"] = Reply(status=status, headers={"Retry-After": "120"})
    assert once().code == 1
    site.replies["/feed"] = feed()
    site.paths()
    done = once()
    assert done.code == 0
    assert "wants to be left alone" in done.err
    assert site.paths() == []


def test_a_feed_that_says_how_often_is_not_asked_more_often(once: Any, site: Site) -> None:
    site.replies |= {"/a": page("A"), "/b": page("B"), "/feed": feed(
        item("/a"), item("/b", days=1), head="<ttl>60</ttl>")}  # fmt: skip
    assert once("--most", 1).code == 0
    site.paths()
    assert once("--most", 1).code == 0
    assert site.paths() == ["/b"]  # what was left of the last time


@pytest.mark.parametrize(
    ("reply", "code", "message"),
    [
        (Reply(status=404), 2, "answers 404 Not Found"),
        (Reply(status=500), 1, "answers 500"),
        (Reply(b"<html><head><link rel='alternate' type='application/atom+xml' href='/atom'>"),
         2, "is no feed, but the page names these: http://127.0.0.1"),
        (Reply(b'{"version": "https://jsonfeed.org/version/1"}', "application/json"), 2,
         "is no feed (RSS or Atom)"),
        (Reply(b"<rss>" + b" " * 6 * 2**20, RSS), 2, "is larger than 5 MiB"),
        (Reply(gzip.compress(b"<rss>" + b" " * 10**8), RSS, headers={"Content-Encoding": "gzip"}),
         2, "is larger than 5 MiB"),
        (Reply(b"x", RSS, headers={"Content-Length": "1000000000000"}), 2, "is larger than 5 MiB"),
        (Reply(b"<rss>", RSS, headers={"Content-Length": "1000"}), 1, "ends early"),
        (Reply(status=302, headers={"Location": "/feed"}), 2, "redirects more than 5 times"),
        (Reply(status=302, headers={"Location": "file:///etc/passwd"}), 2, "no address of the web"),
        (Reply(status=302, headers={"Location": "http://[::1"}), 2, "no address of the web"),
    ],
)  # fmt: skip
def test_a_feed_that_cannot_be_read_is_one_line(
    once: Any, site: Site, kafka: Kafka, reply: Reply, code: int, message: str
) -> None:
    site.replies["/feed"] = reply
    done = once()
    assert (done.code, done.out) == (code, "")
    assert message in done.err.splitlines()[-1]
    assert len(done.err.splitlines()) == 2  # where it keeps what it knows, and this


@pytest.mark.parametrize("feed_url", ["news.test/feed", "ftp://news.test", "javascript:x", ""])
def test_what_is_no_address(newsift: Command, kafka: Kafka, site: Site, feed_url: str) -> None:
    done = newsift("seeds", "follow", feed_url, "--once")
    assert done.code == 2
    assert "is no address of the web" in done.err


LINKS = [
    ("javascript:alert(1)", "is no address of the web"),
    ("file:///etc/passwd", "is no address of the web"),
    ("http://[::1/", "entries without an address that can be read: 1"),
    ("https://me:secret@news.test/", "holds a login"),
    ("/gone", "answers 404"),
    ("/pdf", "is no page of text but application/pdf"),
    ("/menu", "looks like "),
    ("/secret/a", "robots.txt asks programs not to read it"),
]


def test_what_cannot_be_read_is_told_once_and_left(once: Any, site: Site, kafka: Kafka) -> None:
    site.replies |= {
        "/robots.txt": Reply(b"User-agent: *\nDisallow: /secret\n", "text/plain"),
        "/pdf": Reply(b"%PDF", "application/pdf"),
        "/menu": Reply(b"<html><body><p>Please accept our cookies.</p></body></html>"),
        "/secret/a": page("Astrid"), "/good": page("Birka"),
        "/feed": feed(*(item(link) for link, _ in LINKS), item("/good")),
    }  # fmt: skip
    done = once()
    assert done.code == 0
    for _, message in LINKS:
        assert message in done.err
    assert "secret@" not in done.err
    assert seeds_of(kafka).keys() == {"fire-on-the-birka"}
    assert sorted(site.paths()) == ["/feed", "/gone", "/good", "/menu", "/pdf"]
    again = once()
    assert again.code == 0
    assert len(again.err.splitlines()) == 1
    assert site.paths() == ["/feed"]


def test_links_into_the_own_network_are_refused(
    once: Any, site: Site, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feed's own address may be asked, all others of this network not."""

    def resolve(host: str, _port: int) -> list[str]:
        return {"127.0.0.1": ["127.0.0.1"]}.get(host, ["10.0.0.1"])

    bounds = Bounds(resolve=resolve, allow=lambda address: address == "127.0.0.1")
    monkeypatch.setattr("newsift.cli.seeds.PUBLIC_FEEDS", bounds)
    site.replies |= {
        "/feed": feed(item("http://inside.test/"), item("/hop")),
        "/hop": Reply(status=302, headers={"Location": "http://169.254.169.254/latest"}),
    }
    done = once()
    assert done.code == 0
    assert done.err.count("which is no address of the open Internet") == 2
    assert seeds_of(kafka) == {}


def test_with_intranet_the_feed_s_own_host_may_be_inside_and_no_other(
    newsift: Command, site: Site, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newsift.cli.seeds.PUBLIC_FEEDS", Bounds(remedy="!"))
    there = site.url.replace("127.0.0.1", "localhost")
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"), item(f"{there}/b"))}
    refused = newsift("seeds", "follow", f"{site.url}/feed", "--once")
    assert refused.code == 2
    assert "no address of the open Internet; !" in refused.err
    done = newsift("seeds", "follow", f"{site.url}/feed", "--once", "--intranet")
    assert done.code == 0
    assert "localhost is at 127.0.0.1, which is no address" in done.err
    assert seeds_of(kafka).keys() == {"fire-on-the-astrid"}


def test_a_page_that_fails_for_now_is_tried_again_later(
    once: Any, site: Site, kafka: Kafka, tmp_path: Path
) -> None:
    site.replies |= {"/a": Reply(status=502), "/feed": feed(item("/a"), ETag="x")}
    assert "answers 502" in once().err
    site.replies["/a"] = page("Astrid")
    assert once().code == 0
    assert seeds_of(kafka) == {}
    (state,) = (tmp_path / "state").glob("*.json")
    existing = json.loads(state.read_bytes())
    for article in existing["articles"].values():
        article["read"] -= 20 * 60_000
    state.write_text(json.dumps(existing))
    assert once().code == 0
    assert len(seeds_of(kafka)) == 1


def test_a_title_that_would_steer_a_terminal(once: Any, site: Site, kafka: Kafka) -> None:
    evil = page("Astrid").body.replace(b"Fire on", b"\x1b]0;x\x07\xe2\x80\xaeFire on")
    site.replies |= {"/a": Reply(evil), "/feed": feed(item("/a"), item("javascript:\x85\x9b2J"))}
    done = once()
    assert done.code == 0
    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(done.out + done.err)
    assert len(seeds_of(kafka)) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is no state of a feed"),
        (b"\xff", "is no state of a feed"),
        (b'{"feed": "https://other.test", "address": "https://other.test"}', "is of https://other"),
    ],
)
def test_a_state_that_is_none_of_this_feed(
    once: Any, site: Site, tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "state.json"
    file.write_bytes(content)
    done = once("--state", file)
    assert done.code == 2
    assert message in done.err
    assert file.read_bytes() == content
    assert site.asked == []


def test_without_a_broker_nothing_is_lost(
    once: Any, site: Site, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"), ETag="x")}
    done = once("--kafka", "127.0.0.1:1", "--state", "s.json")
    assert done.code == 1
    assert "127.0.0.1:1" in done.err
    assert site.paths() == ["/feed"]
    assert once("--state", "s.json").code == 0
    assert len(kafka.records(SEEDS)) == 1
