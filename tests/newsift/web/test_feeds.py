from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError
from newsift.files.subprocesses import run_in_subprocess
from newsift.web.feeds import MAX_ENTRIES, NewsFeed, read_feed

URL = "https://news.test/feeds/all"
XML = "application/xml"
AT = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
AT_MS = int(AT.timestamp() * 1000)

RSS = """<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>News</title>{head}
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


@pytest.mark.parametrize("body", [rss().decode(), ATOM, RDF], ids=["rss", "atom", "rdf"])
def test_reads_the_entries_of_a_feed(body: str) -> None:
    first, *more = read(body.encode()).entries
    assert (first.link, first.published_at) == ("https://news.test/ferry", AT_MS)
    assert first.title.startswith("Fire on ")
    assert [(entry.link, entry.published_at) for entry in more] in (
        [], [("https://news.test/relative", None)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("head", "seconds"),
    [
        ("", 0),
        ("<ttl>90</ttl>", 5400),
        ("<ttl>999999</ttl>", 86_400),
    ],
)
def test_reads_the_interval_of_a_feed(head: str, seconds: float) -> None:
    assert read(rss(head)).interval == seconds


@pytest.mark.parametrize(
    "change", [("It burns.", "It burnt."), ("on the", "on a"), ("08:30", "08:31")]
)
def test_the_digest_changes_with_an_entry(change: tuple[str, str]) -> None:
    was, now = read(rss()).entries, read(rss().decode().replace(*change).encode()).entries
    assert was[0].digest != now[0].digest
    assert was[1].digest == now[1].digest


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
    days = [datetime.fromtimestamp(86_400 * day, UTC) for day in range(MAX_ENTRIES + 50)]
    more = "".join(item.format(i, f"{d:%a, %d %b %Y %H:%M:%S} GMT") for i, d in enumerate(days))
    feed = read(rss(more=more))
    assert len(feed.entries) == MAX_ENTRIES
    assert feed.entries[0].published_at == AT_MS
    assert feed.entries[1].link.endswith(f"/{MAX_ENTRIES + 49}")
    dates = [entry.published_at or 0 for entry in feed.entries]
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


@pytest.mark.parametrize("body", [b"", b"{}", b"%PDF-1.4", b"\0" * 1000, b"<html></html>", b"<a/>"])
def test_refuses_what_is_no_feed(body: bytes) -> None:
    with pytest.raises(InputError, match="is not a feed"):
        read(body)


def test_the_name_of_a_file_is_not_opened(tmp_path: Path) -> None:
    file = tmp_path / "inside.xml"
    file.write_bytes(rss())
    for body in (str(file).encode(), file.as_uri().encode()):
        with pytest.raises(InputError, match="is not a feed"):
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
        bomb(9),
        outside(),
        b"<rss><channel>" + b"<item>" * 40_000,
        b"<rss><channel><title>" + b"&amp;" * 500_000,
        b"<!DOCTYPE " + b"<!ENTITY a 'b' " * 50_000,
    ],
    ids=["bomb", "outside", "deep", "escapes", "doctype"],
)
def test_a_hostile_feed_is_read_within_bounds(body: bytes) -> None:
    """By a process of its own, which ends; what it says is short, and holds no file of ours."""
    output = b""
    with suppress(InputError):
        output = run_in_subprocess(read_feed, body, URL, XML, seconds=20.0)
    assert len(output) < 2**20
    assert b"root:" not in output


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(junk: bytes) -> None:
    body = rss(more="<item>@</item>").replace(b"@", junk)
    try:
        feed = read(body)
    except InputError:
        return
    assert len(feed.entries) <= 103
