"""Addresses: what is left out of them, and which are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.sources.links import cleaned, link_identity

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
    assert cleaned(link) == LINK


@pytest.mark.parametrize("query", ["id=5", "cid=9", "p=1&q=2", "q=a%20b&q=a", "utm=1", "x", "a="])
def test_what_names_the_article_stays(query: str) -> None:
    assert cleaned(f"{LINK}?utm_source=x&{query}&utm_medium=y") == f"{LINK}?{query}"


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
    assert link_identity(cleaned(begin + text)) == link_identity(begin + text)
