"""`newsift seeds follow --once`: what of a feed becomes seeds, and what is asked for again."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.newsift.cli.seeds.feed_side import Reply, Site, feed, item, page, seeds_of
from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka


def test_each_article_is_a_seed(once: Any, site: Site, kafka: Kafka) -> None:
    old, new = page("Astrid"), page("Birka")
    site.replies |= {
        "/a": old, "/b": new,
        "/feed": feed(item("/a?utm_source=rss#top", days=2), item(f"{site.url}/b", "Birka")),
    }  # fmt: skip
    done = once("--event", "ferry", "--keep", "7d")
    assert done.code == 0, done.err
    assert done.err.count("the control topic was read to offset 1, ") == 1
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
    assert site.paths() == ["/feed", "/b", "/a"]  # the newest first
    assert all(("schema", b"newsift.seed/1") in r.headers for r in kafka.records(SEEDS))


def test_an_article_of_too_few_words_is_left_out_and_counted(
    once: Any, site: Site, kafka: Kafka
) -> None:
    short = Reply(
        b"<html><body><p>Port Maren. A ferry burns, and no more for now.</p></body></html>"
    )
    site.replies |= {"/a": short, "/b": page("Birka"), "/feed": feed(item("/a"), item("/b"))}
    done = once()
    assert done.code == 0, done.err
    assert "no seed: " in done.err
    assert "/a: has 10 words, and an article has 40" in done.err
    assert "refused 1, new 1" in done.err
    assert seeds_of(kafka).keys() == {"fire-on-the-birka"}


def test_without_an_event_each_is_its_own(once: Any, site: Site, kafka: Kafka) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"))}
    once()
    (record,) = seeds_of(kafka).values()
    assert record.keys() == {"text", "title", "url", "expires_at"}


def test_who_asks_says_so(once: Any, site: Site) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"))}
    once()
    assert [path for path, _ in site.asked] == ["/robots.txt", "/feed", "/a"]
    assert all("newsift" in requests["User-Agent"] for _, requests in site.asked)


@pytest.mark.parametrize(
    ("sent", "requests"),
    [
        ({"ETag": '"v1"'}, ("If-None-Match", '"v1"')),
        (
            {"Last-Modified": "Fri, 20 Nov 2026 08:30:00 GMT"},
            ("If-Modified-Since", "Fri, 20 Nov 2026 08:30:00 GMT"),
        ),
    ],
)
def test_a_feed_that_is_the_same_is_not_sent_again(
    once: Any, site: Site, kafka: Kafka, sent: dict[str, str], requests: tuple[str, str]
) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"), **sent)}
    once()
    site.asked.clear()
    done = once()
    assert (done.code, done.out) == (0, "")
    assert requests in site.asked[1][1].items()
    assert site.paths() == ["/feed"]
    assert len(kafka.records(SEEDS)) == 1


def test_what_is_known_is_not_read_again_though_the_feed_is_sent_anew(
    once: Any, site: Site, kafka: Kafka
) -> None:
    entry = item("/a", "Astrid")
    site.replies |= {"/a": page("Astrid"), "/b": page("Birka"), "/feed": feed(entry)}
    once()
    site.paths()
    site.replies["/feed"] = feed(item("/b"), entry.replace("/a", "/a?utm_medium=x"))
    assert once().code == 0
    assert site.paths() == ["/feed", "/b"]
    assert len(kafka.records(SEEDS)) == 2


def test_a_corrected_article_replaces_its_text_and_keeps_what_people_set(
    once: Any, site: Site, kafka: Kafka, newsift: Command
) -> None:
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


def test_an_entry_that_says_more_of_the_same_article_changes_nothing(
    once: Any, site: Site, kafka: Kafka
) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"))}
    once()
    site.replies["/feed"] = feed(item("/a", said="More"))
    site.paths()
    assert once().out == ""
    assert site.paths() == ["/feed", "/a"]
    site.replies["/feed"] = feed(item("/a", said="And more"))
    assert once().out == ""
    assert site.paths() == ["/feed"]  # for a while
    assert len(kafka.records(SEEDS)) == 1


@pytest.mark.parametrize("change", ["remove", "rewrite"])
def test_what_people_did_with_a_seed_stays(
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


def test_one_article_under_several_links_is_one_seed(once: Any, site: Site, kafka: Kafka) -> None:
    links = ["/a", "/a#x", "/a?utm_source=rss", f"{site.url.upper()}/a", "/same", "/moved"]
    site.replies |= {
        "/a": page("Astrid"), "/same": page("Astrid"),
        "/moved": Reply(status=302, headers={"Location": "/a"}),
        "/feed": feed(*(item(link, days=day / 10) for day, link in enumerate(links))),
    }  # fmt: skip
    done = once()
    assert done.code == 0
    assert len(seeds_of(kafka)) == 1
    assert site.paths() == ["/feed", "/a", "/same", "/moved", "/a"]
    assert "there already 2" in done.err


@pytest.mark.parametrize("by", ["link", "text"])
def test_what_somebody_else_has_added_is_not_added_again(
    once: Any, site: Site, kafka: Kafka, by: str
) -> None:
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


def test_two_articles_of_one_title_are_two_seeds(once: Any, site: Site, kafka: Kafka) -> None:
    other = page("Astrid", "Another day, another fire: this time nobody was hurt at all. " * 5)
    site.replies |= {"/a": page("Astrid"), "/b": other, "/feed": feed(item("/a"), item("/b"))}
    once()
    names = sorted(seeds_of(kafka))
    assert len(names) == 2
    assert names[1].startswith(f"{names[0]}-")


def test_what_is_too_old_is_left_out(once: Any, site: Site, kafka: Kafka) -> None:
    site.replies |= {"/a": page("A"), "/feed": feed(item("/a", days=8), item("/b", days=6.9))}
    once("--keep", "7d")
    assert site.paths() == ["/feed", "/b"]


def test_so_many_at_a_time_and_the_others_next_time(once: Any, site: Site, kafka: Kafka) -> None:
    names = [f"/{letter}" for letter in "abcde"]
    entries = [item(name, days=day / 10) for day, name in enumerate(names)]
    site.replies |= {name: page(f"Ferry {name[1:]}") for name in names}
    site.replies["/feed"] = feed(*entries, ETag="x")
    requests = []
    for _ in range(4):
        assert once("--most", "2").code == 0
        requests.append(site.paths()[1:])
    assert requests == [names[:2], names[2:4], names[4:], []]
    assert len(seeds_of(kafka)) == 5


def test_a_dry_run_publishes_and_keeps_nothing(
    once: Any, site: Site, kafka: Kafka, tmp_path: Path
) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"))}
    done = once("--dry-run")
    assert done.code == 0
    assert "would be new  Fire on the Astrid" in done.out
    assert seeds_of(kafka) == {}
    assert not (tmp_path / "state").exists()
