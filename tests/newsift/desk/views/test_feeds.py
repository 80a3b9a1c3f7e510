import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from encoder.errors import InputError
from encoder.support.files import state_folder
from newsift.desk import feeds as keeping_feed
from newsift.desk.views import feeds as views_feeds
from newsift.web.client import RequestLimits
from newsift.web.polite import PoliteWeb
from tests.broker.clients import until
from tests.newsift.cli.seeds.feed_side import Reply, Site, feed, item, page, seeds_of
from tests.newsift.desk.client import Client, open_desk
from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka
from tests.worker.loaded_once import enc, loaded_once
from tests.worker.web_side import serving

__all__ = ["enc", "loaded_once"]

pytestmark = pytest.mark.usefixtures("site")

ITEMS = item("/a", "Astrid"), item("/b", "Birka", 1)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, read_in_process: None) -> Iterator[Site]:
    monkeypatch.setattr(keeping_feed, "PUBLIC_LIMITS", RequestLimits(allow=lambda _: True))
    for module in (keeping_feed, views_feeds):
        monkeypatch.setattr(module, "PoliteWeb", partial(PoliteWeb, pause_s=0.0))
    monkeypatch.setattr(keeping_feed, "RETRY_S", 0.1)
    with serving(Site()) as result:
        result.replies |= {"/a": page("Astrid"), "/b": page("Birka")}
        result.replies["/feed"] = feed(*ITEMS)
        yield result


def row_of(ask: Client, site: Site) -> dict[str, Any]:
    (row,) = (row for row in ask("/api/feeds") if row["feed"] == f"{site.url}/feed")
    return dict(row)


def followed(ask: Client, site: Site, state: str) -> dict[str, Any]:
    until(lambda: row_of(ask, site)["state"] == state)
    return row_of(ask, site)


def test_a_preview_publishes_nothing(
    ask: Client, site: Site, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views_feeds, "PREVIEW_ARTICLES", 2)
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
    assert text["messages"] == []
    assert len(kafka.records(SEEDS)) == 1
    assert ask("/api/feeds") == []
    assert not state_folder().exists()


@pytest.mark.parametrize(
    ("endpoint", "values", "text"),
    [
        ("preview", {"feed": "{url}/a"}, "not a feed"),
        ("preview", {"feed": "file:///etc/passwd"}, "is not an address of the web"),
        ("follow", {"keep": "14"}, "keep '14': is not a span"),
        ("follow", {"event": "x" * 300}, "event: 300 characters"),
    ],
)
def test_an_invalid_feed_is_refused(
    ask: Client, site: Site, endpoint: str, values: dict[str, str], text: str
) -> None:
    values = {"feed": "{url}/feed"} | values
    with pytest.raises(InputError, match=text):
        ask(f"/api/feeds/{endpoint}", **{k: v.format(url=site.url) for k, v in values.items()})


def test_a_feed_of_the_own_network_is_refused(
    ask: Client, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping_feed, "PUBLIC_LIMITS", RequestLimits())
    with pytest.raises(InputError, match="is not a public address"):
        ask("/api/feeds/preview", feed=f"{site.url}/feed")
    ask("/api/feeds/follow", feed=f"{site.url}/feed")
    row = followed(ask, site, "ended")
    assert "is not a public address" in row["why"]
    assert site.asked == []


def test_a_feed_is_followed_as_the_command_follows_it(
    ask: Client, site: Site, kafka: Kafka, newsift: Command
) -> None:
    ask("/api/feeds/follow", feed=f"{site.url}/feed", event="ferry", keep="7d")
    row = followed(ask, site, "waiting")
    assert (row["articles"], row["seed_articles"], row["event"]) == (2, 2, "ferry")
    assert len(row["seeds"]) == 2
    assert "new 2" in row["messages"][0]["text"]
    result = seeds_of(kafka)
    assert result.keys() == {"fire-on-the-astrid", "fire-on-the-birka"}
    assert all(value["event"] == "ferry" for value in result.values())
    with pytest.raises(InputError, match="is followed already"):
        ask("/api/feeds/follow", feed=f"{site.url}/feed")
    done = newsift("seeds", "follow", f"{site.url}/feed", "--once")
    assert done.code == 2
    assert "is in use by another command" in done.err


def test_a_restarted_desk_resumes_its_feeds(ask: Client, site: Site, kafka: Kafka) -> None:
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
