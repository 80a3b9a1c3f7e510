"""Reading labelled data: every form, and every row that cannot be used."""

import csv
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.train.folders import write
from train.data.readers import (
    CrisisPost,
    Pair,
    SkippedRows,
    TrainingArticle,
    bare,
    read_crisis_posts,
    read_markdown,
    read_pairs,
    share,
    split_of,
    split_pairs,
    story_key,
    without_copies,
    year_of,
)

ROW = {"post": "a post", "title": "A title", "article": "A text.", "article_id": 7}
PAIR = Pair("a post", TrainingArticle("A title", "A text."))


@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.gz", "p.csv", "p.tsv"])
def test_pairs_are_read_from_json_lines_and_tables(tmp_path: Path, name: str) -> None:
    file, skipped, row = tmp_path / name, SkippedRows(), ROW | {"article": 'two\nlines, "quoted"'}
    if "json" in name:
        write(file, [row])
    else:
        with file.open("w", newline="") as out:
            table = csv.DictWriter(out, list(ROW), delimiter="," if name == "p.csv" else "\t")
            table.writeheader()
            table.writerow(row)
    expected = [Pair("a post", TrainingArticle("A title", 'two\nlines, "quoted"'))]
    assert list(read_pairs(file, skipped)) == expected
    assert skipped.count == 0


def test_unusable_rows_are_counted_and_named(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    good = '{"post": "a post", "title": "A title", "article": "A text.", "article_id": 7}\n'
    bad = ["no json\n", "[1]\n", '{"post": "x"}\n', '{"post": 3, "article": "y"}\n', "\n"]
    odd = ['{"post": "x", "article": "y", "title": 5}\n']
    file.write_text(good + "".join(bad) + good + "".join(odd))
    passed = SkippedRows()
    assert list(read_pairs(file, passed)) == [PAIR, PAIR]
    assert passed.count == 5
    assert passed.examples[0] == "p.jsonl:2: is no JSON object"
    assert passed.examples[2] == "p.jsonl:4: has no text under 'article'"
    assert passed.examples[-1] == "p.jsonl:8: has a 'title' that is no text"


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
    assert read_markdown(file) == TrainingArticle("A title", "Some text.")
    file.write_text("No heading.\nSome text.\n")
    assert read_markdown(file) == TrainingArticle("", "No heading.\nSome text.")


def test_crisis_posts_have_two_labels(tmp_path: Path) -> None:
    rows = [{"event": "e", "text": "t", "label": label} for label in ("on-topic", "off-topic", "?")]
    passed = SkippedRows()
    result = list(read_crisis_posts(write(tmp_path / "c.jsonl", rows), passed))
    assert result == [CrisisPost("e", "t", True), CrisisPost("e", "t", False)]
    assert "neither on-topic nor off-topic" in passed.examples[0]


def pairs(count: int) -> list[Pair]:
    return [Pair(f"post {i}", TrainingArticle(f"title {i}", f"text {i}")) for i in range(count)]


def test_the_split_of_a_key_never_changes() -> None:
    drawn = [split_of(f"title {i}") for i in range(12)]
    assert drawn == [
        "dev", "test", "train", "dev", "test", "test",
        "dev", "train", "train", "test", "train", "train",
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=60))
def test_splits_share_no_text_and_lose_only_copies(drawn: list[tuple[int, int]]) -> None:
    given_pairs = [
        Pair(f"RT @user{i}: post {p} https://t.co/{i}", TrainingArticle(f"Title {s}!", f"text {s}"))
        for i, (p, s) in enumerate(drawn)
    ]
    splits = split_pairs(given_pairs)
    posts = {name: {bare(pair.post) for pair in pairs_left} for name, pairs_left in splits.items()}
    stories = {
        name: {story_key(pair.story) for pair in pairs_left} for name, pairs_left in splits.items()
    }
    for a, b in combinations(splits, 2):
        assert not posts[a] & posts[b]
        assert not stories[a] & stories[b]
    pairs_left = [pair for split in splits.values() for pair in split]
    for lost in (pair for pair in given_pairs if pair not in pairs_left):
        alike = (bare(lost.post), bare(lost.story.text))
        assert any(bare(p.post) == alike[0] or bare(p.story.text) == alike[1] for p in pairs_left)


def test_links_mentions_and_marks_do_not_distinguish_copies() -> None:
    assert bare("RT @a: Flood in Calgary! https://t.co/x &amp; more") == bare(
        "flood in calgary more"
    )
    assert bare("flood @a in .@b_c: RT @d, calgary") == bare("flood in calgary")
    assert bare("flood in calgary") != bare("flood in canmore")


def test_copies_within_an_event_are_dropped() -> None:
    posts = [
        CrisisPost("a", "one", True), CrisisPost("a", "One https://t.co/1", False),
        CrisisPost("b", "one", True), CrisisPost("a", "two", True), CrisisPost("a", "@x", True),
    ]  # fmt: skip
    assert without_copies(posts) == [posts[0], posts[2], posts[3]]


def test_a_sample_depends_on_the_text_alone() -> None:
    shares = [share(f"post {i}") for i in range(2000)]
    assert shares == [share(f"post {i}") for i in range(2000)]
    assert all(0 <= s < 1 for s in shares)
    assert 0.45 < sum(s < 0.5 for s in shares) / 2000 < 0.55
