import json
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from newsift.cli.options import configuration
from newsift.files.articles import MAX_TITLE_CHARS
from newsift.operations.feeds import (
    MAX_ARTICLES,
    MAX_STATE_BYTES,
    MIN_LINGER_MS,
    FeedState,
    FollowedArticle,
    Follower,
    FollowOptions,
    read_feed_state,
)
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import now_ms
from newsift.web.client import RequestLimits
from newsift.web.feeds import Entry, PoliteWeb
from tests.newsift.cli.seeds.news_site import feed, item, page, seeds_of
from tests.worker.command_topics import SEEDS, Kafka
from tests.worker.event_profiles import profile_value
from tests.worker.fake_command import Command
from tests.worker.fake_web_server import Reply, Site
from worker.errors import BrokerError, ConflictError, RunError
from worker.seeds.record import MAX_URL_CHARS

HOUR = 3_600_000
NAME = "fire-on-the-astrid"


def test_each_article_is_a_seed(once: Any, site: Site, kafka: Kafka) -> None:
    old, new = page("Astrid"), page("Birka")
    site.replies |= {
        "/a": old, "/b": new,
        "/feed": feed(item("/a?utm_source=rss#top", days=2), item(f"{site.url}/b", "Birka")),
    }  # fmt: skip
    done = once("--event", "ferry", "--keep", "7d")
    assert done.code == 0, done.err
    result = seeds_of(kafka)
    assert result.keys() == {"fire-on-the-astrid", "fire-on-the-birka"}
    astrid = result["fire-on-the-astrid"]
    assert astrid["url"] == f"{site.url}/a"
    assert (astrid["title"], astrid["event"]) == ("Fire on the Astrid", "ferry")
    assert "nine people are missing" in astrid["text"]
    assert "Home" not in astrid["text"]
    ends = datetime.fromisoformat(astrid["expires_at"])
    assert abs(ends - datetime.now(UTC) - timedelta(days=5)) < timedelta(minutes=5)
    assert [line.split()[2] for line in done.out.splitlines()] == ["new", "new"]
    assert [path for path, _ in site.asked] == ["/robots.txt", "/feed", "/b", "/a"]  # newest first
    assert all("newsift" in headers["User-Agent"] for _, headers in site.asked)
    assert all(("schema", b"newsift.seed/1") in r.headers for r in kafka.records(SEEDS))


def test_asks_for_a_feed_only_if_it_has_changed(once: Any, site: Site, kafka: Kafka) -> None:
    date = "Fri, 20 Nov 2026 08:30:00 GMT"
    answer = feed(item("/a"), **{"ETag": '"v1"', "Last-Modified": date})
    site.replies |= {"/a": page("Astrid"), "/feed": answer}
    once()
    site.asked.clear()
    done = once()
    assert (done.code, done.out) == (0, "")
    request = site.asked[1][1]
    assert (request["If-None-Match"], request["If-Modified-Since"]) == ('"v1"', date)
    assert site.paths() == ["/feed"]
    assert len(kafka.records(SEEDS)) == 1


@pytest.mark.parametrize("value", ['"\xff"', '"\t"', f'"{"x" * 1000}"'])
def test_what_identifies_a_feed_is_kept_only_where_it_can_be_sent_back(
    once: Any, site: Site, kafka: Kafka, value: str
) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"), ETag=value)}
    assert [once().code for _ in range(2)] == [0, 0]
    assert "If-None-Match" not in site.asked[-1][1]
    assert len(kafka.records(SEEDS)) == 1


def test_a_correction_keeps_settings(once: Any, site: Site, kafka: Kafka, newsift: Command) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a", days=1))}
    once("--event", "ferry")
    (name, before), = seeds_of(kafka).items()  # fmt: skip
    newsift("seeds", "set", name, "--threshold", "0.7")
    site.replies["/a"] = page("Astrid", "Correction: eleven people are missing, not nine. " * 5)
    site.replies["/feed"] = feed(item("/a", days=1, said="Corrected"))
    done = once("--event", "ferry")
    assert [line.split()[2] for line in done.out.splitlines()] == ["corrected"]
    after = seeds_of(kafka)[name]
    assert "eleven people" in after["text"]
    assert after == before | {"threshold": 0.7, "text": after["text"]}


@pytest.mark.parametrize("change", ["remove", "rewrite"])
def test_keeps_what_people_did_with_a_seed(
    once: Any, site: Site, kafka: Kafka, newsift: Command, change: str
) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"))}
    once()
    (name,) = seeds_of(kafka)
    done = ["set", name, "--title", "Mine"] if change == "rewrite" else ["remove", name]
    assert newsift("seeds", *done).code == 0
    mine = seeds_of(kafka)
    site.replies["/a"] = page("Astrid", "Correction: eleven people are missing, not nine. " * 5)
    for message in ("Corrected", "Corrected again", "And again"):
        site.replies["/feed"] = feed(item("/a", said=message))
        assert once().out == ""
        assert seeds_of(kafka) == mine


def test_an_article_is_one_seed_under_any_link(once: Any, site: Site, kafka: Kafka) -> None:
    links = ["/a", "/a#x", "/a?utm_source=rss", f"{site.url.upper()}/a", "/same", "/moved", "/b"]
    other = page("Astrid", "Another day, another fire: this time nobody was hurt at all. " * 5)
    site.replies |= {
        "/a": page("Astrid"), "/same": page("Astrid"), "/b": other,
        "/moved": Reply(status=302, headers={"Location": "/a"}),
        "/feed": feed(*(item(link, days=day / 10) for day, link in enumerate(links))),
    }  # fmt: skip
    done = once()
    assert done.code == 0
    assert len(seeds_of(kafka)) == 2  # with the other article of the same title
    assert site.paths() == ["/feed", "/a", "/same", "/moved", "/a", "/b"]
    assert "there already 2" in done.err


@pytest.mark.parametrize("by", ["link", "text"])
def test_does_not_add_an_existing_article(once: Any, site: Site, kafka: Kafka, by: str) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"))}
    once()
    (record,) = seeds_of(kafka).values()
    url = record.pop("url")
    other = {"url": f"{url}?fbclid=1", "text": "mine"} if by == "link" else record
    kafka.send(SEEDS, None, b"fire-on-the-astrid")
    kafka.send(SEEDS, json.dumps(other | {"event": "mine"}).encode(), b"by hand")
    site.paths()
    done = once("--state", "other.json")
    assert (done.code, done.out) == (0, "")
    assert site.paths() == (["/feed"] if by == "link" else ["/feed", "/a"])
    assert seeds_of(kafka).keys() == {"fire-on-the-astrid", "by hand"}
    kafka.send(SEEDS, None, b"by hand")
    site.replies["/feed"] = feed(item("/a", said="More"))
    assert once("--state", "other.json").out == ""  # what people have removed stays so


def test_a_dry_run_publishes_nothing(once: Any, site: Site, kafka: Kafka, tmp_path: Path) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"))}
    done = once("--dry-run")
    assert done.code == 0
    assert "would be new  Fire on the Astrid" in done.out
    assert seeds_of(kafka) == {}
    assert not (tmp_path / "state").exists()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the command believe that so many milliseconds have passed."""

    def wait(span: int) -> None:
        monkeypatch.setattr("newsift.operations.feeds.now_ms", lambda: now_ms() + span)

    return wait


@pytest.fixture
def followed(once: Any, site: Site, kafka: Kafka) -> Any:
    """A feed whose one article is a seed for an hour."""
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"))}
    assert once("--keep", "1h").code == 0
    assert seeds_of(kafka).keys() == {NAME}
    return lambda *more: once("--keep", "1h", *more)


def test_deletes_a_seed_that_ended_long_ago_once(followed: Any, later: Any, kafka: Kafka) -> None:
    later(MIN_LINGER_MS)  # a worker that lags, or a backfill, may still compare posts with it
    assert "deleted" not in followed().err
    later(MIN_LINGER_MS + 2 * HOUR)
    assert "deleted" not in followed("--dry-run").err
    assert seeds_of(kafka)[NAME] is not None
    assert "expired seeds deleted: 1" in followed().err
    assert seeds_of(kafka) == {NAME: None}
    assert "deleted" not in followed().err
    assert len(kafka.records(SEEDS)) == 2


@pytest.mark.parametrize("change", [["--title", "Mine"], ["--expires-at", "never"]])
def test_keeps_a_seed_that_people_changed(
    followed: Any, later: Any, kafka: Kafka, newsift: Command, change: list[str]
) -> None:
    assert newsift("seeds", "set", NAME, *change).code == 0
    later(MIN_LINGER_MS + 2 * HOUR)
    assert followed().code == 0
    assert seeds_of(kafka)[NAME] is not None


def test_keeps_a_seed_as_long_as_its_profile(followed: Any, later: Any, kafka: Kafka) -> None:
    key = b"profile|ferry"
    kafka.send(SEEDS, profile_value("ferry", {NAME: "0" * 12}), key)
    later(MIN_LINGER_MS + 2 * HOUR)
    assert "deleted" not in followed().err
    kafka.send(SEEDS, None, key)
    assert "deleted: 1" in followed().err


def test_adds_no_seed_beyond_the_limit(
    once: Any, site: Site, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_LIMITS__SEEDS", "2")
    kafka.send(SEEDS, b'{"text": "mine"}', b"mine")
    site.replies |= {"/a": page("Astrid"), "/b": page("Berta")}
    site.replies["/feed"] = feed(item("/a"), item("/b"))
    for _ in range(2):  # the second adds none
        done = once()
        assert (done.code, "limits.seeds: 2 are allowed" in done.err) == (1, True)
        assert len(seeds_of(kafka)) == 2


def test_obeys_retry_after(once: Any, site: Site) -> None:
    site.replies["/feed"] = Reply(status=503, headers={"Retry-After": "120"})
    assert once().code == 1
    site.replies["/feed"] = feed()
    site.paths()
    done = once()
    assert done.code == 0
    assert "asks for a pause" in done.err
    assert site.paths() == []


@pytest.mark.parametrize(
    ("reply", "code", "message"),
    [
        (Reply(status=404), 2, "answers 404 Not Found"),
        (Reply(status=410), 2, "410 Gone"),
        (Reply(status=500), 1, "answers 500"),
        (Reply(b"<html><head><link rel='alternate' type='application/atom+xml' href='/atom'>"),
         2, "is not a feed, but the page names these: http://127.0.0.1"),
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


LINKS = [
    ("javascript:alert(1)", "is not an address of the web"),
    ("file:///etc/passwd", "is not an address of the web"),
    ("http://[::1/", "entries without an address: 1"),
    ("https://me:secret@news.test/", "holds a login"),
    ("/gone", "answers 404"),
    ("/short", "has 10 words, and an article has 40"),
    ("/secret/a", "robots.txt asks programs not to read it"),
]


def test_reports_an_unreadable_article_once(once: Any, site: Site, kafka: Kafka) -> None:
    site.replies |= {
        "/robots.txt": Reply(b"User-agent: *\nDisallow: /secret\n", "text/plain"),
        "/short": Reply(b"<html><p>Port Maren. A ferry burns, and no more for now.</p></html>"),
        "/secret/a": page("Astrid"), "/good": page("Birka"),
        "/feed": feed(*(item(link) for link, _ in LINKS), item("/good")),
    }  # fmt: skip
    done = once()
    assert done.code == 0
    for _, message in LINKS:
        assert message in done.err
    assert "secret@" not in done.err
    assert seeds_of(kafka).keys() == {"fire-on-the-birka"}
    assert sorted(site.paths()) == ["/feed", "/gone", "/good", "/short"]
    again = once()
    assert again.code == 0
    assert len(again.err.splitlines()) == 1
    assert site.paths() == ["/feed"]


def test_refuses_the_state_of_another_feed(once: Any, site: Site, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text('{"feed": "https://a.test", "address": "https://a.test"}')
    assert once("--state", file).code == 2
    assert "a.test" in file.read_text()
    assert site.asked == []


def test_the_state_of_a_feed_stays_readable(tmp_path: Path) -> None:
    state, file, now = FeedState("https://a.test/feed"), tmp_path / "state.json", now_ms()
    for first in range(0, MAX_ARTICLES, 1000):
        links = (f"http://a.test/{first + n}" + '"' * 2000 for n in range(1000))
        entries = [Entry(link, "\U0001f525" * 1024, None, f"{first}") for link in links]
        state.note(entries, now + first, keep=HOUR)
        seed = state.articles[f"a.test/{first}{'%22' * 2000}"]
        seed.seed, seed.version = f"s{first}", "1"
    file.write_bytes(msgspec.json.encode(state))
    assert file.stat().st_size < MAX_STATE_BYTES // 2
    assert read_feed_state(state.feed, file) == state
    kept = state.articles.values()
    assert {article.seed for article in kept} == {
        None,
        *(f"s{n}" for n in range(0, first + 1, 1000)),
    }
    assert sum(article.digest == f"{first}" for article in kept) == 1000  # as the feed lists them
    assert {len(article.title) for article in kept} == {MAX_TITLE_CHARS}


def test_seeds_alone_leave_the_state_readable() -> None:
    """Every character that takes the most bytes where it stands, and no article that can go."""
    at, digest, link = now_ms(), "0" * 12, '"' * MAX_URL_CHARS
    article = FollowedArticle(link, "\U0001f525" * MAX_TITLE_CHARS, at, digest, at, seed='"' * 256)
    size = len(msgspec.json.encode([f"a.test/{'%22' * MAX_URL_CHARS}", article]))
    assert MAX_ARTICLES * (size + 100) < MAX_STATE_BYTES


@pytest.fixture
def tour(site: Site, kafka: Kafka, tmp_path: Path) -> Follower:
    web = PoliteWeb(RequestLimits(allow=lambda *_: True), pause_s=0.0)
    existing = FeedState(f"{site.url}/feed")
    plan = FollowOptions("ferry", 14 * 24 * HOUR, 20, every=60.0)
    config = configuration(str(kafka.address), None)
    return Follower(web, existing, plan, config, tmp_path / "follow.json", print)


def again(tour: Follower) -> None:
    tour.feed.wait_until = 0
    tour.run_once()


def test_an_absent_feed_is_reported_once(
    tour: Follower, site: Site, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": Reply(status=503)}
    for _ in range(3):
        again(tour)
    assert capsys.readouterr().err.count("answers 503") == 1
    site.replies["/feed"] = feed(item("/a"))
    again(tour)
    assert "answer again" in capsys.readouterr().err
    assert len(seeds_of(kafka)) == 1


def test_a_page_that_fails_for_now_ends_the_round_and_is_read_again(
    tour: Follower, site: Site, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.replies |= {"/a": Reply(status=503), "/b": page("Birka")}
    site.replies["/feed"] = feed(item("/a"), item("/b", days=1))
    again(tour)
    assert site.paths() == ["/feed", "/a"]
    again(tour)
    assert seeds_of(kafka).keys() == {"fire-on-the-birka"}
    site.replies["/a"] = page("Astrid")
    site.paths()
    monkeypatch.setattr("newsift.operations.feeds.now_ms", lambda: now_ms() + HOUR)
    again(tour)
    assert site.paths() == ["/feed", "/a"]
    assert len(seeds_of(kafka)) == 2


def test_an_absent_broker_is_reported_once_and_loses_nothing(
    tour: Follower, site: Site, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"), ETag="x")}
    there = tour.config
    nobody = replace(there.kafka, bootstrap_servers="127.0.0.1:1")
    tour.config = replace(there, kafka=nobody)
    for _ in range(2):
        again(tour)
    assert capsys.readouterr().err.count("127.0.0.1:1") == 1
    assert "/a" not in site.paths()  # no page is read in vain
    tour.config = there
    again(tour)
    assert len(seeds_of(kafka)) == 1


@pytest.mark.parametrize("error", [BrokerError("it is away"), ConflictError("a seed has changed")])
def test_an_article_that_could_not_be_published_is_read_again(
    tour: Follower, site: Site, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, error: RunError
) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"))}

    def refuse(*_: object) -> None:
        raise error

    with monkeypatch.context() as during:
        during.setattr(SeedTopic, "publish", refuse)
        again(tour)
    assert not seeds_of(kafka)
    again(tour)
    assert len(seeds_of(kafka)) == 1


def test_sigterm_ends_it(site: Site, newsift: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Follower, "run_once", lambda _: signal.raise_signal(signal.SIGTERM))
    done = newsift("seeds", "follow", f"{site.url}/feed", "--every", "1s")
    assert (done.code, "Traceback" in done.err) == (0, False)
