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
    read_crisis_posts,
    read_markdown,
    read_pairs,
    read_stories,
    year_of,
)

ROW = {"post": "a post", "title": "A title", "article": "A text.", "article_id": 7}
PAIR = Pair("a post", Story("A title", "A text."))


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
        Pair("a post", Story("A title", 'two\nlines, "quoted"'))
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


@pytest.mark.parametrize(
    ("post_id", "year"),
    [("769930643639824385", 2016), ("262596552399396864", 2012), ("test-0", None), (7, None),
     ("12345", None), ("٧٦٩٩٣٠٦٤٣٦٣٩٨٢٤٣٨٥", None), (None, None)],
)  # fmt: skip
def test_the_id_of_a_post_on_x_tells_its_year(post_id: object, year: int | None) -> None:
    assert year_of(post_id) == year


def test_an_article_in_markdown_has_its_title_in_a_heading(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("# A title\n\nSome text.\n")
    assert read_markdown(file) == Story("A title", "Some text.")
    file.write_text("No heading.\nSome text.\n")
    assert read_markdown(file) == Story("", "No heading.\nSome text.")


def test_crises_have_two_labels(tmp_path: Path) -> None:
    rows = [{"event": "e", "text": "t", "label": label} for label in ("on-topic", "off-topic", "?")]
    passed = Passed()
    found = list(read_crisis_posts(write(tmp_path / "c.jsonl", rows), passed))
    assert found == [CrisisPost("e", "t", True), CrisisPost("e", "t", False)]
    assert "neither on-topic nor off-topic" in passed.told[0]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        list(read_stories(tmp_path / "none.jsonl", Passed()))
