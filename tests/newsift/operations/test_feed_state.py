from pathlib import Path

import msgspec
import pytest

from encoder.errors import InputError
from newsift.operations.feeds import (
    MAX_ARTICLES,
    MAX_RETRIES,
    FeedState,
    link_identity,
    read_feed_state,
)
from newsift.web.feeds import Entry
from worker.posts.times import HOUR_MS

KEEP = 14 * 24 * HOUR_MS
NOW = 1_800_000_000_000
FEED = "https://news.test/feed"


def entry(name: object, published: int | None = NOW) -> Entry:
    return Entry(f"https://news.test/{name}", f"Title {name}", published, "m")


def followed(*entries: Entry, at: int = NOW) -> FeedState:
    result = FeedState(FEED)
    result.note(entries, at, KEEP)
    return result


def test_the_newest_articles_are_due_first_up_to_a_number() -> None:
    result = followed(entry("a", NOW - 5), entry("b"), entry("c", NOW - 9), entry("d", NOW - 1))
    assert [article.link[-1] for article in result.due_articles(NOW, KEEP, 3)] == ["b", "d", "a"]


def test_a_time_in_the_future_is_now_and_one_that_is_missing_is_when_it_was_first_seen() -> None:
    result = followed(entry("a", NOW + KEEP), entry("b", None))
    result.note([entry("a", NOW + KEEP), entry("b", None)], NOW + HOUR_MS, KEEP)
    assert [article.published_at for article in result.articles.values()] == [NOW, NOW]


@pytest.mark.parametrize(("age", "due"), [(KEEP - 1, 1), (KEEP, 0), (2 * KEEP, 0)])
def test_an_old_article_is_not_due(age: int, due: int) -> None:
    assert len(followed(entry("a", NOW - age)).due_articles(NOW, KEEP, 9)) == due
    later = followed(entry("a"))
    later.note([entry("a")], NOW + age, KEEP)
    assert len(later.due_articles(NOW + age, KEEP, 9)) == due


def test_a_failing_article_is_tried_a_limited_number_of_times() -> None:
    (article,) = followed(entry("a")).articles.values()
    minutes = []
    for minute in range(5000):
        now = NOW + minute * HOUR_MS // 60
        if article.due(now):
            minutes.append(minute)
            article.count_read(now)
            article.retry(now)
    assert minutes == [0, 15, 45, 105, 225, 465, 945]
    assert len(minutes) == MAX_RETRIES + 1


def test_an_article_is_remembered_until_its_seed_is_deleted() -> None:
    result = followed(entry("a"), entry("b"))
    result.articles["news.test/a"].seed = "seed"
    result.note([], NOW + 2 * KEEP, KEEP)
    assert [*result.articles] == ["news.test/a"]
    result.articles["news.test/a"].leave()
    result.note([], NOW + 2 * KEEP, KEEP)
    assert result.articles == {}


def test_forgets_articles_that_the_feed_no_longer_names() -> None:
    result = followed(entry("a"), entry("b"))
    result.note([entry("b")], NOW + KEEP // 2, KEEP)
    assert len(result.articles) == 2
    result.note([entry("c", NOW + KEEP + 1)], NOW + KEEP + 1, KEEP)
    assert [article.link[-1] for article in result.articles.values()] == ["c", "b"]


def test_a_feed_that_names_others_each_time_fills_no_memory() -> None:
    result = FeedState(FEED)
    for day in range(25):
        result.note([entry(f"{day}-{n}") for n in range(1000)], NOW + day, KEEP)
    assert len(result.articles) == MAX_ARTICLES
    assert min(article.seen_at for article in result.articles.values()) == NOW + 15


def test_the_state_is_read_as_it_was_stored_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    stored = followed(entry("a"), entry("ü"))
    stored.etag, stored.interval = '"x"', 3.0
    file.write_bytes(msgspec.json.encode(stored))
    assert read_feed_state(FEED, file) == stored
    for junk in (b"", b"{", b"[]", b"\xff"):
        file.write_bytes(junk)
        with pytest.raises(InputError, match="is not a state of a feed; move it away"):
            read_feed_state(FEED, file)


@pytest.mark.parametrize(("left", "hours"), [(False, [0, 1, 2, 4, 7, 11, 16]), (True, [])])
def test_an_article_that_always_changes_is_read_less_and_less(left: bool, hours: list[int]) -> None:
    result = followed(entry("a"))
    (article,) = result.articles.values()
    if left:
        article.leave()
    read = []
    for hour in range(20):
        if left and hour == 9:
            article.count_read(NOW)  # a read that ends in leaving it counts too
        result.note([entry("a")._replace(digest=str(hour))], NOW + hour * HOUR_MS, KEEP)
        if article.due(NOW + hour * HOUR_MS):
            read.append(hour)
            article.count_read(NOW + hour * HOUR_MS)
    assert read == hours


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://news.test/ferry", "http://www.news.test/ferry/?utm_source=rss#x", True),
        ("https://news.test/?p=1", "https://news.test/?p=1&fbclid=x", True),
        ("https://news.test/?p=1", "https://news.test/?p=2", False),
        ("http://[::1", "http://[::1", True),
        ("javascript:a", "javascript:b", False),
    ],
)
def test_an_article_is_known_by_any_spelling_of_its_address(
    one: str, other: str, same: bool
) -> None:
    assert (link_identity(one) == link_identity(other)) == same
