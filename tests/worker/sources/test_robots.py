"""robots.txt as RFC 9309 has it (https://www.rfc-editor.org/rfc/rfc9309), and Crawl-delay."""

import re
from urllib.robotparser import RobotFileParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.sources.robots import LARGEST, LONGEST_DELAY, MOST_RULES, Robots

SITE = "https://news.test"


def allowed(rules: str, path: str) -> bool:
    return Robots.read(rules.encode(), "newsift").allow(SITE + path)


@pytest.mark.parametrize(
    ("rules", "path", "may"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow:", "/a", True),
        ("user-agent:*\ndisallow:/a # not this", "/a/b", False),
        ("User-agent: *\nDisallow: /a", "/b", True),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a", "/a", True),
        ("User-agent: *\nDisallow: /*?", "/a?b=1", False),
        ("User-agent: *\nDisallow: /*?", "/a", True),
        ("User-agent: *\nDisallow: /*.php$", "/a.php", False),
        ("User-agent: *\nDisallow: /*.php$", "/a.php5", True),
        ("User-agent: *\nDisallow: /a$", "/a", False),
        ("User-agent: *\nDisallow: /a$", "/ab", True),
        ("User-agent: *\nDisallow: /caf%C3%A9", "/café", False),
        ("User-agent: *\nDisallow: /café", "/caf%c3%a9", False),
        ("User-agent: *\nDisallow: /\nUser-agent: newsift\nAllow: /", "/a", True),
        ("User-agent: newsift\nDisallow: /\nUser-agent: *\nAllow: /", "/a", False),
        ("User-agent: NewSift\nDisallow: /", "/a", False),
        ("User-agent: other\nDisallow: /", "/a", True),
        ("User-agent: other\nUser-agent: newsift\nDisallow: /", "/a", False),
        ("User-agent: newsift\nDisallow: /a\nUser-agent: newsift\nDisallow: /b", "/a", False),
        ("User-agent: newsift\nDisallow: /a\nUser-agent: newsift\nDisallow: /b", "/b", False),
        ("Disallow: /", "/a", True),
        ("\ufeffUser-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\r\nSitemap: x\r\nDisallow: /\r\n", "/a", False),
        ("<html><body>User-agent: *</body></html>", "/a", True),
    ],
)
def test_what_may_be_read(rules: str, path: str, may: bool) -> None:
    assert allowed(rules, path) == may


@pytest.mark.parametrize(
    ("rules", "seconds"),
    [
        ("", 0),
        ("User-agent: *\nCrawl-delay: 5", 5),
        ("User-agent: *\nCrawl-delay: 0.5\nDisallow: /x", 0.5),
        ("User-agent: other\nCrawl-delay: 5", 0),
        ("User-agent: *\nCrawl-delay: 5\nUser-agent: newsift\nCrawl-delay: 9", 9),
        ("User-agent: *\nCrawl-delay: 999999", LONGEST_DELAY),
        ("User-agent: *\nCrawl-delay: -1", 0),
        ("User-agent: *\nCrawl-delay: nan", 0),
        ("User-agent: *\nCrawl-delay: 1e9", 0),
    ],
)
def test_how_fast(rules: str, seconds: float) -> None:
    assert Robots.read(rules.encode(), "newsift").delay == seconds


PIECES = st.sampled_from(["/", "a", "b", "/a", "*", "$", "?"])
PATHS = st.lists(st.sampled_from(["/", "a", "b", "?", "ab"]), max_size=6).map("".join)


@given(st.lists(PIECES, min_size=1, max_size=6).map("".join), PATHS)
def test_a_pattern_means_what_a_regular_expression_says(pattern: str, path: str) -> None:
    ends = pattern.endswith("$")
    inner = re.escape(pattern.removesuffix("$")).replace(r"\*", ".*")
    path = f"/{path}".rstrip("?")
    fits = re.match(inner + ("$" if ends else ""), path) is not None
    assert allowed(f"User-agent: *\nDisallow: {pattern}", path) == (not fits)


@given(st.lists(st.sampled_from(["/a", "/b", "/ab", "/a/b"]), max_size=3), PATHS)
def test_plain_rules_are_read_as_by_python_itself(rules: list[str], path: str) -> None:
    text = "\n".join(["User-agent: *", *(f"Disallow: {rule}" for rule in rules)])
    theirs = RobotFileParser()
    theirs.parse(text.splitlines())
    path = f"/{path}".rstrip("?")
    assert allowed(text, path) == theirs.can_fetch("newsift", SITE + path)


def test_what_comes_after_so_many_bytes_does_not_count() -> None:
    rules = "User-agent: *\n" + "#" * LARGEST + "\nDisallow: /"
    assert allowed(rules, "/a")


def test_so_many_rules_count_and_no_more() -> None:
    rules = "User-agent: *\n" + "Allow: /\n" * MOST_RULES + "Disallow: /a"
    assert allowed(rules, "/a")
    assert len(Robots.read(rules.encode(), "newsift").rules) == MOST_RULES


@pytest.mark.parametrize(
    "rule", ["*a" * 200_000, "*" * 400_000, "a*" * 200_000 + "$", "\nDisallow: /b" * 40_000]
)
def test_a_hostile_file_takes_no_longer_than_others(rule: str) -> None:
    """Not timed: a pattern that goes back would never end."""
    assert allowed(f"User-agent: *\nDisallow: /x{rule}", f"/{'a' * 2000}b")


@given(st.binary(max_size=300))
def test_any_bytes_are_read(junk: bytes) -> None:
    rules = Robots.read(b"User-agent: *\n" + junk, "newsift")
    assert 0 <= rules.delay <= LONGEST_DELAY
    assert rules.allow(SITE) in (True, False)
