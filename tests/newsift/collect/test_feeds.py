"""Feeds: what their bytes name, the identity of links, and which articles are read."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError
from newsift.collect.feeds import (
    HOUR,
    MOST_ARTICLES,
    MOST_ENTRIES,
    TRIES,
    Entry,
    Followed,
    FollowedArticle,
    NewsFeed,
    clean_link,
    link_identity,
    read_feed,
    read_followed,
)
from newsift.files.apart import run_in_subprocess

LINK = "https://news.test/ferry"


@pytest.mark.parametrize(
    "link",
    [
        f"{LINK}?utm_source=rss&utm_medium=feed",
        f"{LINK}?UTM_Source=rss",
        f"{LINK}#comments",
        f"{LINK}?fbclid=abc&gclid=x#top",
        f"{LINK}?at_medium=RSS&at_campaign=KARANGA",
        f" {LINK}\n",
    ],
)
def test_what_only_counts_readers_is_left_out(link: str) -> None:
    assert clean_link(link) == LINK


@pytest.mark.parametrize("query", ["id=5", "cid=9", "p=1&q=2", "q=a%20b&q=a", "utm=1", "x", "a="])
def test_what_names_the_article_stays(query: str) -> None:
    assert clean_link(f"{LINK}?utm_source=x&{query}&utm_medium=y") == f"{LINK}?{query}"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (LINK, f"{LINK}?utm_source=rss#x", True),
        (LINK, LINK.replace("https", "http"), True),
        (LINK, LINK.replace("news.test", "NEWS.test:443"), True),
        ("https://news.test", "https://news.test/", True),
        (LINK, f"{LINK}?id=1", False),
        (f"{LINK}?id=2", f"{LINK}?id=1", False),
        (LINK, LINK.replace("news", "new"), False),
        (LINK, LINK.replace("ferry", "Ferry"), False),
        (LINK, LINK.replace("news.test", "news.test:8080"), False),
        ("http://[::1", "http://[::1", True),
        ("javascript:a", "javascript:b", False),
    ],
)
def test_which_are_the_same(one: str, other: str, same: bool) -> None:
    assert (link_identity(one) == link_identity(other)) == same


@given(st.text(max_size=60), st.sampled_from(["", "http://", "https://a/", "//"]))
def test_any_text_has_an_identity_that_its_clean_form_shares(text: str, begin: str) -> None:
    assert link_identity(clean_link(begin + text)) == link_identity(begin + text)


URL = "https://news.test/feeds/all"
XML = "application/xml"
AT = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
AT_MS = int(AT.timestamp() * 1000)

RSS = """<?xml version="1.0" encoding="utf-8"?><rss version="2.0"
 xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"><channel><title>News</title>{head}
<item><title>Fire on the ferry</title><link>https://news.test/ferry</link>
<description>It burns.</description><pubDate>Fri, 20 Nov 2026 08:30:00 GMT</pubDate></item>
<item><title>Übermorgen</title><link>/relative</link></item>{more}</channel></rss>"""
UNSAID = RSS.format(head="", more="").replace(' encoding="utf-8"', "")
ATOM = """<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>
<entry><title type="html">Fire on &lt;b&gt;the&lt;/b&gt; ferry</title>
<link rel="self" href="https://news.test/self"/><link rel="alternate" href="../ferry"/>
<published>2026-11-20T09:30:00+01:00</published><updated>2026-11-21T00:00:00Z</updated></entry>
</feed>"""
RDF = """<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
 xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel rdf:about="x"><title>News</title></channel>
<item rdf:about="https://news.test/ferry"><title>Fire on the ferry</title>
<link>https://news.test/ferry</link><dc:date>2026-11-20T08:30:00Z</dc:date></item></rdf:RDF>"""


def rss(head: str = "", more: str = "") -> bytes:
    return RSS.format(head=head, more=more).encode()


def read(body: bytes, kind: str = XML) -> NewsFeed:
    return read_feed(body, URL, kind)


def test_rss() -> None:
    feed = read(rss())
    first, second = feed.entries
    assert (first.link, first.title) == ("https://news.test/ferry", "Fire on the ferry")
    assert first.published == AT_MS
    assert (second.link, second.published) == ("https://news.test/relative", None)


@pytest.mark.parametrize("body", [ATOM, RDF])
def test_atom_and_rdf(body: str) -> None:
    (entry,) = read(body.encode()).entries
    assert entry.link == "https://news.test/ferry"
    assert entry.published == AT_MS
    assert entry.title.startswith("Fire on ")


@pytest.mark.parametrize(
    ("head", "seconds"),
    [
        ("", 0),
        ("<ttl>90</ttl>", 5400),
        ("<ttl> 90\n</ttl>", 5400),
        ("<ttl>-5</ttl>", 0),
        ("<ttl>soon</ttl>", 0),
        ("<ttl>999999</ttl>", 86_400),
        ("<sy:updatePeriod>hourly</sy:updatePeriod>", 3600),
        (
            "<sy:updatePeriod> daily </sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency>",
            21_600,
        ),
        ("<sy:updatePeriod>weekly</sy:updatePeriod>", 86_400),
        (
            "<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>0</sy:updateFrequency>",
            3600,
        ),
        ("<ttl>10</ttl><sy:updatePeriod>hourly</sy:updatePeriod>", 3600),
    ],
)
def test_how_long_it_wants_to_be_left_alone(head: str, seconds: float) -> None:
    assert read(rss(head)).interval == seconds


@pytest.mark.parametrize(
    "change", [("It burns.", "It burnt."), ("on the", "on a"), ("08:30", "08:31")]
)
def test_the_mark_changes_with_what_is_said_of_an_article(change: tuple[str, str]) -> None:
    was, now = read(rss()).entries, read(rss().decode().replace(*change).encode()).entries
    assert was[0].mark != now[0].mark
    assert was[1].mark == now[1].mark


def test_a_comment_that_was_added_is_no_news() -> None:
    more = (
        b"<slash:comments xmlns:slash='http://purl.org/rss/1.0/modules/slash/'>9</slash:comments>"
    )
    assert read(rss()).entries == read(rss().replace(b"</item>", more + b"</item>", 1)).entries


@pytest.mark.parametrize(
    ("item", "link"),
    [
        ("<guid>https://news.test/by-guid</guid>", "https://news.test/by-guid"),
        ("<link>javascript:alert(1)</link>", "javascript:alert(1)"),  # refused where it is fetched
        ("<link>https://news.test/a b</link>", "https://news.test/a b"),
    ],
)
def test_links_as_they_stand(item: str, link: str) -> None:
    feed = read(rss(more=f"<item>{item}</item>"))
    assert link in [entry.link for entry in feed.entries]


@pytest.mark.parametrize(
    "item",
    ["<title>none</title>", "<link/>", "<link>  </link>", f"<link>https://x/{'y' * 3000}</link>",
     "<link>http://[::1</link>", "<link>https://x/&#27;</link>"],
)  # fmt: skip
def test_entries_without_a_usable_link_are_counted(item: str) -> None:
    feed = read(rss(more=f"<item>{item}</item>"))
    assert len(feed.entries) == 2
    assert feed.without_link == 1


def test_only_the_newest_of_a_great_many() -> None:
    item = "<item><link>https://news.test/{0}</link><pubDate>{1}</pubDate></item>"
    days = [datetime.fromtimestamp(86_400 * day, UTC) for day in range(MOST_ENTRIES + 50)]
    more = "".join(item.format(i, f"{d:%a, %d %b %Y %H:%M:%S} GMT") for i, d in enumerate(days))
    feed = read(rss(more=more))
    assert len(feed.entries) == MOST_ENTRIES
    assert feed.entries[0].published == AT_MS
    assert feed.entries[1].link.endswith(f"/{MOST_ENTRIES + 49}")
    dates = [entry.published or 0 for entry in feed.entries]
    assert dates == sorted(dates, reverse=True)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (rss().decode().replace('encoding="utf-8"', 'encoding="latin-1"').encode("latin-1"), XML),
        (rss().decode().encode("utf-16"), XML),
        (rss(), "text/xml; charset=utf-8"),
        (rss(), "text/html"),
        (rss(), ""),
        (b"\xef\xbb\xbf" + rss(), XML),
        (UNSAID.encode("latin-1"), "text/xml; charset=latin-1"),
    ],
)  # fmt: skip
def test_encodings(body: bytes, kind: str) -> None:
    assert read(body, kind).entries[1].title == "Übermorgen"


@pytest.mark.parametrize(("cut", "entries"), [(200, 0), (300, 1), (380, 2)])
def test_a_feed_cut_short_gives_what_there_is(cut: int, entries: int) -> None:
    assert len(read(rss()[:cut]).entries) == entries


PAGE = """<html><head><title>News</title>
<link rel="alternate" type="application/rss+xml" title="All" href="/all.rss">
<link rel="alternate" type="application/atom+xml" href="https://other.test/atom">
<link rel="stylesheet" type="text/css" href="/x.css"></head><body>…</body></html>"""


def test_a_page_names_its_feeds() -> None:
    with pytest.raises(InputError) as caught:
        read(PAGE.encode(), "text/html; charset=utf-8")
    assert str(caught.value) == (
        f"{URL}: is no feed, but the page names these: https://news.test/all.rss, "
        "https://other.test/atom"
    )


@pytest.mark.parametrize("body", [b"", b"{}", b"%PDF-1.4", b"\0" * 1000, b"<html></html>", b"<a/>"])
def test_what_is_no_feed(body: bytes) -> None:
    with pytest.raises(InputError, match="is no feed"):
        read(body)


def test_the_name_of_a_file_is_not_opened(tmp_path: Path) -> None:
    file = tmp_path / "inside.xml"
    file.write_bytes(rss())
    for body in (str(file).encode(), file.as_uri().encode()):
        with pytest.raises(InputError, match="is no feed"):
            read(body)


def bomb(depth: int) -> bytes:
    """A billion laughs: ten of the one before, so many times over."""
    entities = ['<!ENTITY e0 "hahahahaha">']
    entities += [f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, depth)]
    doctype = f"<!DOCTYPE rss [{''.join(entities)}]>"
    body = rss().decode().replace("<rss", f"{doctype}<rss", 1)
    return body.replace("It burns.", f"&e{depth - 1};").encode()


def outside() -> bytes:
    doctype = '<!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]><rss'
    return rss().replace(b"<rss", doctype.encode(), 1).replace(b"It burns.", b"&x;")


@pytest.mark.parametrize(
    "body",
    [
        bomb(3),
        bomb(9),
        outside(),
        b"<rss><channel>" + b"<item>" * 40_000,
        b"<rss>" + b"<a " * 60_000,
        b"<rss><channel><title>" + b"&amp;" * 500_000,
        b"<rss><![CDATA[" * 50_000,
        b"<!DOCTYPE " + b"<!ENTITY a 'b' " * 50_000,
    ],
    ids=["small bomb", "bomb", "outside", "deep", "attributes", "escapes", "cdata", "doctype"],
)
def test_a_hostile_feed_is_read_within_bounds(body: bytes) -> None:
    """By a process of its own, which ends; what it says is short, and holds no file of ours."""
    output = b""
    with suppress(InputError):
        output = run_in_subprocess(read_feed, body, URL, XML, seconds=20.0)
    assert len(output) < 2**20
    assert b"root:" not in output


def test_characters_that_are_none_spoil_no_other_entry() -> None:
    more = "<item><title>&#xD800;&#0;&#99999999999;&#x110000;\x85&#xDFFF;</title><link>https://x/y</link></item>"
    result = run_in_subprocess(read_feed, rss(more=more), URL, XML)
    assert result.count(b'"link"') == 3


def test_what_takes_too_long_is_refused() -> None:
    with pytest.raises(InputError, match=rf"{URL}: takes longer than 0.1 s to read"):
        run_in_subprocess(read_feed, rss(), URL, XML, seconds=0.1)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(junk: bytes) -> None:
    body = rss(more="<item>@</item>").replace(b"@", junk)
    try:
        feed = read(body)
    except InputError:
        return
    assert len(feed.entries) <= 103


KEEP = 14 * 24 * HOUR
NOW = 1_800_000_000_000
FEED = "https://news.test/feed"


def entry(name: object, published: int | None = NOW, mark: str = "m") -> Entry:
    return Entry(f"https://news.test/{name}", f"Title {name}", published, mark)


def followed(*entries: Entry, at: int = NOW) -> Followed:
    result = Followed(FEED, FEED)
    result.note(entries, at, KEEP)
    return result


def links(due: list[FollowedArticle]) -> list[str]:
    return [article.link.rpartition("/")[2] for article in due]


def test_new_ones_are_due_the_newest_first_and_so_many() -> None:
    result = followed(entry("a", NOW - 5), entry("b"), entry("c", NOW - 9), entry("d", NOW - 1))
    assert links(result.due(NOW, KEEP, 3)) == ["b", "d", "a"]


def test_a_time_in_the_future_is_now_and_one_that_is_missing_is_when_it_was_first_seen() -> None:
    result = followed(entry("a", NOW + KEEP), entry("b", None))
    result.note([entry("a", NOW + KEEP), entry("b", None)], NOW + HOUR, KEEP)
    assert [article.published for article in result.articles.values()] == [NOW, NOW]


@pytest.mark.parametrize(("age", "due"), [(KEEP - 1, 1), (KEEP, 0), (2 * KEEP, 0)])
def test_what_would_have_ended_already_is_not_due(age: int, due: int) -> None:
    assert len(followed(entry("a", NOW - age)).due(NOW, KEEP, 9)) == due
    later = followed(entry("a"))
    later.note([entry("a")], NOW + age, KEEP)
    assert len(later.due(NOW + age, KEEP, 9)) == due


def test_what_fails_for_now_is_tried_so_often_and_no_more() -> None:
    (article,) = followed(entry("a")).articles.values()
    minutes = []
    for minute in range(5000):
        now = NOW + minute * HOUR // 60
        if article.due(now):
            minutes.append(minute)
            article.tried(now, failing=True)
    assert minutes == [0, 15, 45, 105, 225, 465, 945]
    assert len(minutes) == TRIES + 1


def test_an_entry_that_says_something_new_is_due_at_once_and_then_more_seldom() -> None:
    result = followed(entry("a"))
    (article,) = result.articles.values()
    article.tried(NOW)
    at = []
    for minute in range(0, 400, 10):
        now = NOW + minute * HOUR // 60
        result.note([entry("a", mark=str(minute))], now, KEEP)
        if article.due(now):
            at.append(minute)
            article.tried(now)
    assert at == [0, 60, 180, 360]


def test_an_article_is_known_until_its_seed_is_deleted() -> None:
    result = followed(entry("a"), entry("b"))
    result.articles["news.test/a"].seed = "seed"
    assert result.ended(NOW + KEEP - 1, KEEP) == []
    result.note([], NOW + 2 * KEEP, KEEP)
    assert links(result.ended(NOW + KEEP, KEEP)) == ["a"]
    result.articles["news.test/a"].leave()
    result.note([], NOW + 2 * KEEP, KEEP)
    assert result.articles == {}


def test_what_the_feed_no_longer_names_is_not_read_again() -> None:
    result = followed(entry("a"), entry("b"))
    result.note([entry("b")], NOW + HOUR, KEEP)
    assert links(result.due(NOW + HOUR, KEEP, 9)) == ["b"]


def test_what_was_not_named_for_long_is_forgotten_and_the_others_are_not() -> None:
    result = followed(entry("a"), entry("b"))
    result.note([entry("b")], NOW + KEEP // 2, KEEP)
    assert len(result.articles) == 2
    result.note([entry("c", NOW + KEEP + 1)], NOW + KEEP + 1, KEEP)
    assert [article.link[-1] for article in result.articles.values()] == ["b", "c"]


def test_a_feed_that_names_others_each_time_fills_no_memory() -> None:
    result = Followed(FEED, FEED)
    for day in range(25):
        result.note([entry(f"{day}-{n}") for n in range(1000)], NOW + day, KEEP)
    assert len(result.articles) == MOST_ARTICLES
    assert min(article.seen for article in result.articles.values()) == NOW + 15


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=12))
def test_what_is_new_is_what_no_round_has_named(rounds: list[tuple[int, int]]) -> None:
    result, seen = Followed(FEED, FEED), set[int]()
    for step, (begin, count) in enumerate(rounds):
        names = list(range(begin, begin + count))
        fresh = result.note([entry(name) for name in names], NOW + step, KEEP)
        assert fresh == len(set(names) - seen)
        seen |= set(names)


def test_it_is_read_as_it_was_stored() -> None:
    result = followed(entry("a"), entry("ü"))
    result.etag, result.failures = '"x"', 3
    assert read_followed(msgspec.json.encode(result), "here") == result


@given(st.binary(max_size=60))
def test_any_bytes_are_no_state_of_a_feed(junk: bytes) -> None:
    with pytest.raises(InputError, match="here: is no state of a feed; move it away"):
        read_followed(junk, "here")


@pytest.mark.parametrize(
    ("seed", "left", "hours"),
    [("seed", False, [0, 6, 18, 36, 60, 90]), ("seed", True, []), (None, False, [0])],
)
def test_an_article_is_read_again_less_and_less_often_while_it_has_a_seed(
    seed: str | None, left: bool, hours: list[int]
) -> None:
    (article,) = followed(entry("a")).articles.values()
    article.seed = seed
    if left:
        article.leave()
    read = []
    for hour in range(100):
        if article.due(NOW + hour * HOUR):
            read.append(hour)
            article.tried(NOW + hour * HOUR)
    assert read == hours
