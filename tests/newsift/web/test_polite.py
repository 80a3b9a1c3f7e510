from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from encoder.errors import InputError
from newsift.files.articles import WebPage
from newsift.files.subprocesses import run_in_subprocess
from newsift.web.client import RequestLimits, StatusError, WebAnswer
from newsift.web.feeds import (
    MAX_DELAY_S,
    PAUSE_S,
    PoliteWeb,
    RobotsRule,
    is_temporary,
    read_robots,
)
from tests.newsift.cli.seeds.news_site import page
from tests.worker.fake_web_server import Reply, Site, moved, serving

SITE = "https://news.test"


def rule(rules: str | bytes, path: str = "/a") -> RobotsRule:
    body = rules if isinstance(rules, bytes) else rules.encode()
    return read_robots(body, SITE + path)


@pytest.mark.parametrize(
    ("rules", "path", "may"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow:", "/a", True),
        ("user-agent:*\ndisallow:/a # not this", "/a/b", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nDisallow: /café", "/caf%c3%a9", False),
        ("User-agent: *\nDisallow: /\nUser-agent: newsift\nAllow: /", "/a", True),
        ("User-agent: other\nUser-agent: newsift\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a.pdf", False),
        ("\ufeffUser-agent: *\nDisallow: /", "/a", False),
        ("<html><body>User-agent: *</body></html>", "/a", True),
    ],
)
def test_rules_allow_or_forbid_a_path(rules: str, path: str, may: bool) -> None:
    assert rule(rules, path).allows == may


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [("5", 5), ("0.5", 0.5), ("999999", MAX_DELAY_S), ("-1", 0), ("nan", 0), ("x", 0), ("inf", 0)],
)
def test_rules_set_a_bounded_delay(delay: str, seconds: float) -> None:
    assert rule(f"User-agent: *\nCrawl-delay: {delay}").delay == seconds


@given(st.binary(max_size=300))
def test_any_bytes_are_read(junk: bytes) -> None:
    assert 0 <= rule(b"User-agent: *\n" + junk).delay <= MAX_DELAY_S


def test_a_hostile_file_ends_within_bounds() -> None:
    names = "".join(f"\nUser-agent: {n}" for n in range(12_000)) + "\nDisallow: /b" * 15_000
    with pytest.raises(InputError, match=r"takes longer|too much memory"):
        run_in_subprocess(read_robots, names.encode(), SITE, seconds=2.0)


@dataclass
class Clock:
    """A clock that goes on only where somebody sleeps."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site()) as result:
        result.replies |= {"/a": page("Astrid"), "/b": page("Birka")}
        yield result


@pytest.fixture
def clock(read_in_process: None) -> Clock:
    return Clock()


@pytest.fixture
def web(clock: Clock) -> PoliteWeb:
    limits = RequestLimits(allow=lambda *_: True, resolve=lambda *_: ["127.0.0.1"])
    return PoliteWeb(limits, clock=lambda: clock.now, sleep=clock.sleep)


def robots(text: str) -> Reply:
    return Reply(text.encode(), "text/plain")


def test_requests_to_a_site_are_separated_by_a_pause(
    web: PoliteWeb, site: Site, clock: Clock
) -> None:
    for path in ("/a", "/b"):
        web.get(site.url + path)
    assert clock.slept == [PAUSE_S, PAUSE_S]  # robots.txt was the first
    clock.now += 0.5
    web.get(f"{site.url}/a")
    assert clock.slept == [PAUSE_S, PAUSE_S, PAUSE_S - 0.5]
    other = site.url.replace("127.0.0.1", "other.test")
    site.replies["/robots.txt"] = robots("User-agent: *\nCrawl-delay: 9")
    for path in ("/a", "/b"):
        web.get(other + path)
    assert clock.slept[3:] == [PAUSE_S, 9.0]  # the first request to another site need not wait


def test_rules_are_read_once_a_day(web: PoliteWeb, site: Site, clock: Clock) -> None:
    for _ in range(3):
        web.get(f"{site.url}/a")
    assert [path for path, _ in site.asked].count("/robots.txt") == 1
    clock.now += 86_401
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /")
    with pytest.raises(InputError, match="robots"):
        web.get(f"{site.url}/a")


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_site_without_rules_may_be_read(web: PoliteWeb, site: Site, status: int) -> None:
    site.replies["/robots.txt"] = Reply(status=status)
    assert web.get(f"{site.url}/a").status == 200


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_site_whose_rules_cannot_be_read_is_not_read(
    web: PoliteWeb, site: Site, status: int
) -> None:
    site.replies["/robots.txt"] = Reply(status=status)
    for _ in range(2):
        with pytest.raises(StatusError) as caught:
            web.get(f"{site.url}/a")
        assert is_temporary(caught.value)
    assert [path for path, _ in site.asked] == ["/robots.txt"] * 2
    site.replies["/robots.txt"] = robots("")
    assert web.get(f"{site.url}/a").status == 200


def test_a_redirect_may_hold_bytes_that_are_not_utf8(web: PoliteWeb, site: Site) -> None:
    site.replies |= {
        "/robots.txt": robots(""),
        "/c": Reply(status=302, headers={"Location": "/caf\xe9"}),
        "/caf%E9": page("Caesar"),
    }
    answer = web.get(f"{site.url}/c")
    assert (answer.status, answer.url) == (200, f"{site.url}/caf%E9")


def test_a_hostile_type_of_content_is_read(web: PoliteWeb, site: Site) -> None:
    kind = f"text/html; charset*{'9' * 5000}=x"
    site.replies |= {"/robots.txt": robots(""), "/c": Reply(b"text", kind)}
    answer = web.get(f"{site.url}/c").page(web.limits)
    assert (answer.body, answer.charset) == (b"text", "")


def test_an_endless_target_of_a_redirect_is_refused_without_naming_it(
    web: PoliteWeb, site: Site
) -> None:
    location = f"/{'a' * 40_000}"
    site.replies |= {
        "/robots.txt": robots(""), "/c": Reply(status=302, headers={"Location": location}),
    }  # fmt: skip
    with pytest.raises(InputError) as caught:
        web.get(f"{site.url}/c")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("parameter", [
    "charset*=a; charset*0=b", "charset=\xff\xc3\xa9", "charset=\xff\xe9", "charset*=a\0b''x",
])  # fmt: skip
def test_a_charset_that_cannot_be_read_counts_as_none(parameter: str) -> None:
    kind = f"TEXT/html ; {parameter}".encode("latin-1").decode("utf-8", "surrogateescape")
    for more in ("", "é"):
        answer = WebAnswer("http://a.test/b", 200, "", {"Content-Type": kind + more}, b"text")
        assert answer.page(RequestLimits()) == WebPage("http://a.test/b", b"text", None)


def test_rules_hold_for_redirects(web: PoliteWeb, site: Site) -> None:
    site.replies |= {
        "/robots.txt": robots("User-agent: *\nDisallow: /b"),
        "/hop": Reply(status=302, headers={"Location": "/b"}),
    }
    with pytest.raises(InputError, match="/b: the site's robots"):
        web.get(f"{site.url}/hop")
    assert [path for path, _ in site.asked] == ["/robots.txt", "/hop"]


@pytest.mark.parametrize("status", [429, 503])
def test_a_site_is_left_alone_as_long_as_it_asks(
    web: PoliteWeb, site: Site, clock: Clock, status: int
) -> None:
    site.replies["/a"] = Reply(status=status, headers={"Retry-After": "60"})
    with pytest.raises(StatusError) as caught:
        web.get(f"{site.url}/a")
    assert caught.value.wait == 60
    assert web.get(f"{site.url}/b").status == 200
    assert clock.slept == [PAUSE_S, 60]


@pytest.mark.parametrize(
    ("status", "later"),
    [(400, False), (404, False), (408, True), (410, False), (429, True), (500, True), (503, True)],
)
def test_a_status_is_temporary_or_final(
    web: PoliteWeb, site: Site, status: int, later: bool
) -> None:
    site.replies["/a"] = Reply(status=status)
    with pytest.raises(StatusError, match=f"answers {status}") as caught:
        web.get(f"{site.url}/a")
    assert is_temporary(caught.value) == later


def test_an_unreachable_site_may_answer_later(web: PoliteWeb) -> None:
    with pytest.raises(InputError, match="cannot be fetched") as caught:
        web.get("http://127.0.0.1:1/a")
    assert is_temporary(caught.value)


def inside(site: Site, clock: Clock) -> PoliteWeb:
    """A web whose feed stands in the own network, and some of whose sites are elsewhere."""
    resolved = list[str]()

    def resolve(host: str, _port: int) -> list[str]:
        resolved.append(host)
        return ["127.0.0.1"]

    limits = RequestLimits(allow=lambda *_: resolved[-1] == "outside.test", resolve=resolve)
    feed = URL(f"{site.url}/feed")
    return PoliteWeb(limits, feed, clock=lambda: clock.now, sleep=clock.sleep)


def test_the_host_of_a_feed_may_be_inside_but_no_page_outside_leads_there(
    site: Site, clock: Clock
) -> None:
    web = inside(site, clock)
    site.replies["/hop"] = moved("/a")
    assert web.get(f"{site.url}/hop").url == f"{site.url}/a"
    with serving(Site({"/hop": moved(f"{site.url}/a")})) as outside:
        url = outside.url.replace("127.0.0.1", "outside.test")
        before = len(site.asked)
        with pytest.raises(InputError, match=r"127\.0\.0\.1(, which)? is not a public"):
            web.get(f"{url}/hop")
        assert len(site.asked) == before
        site.replies["/out"] = moved(f"{url}/hop")
        with pytest.raises(InputError, match=r"127\.0\.0\.1(, which)? is not a public"):
            web.get(f"{site.url}/out")


def test_another_port_of_the_host_of_a_feed_is_not_inside(site: Site, clock: Clock) -> None:
    with serving(Site()) as other, pytest.raises(InputError, match="is not a public"):
        inside(site, clock).get(f"{other.url}/a")
    assert other.asked == []


def test_the_number_of_known_sites_is_bounded(
    web: PoliteWeb, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newsift.web.feeds.MAX_SITES", 3)
    for name in "abcd":
        web.get(f"{site.url.replace('127.0.0.1', f'{name}.test')}/a")
    assert len(web._sites) == 3
