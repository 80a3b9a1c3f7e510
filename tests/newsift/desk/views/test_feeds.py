"""Feeds that the desk looks at, follows, and goes on with when it is opened again."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from encoder.errors import InputError
from encoder.support.files import state_folder
from newsift.desk import feeds as keeping_feed
from newsift.desk.feeds import FeedList
from newsift.desk.views import feeds as views_feeds
from newsift.operations.feeds import default_feed_state, feed_state
from newsift.web.client import Bounds
from newsift.web.polite import PoliteWeb
from tests.newsift.cli.seeds.feed_side import Reply, Site, feed, item, news_site, page, seeds_of
from tests.newsift.desk.client import Client, open_desk, until
from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka
from tests.worker.loaded_once import enc, loaded_once
from worker.config import load_config

__all__ = ["enc", "loaded_once"]

ITEMS = item("/a", "Astrid"), item("/b", "Birka", 1)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, read_in_process: None) -> Iterator[Site]:
    """A site of this machine, as if it stood in the open web and did not mind haste."""
    monkeypatch.setenv("NEWSIFT_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(keeping_feed, "OPEN", Bounds(allow=lambda _: True))
    for module in (keeping_feed, views_feeds):
        monkeypatch.setattr(module, "PoliteWeb", partial(PoliteWeb, pause=0.0))
    monkeypatch.setattr(keeping_feed, "RETRY_S", 0.1)
    with news_site() as result:
        result.replies |= {"/a": page("Astrid"), "/b": page("Birka")}
        result.replies["/feed"] = feed(*ITEMS)
        yield result


@pytest.fixture
def ask(site: Site, kafka: Kafka) -> Iterator[Client]:
    with open_desk(model=True) as desk:
        yield Client(desk)


def row_of(ask: Client, site: Site) -> dict[str, Any]:
    (row,) = (row for row in ask("/api/feeds") if row["feed"] == f"{site.url}/feed")
    return dict(row)


def followed(ask: Client, site: Site, state: str) -> dict[str, Any]:
    """What is shown of the feed, once it is in this state."""
    until(lambda: row_of(ask, site)["state"] == state)
    return row_of(ask, site)


def test_what_a_feed_names_is_shown_and_nothing_published(
    ask: Client, site: Site, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views_feeds, "SAMPLE", 2)
    kafka.send(SEEDS, json.dumps({"text": "x", "url": f"{site.url}/old"}).encode(), b"mine")
    site.replies["/feed"] = feed(
        item("/a", "Astrid"), item("/menu", "Menu", 1), item("/b", "Birka", 2),
        item("/old?utm_source=rss", "Old", 3), item("/over", "Over", 20),
    )  # fmt: skip
    site.replies["/menu"] = Reply(b"<html><body><p>We use cookies.</p></body></html>")
    text = ask("/api/feeds/preview", feed=f"{site.url}/feed", event="ferry")
    states = [(row["title"], row["state"]) for row in text["articles"]]
    assert states == [
        ("Astrid", "seed"), ("Menu", "refused"), ("Birka", "later"), ("Old", "exists"),
    ]  # fmt: skip
    assert "looks like" in text["articles"][1]["why"]
    assert site.paths() == ["/feed", "/a", "/menu"]
    assert len(kafka.records(SEEDS)) == 1
    assert ask("/api/feeds") == []
    assert not state_folder().exists()


@pytest.mark.parametrize(
    ("path", "kind", "text"),
    [
        ("/a", "text/html", "no feed"),
        ("/gone", "", "answers 404"),
    ],
)
def test_what_is_no_feed_is_told_in_words(
    ask: Client, site: Site, path: str, kind: str, text: str
) -> None:
    with pytest.raises(InputError, match=text):
        ask("/api/feeds/preview", feed=f"{site.url}{path}")
    with pytest.raises(InputError, match="is no address of the web"):
        ask("/api/feeds/preview", feed="file:///etc/passwd")
    with pytest.raises(InputError, match="keep '14': is no span"):
        ask("/api/feeds/follow", feed=f"{site.url}/feed", keep="14")
    with pytest.raises(InputError, match="event: 300 characters"):
        ask("/api/feeds/follow", feed=f"{site.url}/feed", event="x" * 300)


def test_the_own_network_is_not_asked_for(
    ask: Client, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping_feed, "OPEN", Bounds())
    with pytest.raises(InputError, match="is no address of the open Internet"):
        ask("/api/feeds/preview", feed=f"{site.url}/feed")
    ask("/api/feeds/follow", feed=f"{site.url}/feed")
    row = followed(ask, site, "ended")
    assert "is no address of the open Internet" in row["why"]
    assert site.asked == []


def test_a_site_that_wants_long_pauses_is_not_waited_for_by_who_only_looks(
    ask: Client, site: Site
) -> None:
    site.replies["/robots.txt"] = Reply(b"User-agent: *\nCrawl-delay: 60", "text/plain")
    text = ask("/api/feeds/preview", feed=f"{site.url}/feed")
    assert "s between two requests; followed, it gets them" in text["messages"][0]
    assert [row["state"] for row in text["articles"]] == ["later", "later"]
    assert site.paths() == ["/feed"]


def test_a_feed_is_followed_as_the_command_follows_it(
    ask: Client, site: Site, kafka: Kafka, newsift: Command
) -> None:
    ask("/api/feeds/follow", feed=f"{site.url}/feed", event="ferry", keep="7d")
    row = followed(ask, site, "waiting")
    assert (row["articles"], row["seed_articles"], row["event"]) == (2, 2, "ferry")
    assert [each["text"] for each in row["messages"]] == ["new 2"]
    assert len(row["seeds"]) == 2
    assert row["last"]
    result = seeds_of(kafka)
    assert result.keys() == {"fire-on-the-astrid", "fire-on-the-birka"}
    assert all(value["event"] == "ferry" for value in result.values())
    with pytest.raises(InputError, match="is followed already"):
        ask("/api/feeds/follow", feed=f"{site.url}/feed")
    done = newsift("seeds", "follow", f"{site.url}/feed", "--once")
    assert done.code == 2
    assert "is in use by another command" in done.err


def test_one_that_a_command_follows_is_refused_and_one_remembered_waits(
    ask: Client, site: Site, kafka: Kafka
) -> None:
    config = load_config()
    wish = keeping_feed.FeedSubscription(f"{site.url}/feed", None, "14d", "ada")
    file = default_feed_state(wish.feed, config)
    with feed_state(wish.feed, file, dry=False):
        with pytest.raises(InputError, match="is in use by another command"):
            ask("/api/feeds/follow", feed=wish.feed)
        assert ask("/api/feeds") == []
        remembered = FeedList(config, lambda: None)
        remembered._save(lambda before: [*before, wish])
        ask.desk.feeds.start()
        assert "in use by another command" in followed(ask, site, "elsewhere")["why"]
        assert site.asked == []
    followed(ask, site, "waiting")
    assert len(kafka.records(SEEDS)) == 2


def test_a_desk_that_is_opened_again_goes_on_and_reads_nothing_twice(
    ask: Client, site: Site, kafka: Kafka
) -> None:
    ask("/api/feeds/follow", feed=f"{site.url}/feed")
    followed(ask, site, "waiting")
    ask.desk.feeds.stop()
    followed(ask, site, "stopped")
    site.paths()
    site.replies["/c"] = page("Cinderella")
    site.replies["/feed"] = feed(*ITEMS, item("/c", "C"))
    with open_desk() as desk:
        again = Client(desk)
        desk.feeds.start()
        until(lambda: len(seeds_of(kafka)) == 3)
        followed(again, site, "waiting")
        assert site.paths() == ["/feed", "/c"]
        again("/api/feeds/stop", feed=f"{site.url}/feed")
        assert again("/api/feeds") == []
    with open_desk() as desk:
        desk.feeds.start()
        assert Client(desk)("/api/feeds") == []
    assert len(seeds_of(kafka)) == 3


def test_a_feed_that_fails_is_told_of_and_tried_again(
    ask: Client, site: Site, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping_feed, "EVERY_S", 0.1)
    site.replies["/feed"] = Reply(status=503)
    ask("/api/feeds/follow", feed=f"{site.url}/feed")
    until(lambda: row_of(ask, site)["messages"])
    (answer,) = row_of(ask, site)["messages"]
    assert "answers 503" in answer["text"]
    assert "tried again" in answer["text"]
    site.replies["/feed"] = feed(item("/a", "Astrid"))
    until(lambda: len(seeds_of(kafka)) == 1)
    site.replies["/feed"] = Reply(status=410)
    row = followed(ask, site, "ended")
    assert "the feed is gone for good" in row["why"]


def test_an_unforeseen_failure_ends_that_feed_alone_and_is_told(
    ask: Client, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("newsift.operations.feeds.FollowLoop.round", broken)
    ask("/api/feeds/follow", feed=f"{site.url}/feed")
    assert followed(ask, site, "ended")["why"] == "ZeroDivisionError: by zero"


@pytest.mark.parametrize("content", [b"{", b'[{"feed": 1}]', b"\xff" * 2**21])
def test_a_damaged_memory_is_told_and_left_as_it_is(
    ask: Client, site: Site, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = ask.desk.feeds._file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    ask.desk.feeds.start()
    assert "is no list of feeds" in caplog.text
    with pytest.raises(InputError, match="is no list of feeds"):
        ask("/api/feeds/follow", feed=f"{site.url}/feed")
    assert file.read_bytes() == content


def test_two_desks_remember_what_each_was_told(ask: Client, site: Site) -> None:
    config = load_config()
    desks = [FeedList(config, lambda: None) for _ in range(2)]
    for number, each in enumerate(desks):
        each.follow(keeping_feed.FeedSubscription(f"{site.url}/{number}", None, "1d", "ada"))
    for each in desks:
        each.stop()
    assert [wish.feed for wish in desks[0]._saved()] == [f"{site.url}/0", f"{site.url}/1"]
    assert threading.active_count() < 100
