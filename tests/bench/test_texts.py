"""Where the texts of a run come from, and what is refused."""

import gzip
import json
from pathlib import Path

import pytest

from bench import texts
from bench.texts import read_articles, read_posts
from encoder.errors import InputError


def lines(*records: object) -> str:
    return "".join(json.dumps(r) + "\n" for r in records)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.jsonl").write_text(lines({"text": " one "}, {"text": ""}, {"other": 1}))
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.write(lines({"post": "two"}, {"text": "three", "title": "3"}))
    (tmp_path / "notes.txt").write_text("no record")
    return tmp_path


def test_posts_of_all_files_in_a_fixed_shuffled_order(folder: Path) -> None:
    found, source = read_posts(folder, 10)
    assert sorted(found) == ["one", "three", "two"]
    assert read_posts(folder, 10) == (found, str(folder))
    assert read_posts(folder, 2)[0] == found[:2]
    assert source == str(folder)


def test_a_folder_laid_out_as_for_training_is_read_by_its_parts(tmp_path: Path) -> None:
    for part, record in (("tweets", {"text": "a post"}), ("articles", {"article": "a text"})):
        (tmp_path / part).mkdir()
        (tmp_path / part / "some.jsonl").write_text(lines(record))
    assert read_posts(tmp_path, 9)[0] == ["a post"]
    assert read_articles(tmp_path, 9) == [("", "a text")]


def test_articles_are_pairs_of_title_and_text(tmp_path: Path) -> None:
    file = tmp_path / "articles.jsonl"
    file.write_text(lines({"title": "T", "article": "body"}, {"text": "bare"}, {"title": "alone"}))
    assert set(read_articles(file, 9)) == {("T", "body"), ("", "bare")}


def test_without_a_folder_beside_the_checkout_the_samples_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "SHARED", tmp_path / "nowhere")
    found, source = read_posts(None, 100)
    assert found
    assert source.endswith("samples/posts.jsonl")
    articles = read_articles(None, 100)
    assert all(title and not title.startswith("#") and text for title, text in articles)


def test_the_real_posts_beside_the_checkout_come_first(shared: Path) -> None:
    found, source = read_posts(None, 500)
    assert len(found) == len(read_articles(None, 500)) == 500
    assert source == "../shared/data/tweets"


def test_a_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n{"text":\n')
    with pytest.raises(InputError, match=r"a\.jsonl:2: is no JSON object"):
        read_posts(tmp_path, 9)


def test_a_folder_without_posts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no"):
        read_posts(tmp_path, 9)
    (tmp_path / "a.jsonl").write_text(lines({"title": "no text"}))
    with pytest.raises(InputError, match="no post in"):
        read_posts(tmp_path, 9)
