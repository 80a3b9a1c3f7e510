"""Ids for articles that have no file's name."""

import pytest

from newsift.operations.seed_drafts import seed_id


@pytest.mark.parametrize(
    ("title", "url", "expected"),
    [
        ("Fire on the Ferry: 9 missing!", "https://x.y/z", "fire-on-the-ferry-9-missing"),
        ("", "https://news.example/2026/ferry-fire.html", "news-example-2026-ferry-fire-html"),
        ("Ж" * 100, "https://x.y", "ж" * 59 + "…"),
        ("…", "", "article"),
        ("word " * 50, "https://x.y", "-".join(["word"] * 12)),
    ],
)
def test_an_id_for_people(title: str, url: str, expected: str) -> None:
    assert seed_id(title, url) == expected
