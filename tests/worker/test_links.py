import idna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.small_encoder import mail
from worker.links import (
    MAX_LINK_CHARS,
    canonical_host,
    canonical_link,
    may_be_among,
    without_tracking,
)
from worker.match.links import MAX_END_CHARS, post_links, strip_end
from worker.posts.attachments import MAX_LINKS, MAX_PICTURES, PART_CHARS, Card
from worker.posts.outcome import Post
from worker.posts.read import Reason, Rejected, read_post

PAGE = "news.example.org/2026/ferry"


@pytest.mark.parametrize("address", [
    "https://news.example.org/2026/ferry",
    "HTTP://News.Example.ORG:80/2026/ferry/",
    "https://www.news.example.org./2026/ferry#comments",
    "https://m.news.example.org/2026/ferry?utm_source=x&fbclid=abc&ref=home",
    "https://amp.news.example.org:443/2026/ferry//",
])  # fmt: skip
def test_addresses_of_one_page_have_one_form(address: str) -> None:
    assert canonical_link(address) == PAGE


@pytest.mark.parametrize(("address", "form"), [
    ("https://news.example.org/2026/Ferry", "news.example.org/2026/Ferry"),
    ("https://news.example.org:8080/2026/ferry", "news.example.org:8080/2026/ferry"),
    ("https://evil-news.example.org/2026/ferry", "evil-news.example.org/2026/ferry"),
    ("https://news.example.org/?p=1&b=2", None),
    ("https://news.example.org/a?b=2&p=1&p=0", "news.example.org/a?b=2&p=0&p=1"),
    ("https://Bücher.example/ü?q=ä", "xn--bcher-kva.example/%C3%BC?q=%C3%A4"),
    ("https://m.example/a", "m.example/a"),
    ("https://m.example/caf%c3%a9", "m.example/caf%C3%A9"),
    ("https://m.example/a%2Db/%7ec%2Fd", "m.example/a-b/~c%2Fd"),
    ("https://m.example/x/../a/./b/%2e/", "m.example/a/b"), ("https://m.example/a/../..", None),
])  # fmt: skip
def test_what_else_an_address_says_counts(address: str, form: str | None) -> None:
    assert canonical_link(address) == form


@pytest.mark.parametrize("address", [
    "", "news.example.org/2026/ferry", "javascript:alert(1)", "ftp://news.example.org/a",
    "https://news.example.org", "https://news.example.org/", "https:///2026/ferry",
    "https://news.example.org@evil.example/2026/ferry", "https://u:p@news.example.org/2026/ferry",
    "https://news.example.org\\@evil.example/2026/ferry", "https://news.example.org/2026/\nferry",
    "https://news.example.org/2026/fer ry", "https://news.example.org:99999/a", "https://[::1/a",
    f"https://news.example.org/{'a' * MAX_LINK_CHARS}", "https://news.example.org/a\u2028b",
    f"https://news.example.org/a?{'&'.join(f'{n}=1' for n in range(200))}",
    f"https://{'ü' * 300}.example/a", "https://news.example.org/\ud800",
])  # fmt: skip
def test_an_address_that_names_no_page_or_deceives_is_refused(address: str) -> None:
    assert canonical_link(address) is None


@pytest.mark.parametrize("query", ["id=5", "cid=9", "p=1&q=2", "q=a%20b&q=a", "utm=1", "x", "a="])
def test_only_tracking_and_the_fragment_go(query: str) -> None:
    url = f"https://{PAGE}/"
    assert without_tracking(f" {url}?utm_source=x&{query}&at_medium=RSS&fbclid=y#top\n") == (
        f"{url}?{query}"
    )
    assert without_tracking(f"{url}?xtor=1#x") == url
    assert without_tracking("http://[::1") == "http://[::1"


def test_links_are_those_of_the_post_its_card_and_its_text() -> None:
    post = Post(
        "1", "plain", "see (https://a.example/b_(c)), “HTTPS://D.example/e?f=1”. http://g.example/h!"
        " **http://i.example/j?k=1&amp;l=2**。",
        card=Card("https://m.card.example/x", "t", ""), links=("https://www.link.example/y",),
    )  # fmt: skip
    named = ("a", "d", "g", "i", "card", "link")
    assert [*post_links(post, frozenset(f"{name}.example" for name in named))] == [
        "https://www.link.example/y", "https://m.card.example/x", "https://a.example/b_(c)",
        "HTTPS://D.example/e?f=1", "http://g.example/h", "http://i.example/j?k=1&l=2",
    ]  # fmt: skip
    assert [*post_links(post, frozenset({"example"}))] == []
    assert [*post_links(post, frozenset({"g.example"}))] == ["http://g.example/h"]


@pytest.mark.parametrize("host", [
    "www.bücher.example", "Bücher.example", "news.example.", "news.example:8080", "M.news.example",
    "u@news.example", "www.bücher.example:8080", "u@bücher.example", "BU\u0308CHER.example.",
    "bü\u00adcher\uff0eexample", "www．ｂücher。ｅｘａｍｐｌｅ", "ｎｅｗｓ.example",
    "ｎews.exa\u200bmple:80",
])  # fmt: skip
def test_no_address_of_a_host_is_left_out(host: str) -> None:
    hosts = frozenset({"xn--bcher-kva.example", "news.example"})
    assert [*post_links(Post("1", "plain", f"x https://{host}/a"), hosts)] == [f"https://{host}/a"]


@pytest.mark.parametrize(("wanted", "host"), [
    ("xn--bcher-kva.xn--fiqs8s", "bücher.中国"), ("xn--bcher-kva.xn--fiqs8s", "bücher.xn--fiqs8s"),
    ("xn--bcher-kva.xn--fiqs8s", "XN--bcher-kva.中国"),
    ("xn--strae-oqa.example", "STRAẞE.example"), ("xn--strae-oqa.example", "straße.example"),
    ("xn--3xab.example", "σς.example"), ("xn----zlbdeb9db6a.gr", "ΟΔΟΣ-ΑΒΓ.gr"),
    ("kelvin.example", "\u212aelvin.example"),
    (f"{'a' * 63}.example", f"{'ａ' * 63}.example"),
])  # fmt: skip
def test_a_host_that_idna_writes_so_is_found(wanted: str, host: str) -> None:
    assert idna.encode(host, uts46=True).decode() == wanted
    address = f"https://{host}/a"
    assert [*post_links(Post("1", "plain", address), frozenset({wanted}))] == [address]
    assert canonical_link(address) == f"{wanted}/a"


@given(st.text("aß.ς\uff0eＡ中\u00adü\u0308\u0130\u212a\ufb03é", max_size=9))
def test_a_host_is_written_as_browsers_ask_for_it(letters: str) -> None:
    """Browsers take hosts that IDNA 2008 refuses, such as of signs, by the same rule."""
    host = f"é{letters}.example"
    try:
        expected = idna.encode(host, uts46=True, transitional=False).decode()
    except idna.IDNAError:
        return
    assert canonical_host(host) == expected


@pytest.mark.parametrize(("host", "form"), [
    ("\u2488example", "1.example"), ("i❤.example", "xn--i-7iq.example"),
    (f"{'é' * 60}.example", None), ("é\u2028.example", None), ("é\ufffd.example", None),
])  # fmt: skip
def test_hosts_that_idna_2008_refuses_are_as_browsers_take_them(
    host: str, form: str | None
) -> None:
    assert canonical_host(host) == form


@pytest.mark.parametrize(("host", "other"), [
    ("straße.example", "strasse.example"), ("σς.example", "σσ.example"),
    ("ne\u200dws.example", "news.example"), ("ne\u200cws.example", "news.example"),
])  # fmt: skip
def test_a_host_of_another_owner_is_another(host: str, other: str) -> None:
    assert canonical_host(host) not in (None, canonical_host(other))
    link = f"https://{host}/a"
    assert [*post_links(Post("1", "plain", "x", links=(link,)), frozenset({other}))] == []


@pytest.mark.parametrize("host", [
    "evil.example", "bücher.evil.example", "evilbücher.example", "büchер.example", "bucher.example",
    f"{'ü' * 240}.example", "\ufdfa" * 253, "bücher.example\u00ad.evil",
])  # fmt: skip
def test_another_host_is_left_out(host: str) -> None:
    hosts = frozenset({"xn--bcher-kva.example", "news.example"})
    links = f"https://{host}/a", f"https://u@{host}:80/a"
    assert [*post_links(Post("1", "plain", "x", links=links), hosts)] == []


def test_long_hosts_and_long_ends_cost_little_and_are_not_kept() -> None:
    kept = may_be_among.cache_info().currsize
    long = [f"https://{n}{'a' * 10**5}/b" for n in range(20)]
    assert [*post_links(Post("1", "plain", " ".join(long)), frozenset({"a.example"}))] == []
    assert may_be_among.cache_info().currsize == kept
    ended = strip_end(f"https://a.example/b{')' * 2_000}")
    assert len(ended) == len("https://a.example/b") + 2_000 - MAX_END_CHARS


def test_what_a_stranger_attaches_is_bounded() -> None:
    many = [f"https://a.example/{n}" for n in range(9_000)]
    message = mail(
        "1", "x", alt=["y" * 10**5, *["z"] * 99], links=many,
        card={"url": f"https://a.example/{'b' * 10**5}", "title": "t" * 10**5, "description": 7},
    )  # fmt: skip
    post = read_post(message.value)
    assert isinstance(post, Post)
    assert [len(text) for text in post.alt] == [PART_CHARS, *[1] * (MAX_PICTURES - 1)]
    assert post.links == tuple(many[:MAX_LINKS])
    assert post.card == Card("", "t" * PART_CHARS, "")
    marked = mail("1", "x", alt=["y", f"a{chr(0x301) * 99}"])
    refused = read_post(marked.value)
    assert isinstance(refused, Rejected)
    assert refused.reason == Reason.MARKS
    text = Post("1", "plain", " ".join(many))
    assert len([*post_links(text, frozenset({"a.example"}))]) == MAX_LINKS
