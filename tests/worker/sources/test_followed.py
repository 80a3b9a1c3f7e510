"""What is known of a feed's articles: which are new, which are due, and what is forgotten."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError
from worker.sources.feed import Entry
from worker.sources.followed import (
    HOUR,
    MOST_KNOWN,
    TRIES,
    Followed,
    FollowedArticle,
    read_followed,
)

KEEP = 14 * 24 * HOUR
NOW = 1_800_000_000_000
FEED = "https://news.test/feed"


def entry(name: object, published: int | None = NOW, mark: str = "m") -> Entry:
    return Entry(f"https://news.test/{name}", f"Title {name}", published, mark)


def followed(*entries: Entry, at: int = NOW) -> Followed:
    found = Followed(FEED, FEED)
    found.note(entries, at, KEEP)
    return found


def links(due: list[FollowedArticle]) -> list[str]:
    return [known.link.rpartition("/")[2] for known in due]


def test_new_ones_are_due_the_newest_first_and_so_many() -> None:
    found = followed(entry("a", NOW - 5), entry("b"), entry("c", NOW - 9), entry("d", NOW - 1))
    assert links(found.due(NOW, KEEP, 3)) == ["b", "d", "a"]


def test_a_time_in_the_future_is_now_and_one_that_is_missing_is_when_it_was_first_seen() -> None:
    found = followed(entry("a", NOW + KEEP), entry("b", None))
    found.note([entry("a", NOW + KEEP), entry("b", None)], NOW + HOUR, KEEP)
    assert [known.published for known in found.articles.values()] == [NOW, NOW]


@pytest.mark.parametrize(("age", "due"), [(KEEP - 1, 1), (KEEP, 0), (2 * KEEP, 0)])
def test_what_would_have_ended_already_is_not_due(age: int, due: int) -> None:
    assert len(followed(entry("a", NOW - age)).due(NOW, KEEP, 9)) == due
    later = followed(entry("a"))
    later.note([entry("a")], NOW + age, KEEP)
    assert len(later.due(NOW + age, KEEP, 9)) == due


def hours(known: FollowedArticle, until: int, seed: bool) -> list[int]:
    """The hours at which an article is read, told one by one."""
    known.seed = "seed" if seed else None
    read = []
    for hour in range(until):
        if known.due(NOW + hour * HOUR):
            read.append(hour)
            known.tried(NOW + hour * HOUR)
    return read


def test_a_seed_s_article_is_read_again_ever_more_seldom() -> None:
    (known,) = followed(entry("a")).articles.values()
    assert hours(known, 100, seed=True) == [0, 6, 18, 36, 60, 90]


def test_what_is_left_alone_is_not_read_again() -> None:
    (known,) = followed(entry("a")).articles.values()
    known.leave()
    assert hours(known, 1000, seed=False) == []


def test_what_no_seed_was_made_of_is_not_read_again() -> None:
    (known,) = followed(entry("a")).articles.values()
    assert hours(known, 1000, seed=False) == [0]


def test_what_fails_for_now_is_tried_so_often_and_no_more() -> None:
    (known,) = followed(entry("a")).articles.values()
    minutes = []
    for minute in range(5000):
        now = NOW + minute * HOUR // 60
        if known.due(now):
            minutes.append(minute)
            known.tried(now, failing=True)
    assert minutes == [0, 15, 45, 105, 225, 465, 945]
    assert len(minutes) == TRIES + 1


def test_an_entry_that_says_something_new_is_due_at_once_and_then_more_seldom() -> None:
    found = followed(entry("a"))
    (known,) = found.articles.values()
    known.tried(NOW)
    at = []
    for minute in range(0, 400, 10):
        now = NOW + minute * HOUR // 60
        found.note([entry("a", mark=str(minute))], now, KEEP)
        if known.due(now):
            at.append(minute)
            known.tried(now)
    assert at == [0, 60, 180, 360]


def test_one_that_changes_at_each_look_is_read_a_few_dozen_times_while_it_is_a_seed() -> None:
    found, looks = followed(entry("a")), 0
    (known,) = found.articles.values()
    for now in range(NOW, NOW + KEEP, HOUR // 4):
        found.note([entry("a", mark=str(now))], now, KEEP)
        for known in found.due(now, KEEP, 20):
            known.seed, looks = "seed", looks + 1
            known.tried(now)
    assert 10 < looks < 30


def test_an_article_is_known_until_its_seed_is_deleted() -> None:
    found = followed(entry("a"), entry("b"))
    found.articles["news.test/a"].seed = "seed"
    assert found.ended(NOW + KEEP - 1, KEEP) == []
    found.note([], NOW + 2 * KEEP, KEEP)
    assert links(found.ended(NOW + KEEP, KEEP)) == ["a"]
    found.articles["news.test/a"].leave()
    found.note([], NOW + 2 * KEEP, KEEP)
    assert found.articles == {}


def test_what_the_feed_no_longer_names_is_not_read_again() -> None:
    found = followed(entry("a"), entry("b"))
    found.note([entry("b")], NOW + HOUR, KEEP)
    assert links(found.due(NOW + HOUR, KEEP, 9)) == ["b"]


def test_what_was_not_named_for_long_is_forgotten_and_the_others_are_not() -> None:
    found = followed(entry("a"), entry("b"))
    found.note([entry("b")], NOW + KEEP // 2, KEEP)
    assert len(found.articles) == 2
    found.note([entry("c", NOW + KEEP + 1)], NOW + KEEP + 1, KEEP)
    assert [known.link[-1] for known in found.articles.values()] == ["b", "c"]


def test_a_feed_that_names_others_each_time_fills_no_memory() -> None:
    found = Followed(FEED, FEED)
    for day in range(25):
        found.note([entry(f"{day}-{n}") for n in range(1000)], NOW + day, KEEP)
    assert len(found.articles) == MOST_KNOWN
    assert min(known.seen for known in found.articles.values()) == NOW + 15


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=12))
def test_what_is_new_is_what_no_round_has_named(rounds: list[tuple[int, int]]) -> None:
    found, seen = Followed(FEED, FEED), set[int]()
    for step, (begin, count) in enumerate(rounds):
        names = list(range(begin, begin + count))
        fresh = found.note([entry(name) for name in names], NOW + step, KEEP)
        assert fresh == len(set(names) - seen)
        seen |= set(names)


def test_it_is_read_as_it_was_stored() -> None:
    found = followed(entry("a"), entry("ü"))
    found.etag, found.failures = '"x"', 3
    assert read_followed(msgspec.json.encode(found), "here") == found


@given(st.binary(max_size=60))
def test_any_bytes_are_no_state_of_a_feed(junk: bytes) -> None:
    with pytest.raises(InputError, match="here: is no state of a feed; move it away"):
        read_followed(junk, "here")
