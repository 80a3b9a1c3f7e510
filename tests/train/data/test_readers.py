"""Reading labelled data: every form, and every row that cannot be used."""

import csv
from pathlib import Path

import pytest

from encoder.errors import InputError
from tests.train.folders import write
from train.data.readers import (
    CrisisPost,
    Pair,
    Passed,
    Story,
    canonical,
    read_crisis_posts,
    read_linked,
    read_pairs,
    read_stories,
)

ROW = {"post": "a post", "title": "A title", "article": "A text.", "article_id": 7}
PAIR = Pair("a post", Story("7", "A title", "A text."))


@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.gz"])
def test_pairs_are_read_from_json_lines(tmp_path: Path, name: str) -> None:
    passed = Passed()
    assert list(read_pairs(write(tmp_path / name, [ROW, ROW]), passed)) == [PAIR, PAIR]
    assert passed.count == 0


@pytest.mark.parametrize(("name", "delimiter"), [("p.csv", ","), ("p.tsv", "\t")])
def test_pairs_are_read_from_tables(tmp_path: Path, name: str, delimiter: str) -> None:
    file = tmp_path / name
    with file.open("w", newline="") as out:
        table = csv.DictWriter(out, list(ROW), delimiter=delimiter)
        table.writeheader()
        table.writerow(ROW | {"article": 'two\nlines, "quoted"'})
    assert list(read_pairs(file, Passed())) == [
        Pair("a post", Story("7", "A title", 'two\nlines, "quoted"'))
    ]


def test_a_row_that_cannot_be_used_is_counted_and_named(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    good = '{"post": "a post", "title": "A title", "article": "A text.", "article_id": 7}\n'
    bad = ["no json\n", "[1]\n", '{"post": "x"}\n', '{"post": 3, "article": "y"}\n', "\n"]
    odd = ['{"post": "x", "article": "y", "title": 5}\n']
    file.write_text(good + "".join(bad) + good + "".join(odd))
    passed = Passed()
    assert list(read_pairs(file, passed)) == [PAIR, PAIR]
    assert passed.count == 5
    assert passed.told[0] == "p.jsonl:2: is no JSON object"
    assert passed.told[2] == "p.jsonl:4: has no text under 'article'"
    assert passed.told[-1] == "p.jsonl:8: has a 'title' that is no text"


def test_posts_find_the_article_they_link_to(tmp_path: Path) -> None:
    write(tmp_path / "articles.jsonl", [{"url": "https://www.a.org/x/", "article": "A text."}])
    links = ["http://a.org/x?utm=1", "https://a.org/y", "https://A.org/x#top"]
    write(tmp_path / "posts.jsonl", [{"url": url, "text": url} for url in links])
    found = list(read_linked(tmp_path, Passed()))
    assert [pair.post for pair in found] == [links[0], links[2]]
    assert {pair.story.text for pair in found} == {"A text."}
    assert canonical("a.org/x") == canonical("https://www.a.org/x/")


def test_a_folder_without_articles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no articles\.jsonl"):
        list(read_linked(tmp_path, Passed()))


def test_crises_have_two_labels(tmp_path: Path) -> None:
    rows = [{"event": "e", "text": "t", "label": label} for label in ("on-topic", "off-topic", "?")]
    passed = Passed()
    found = list(read_crisis_posts(write(tmp_path / "c.jsonl", rows), passed))
    assert found == [CrisisPost("e", "t", True), CrisisPost("e", "t", False)]
    assert "neither on-topic nor off-topic" in passed.told[0]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        list(read_stories(tmp_path / "none.jsonl", Passed()))
