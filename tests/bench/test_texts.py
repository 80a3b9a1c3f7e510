"""Where the texts of a run come from, and what is refused."""

import gzip
import json
from pathlib import Path

import pytest

from bench import posts
from bench.posts import Counts, read_texts
from encoder.errors import InputError


def lines(*records: object) -> str:
    return "".join(json.dumps(r) + "\n" for r in records)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.jsonl").write_text(lines({"text": " one "}, {"text": ""}, {"other": 1}, [2]))
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.write(lines({"post": "two"}, {"text": "three", "title": "3"}))
    (tmp_path / "notes.txt").write_text("no record")
    return tmp_path


def test_posts_of_all_files_in_a_fixed_shuffled_order(folder: Path) -> None:
    found = read_texts(folder, folder, Counts(10, 10, 0, 0))
    assert sorted(found.posts) == ["one", "three", "two"]
    assert found == read_texts(folder, folder, Counts(10, 10, 0, 0))
    assert len(read_texts(folder, folder, Counts(2, 2, 0, 0)).posts) == 2
    assert str(folder) in found.source


def test_articles_are_pairs_of_title_and_text(tmp_path: Path) -> None:
    file = tmp_path / "articles.jsonl"
    file.write_text(lines({"title": "T", "article": "body"}, {"text": "bare"}, {"title": "alone"}))
    assert set(read_texts(file, file, Counts(9, 9, 0, 0)).articles) == {("T", "body"), ("", "bare")}


def test_without_a_folder_beside_the_checkout_the_samples_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posts, "SHARED", tmp_path / "nowhere")
    found = read_texts(None, None, Counts())
    assert found.posts
    assert all(title and not title.startswith("#") and text for title, text in found.articles)
    assert "shipped samples" in found.source


def test_the_real_posts_beside_the_checkout_come_first(shared: Path) -> None:
    found = read_texts(None, None, Counts(500, 500, 0, 0))
    assert len(found.posts) == len(found.articles) == 500
    assert "shared/data/tweets" in found.source


def test_a_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n{"text":\n')
    with pytest.raises(InputError, match=r"a\.jsonl:2: not JSON"):
        read_texts(tmp_path, tmp_path, Counts())


def test_a_folder_without_posts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no"):
        read_texts(tmp_path, None, Counts())
    (tmp_path / "a.jsonl").write_text(lines({"title": "no text"}))
    with pytest.raises(InputError, match="no post in"):
        read_texts(tmp_path, tmp_path, Counts())


@pytest.mark.parametrize(("posts", "earlier"), [(20, 10), (200, 100), (30, 0), (5, 5)])
def test_earlier_texts_are_others_and_too_few_are_shared_out(
    tmp_path: Path, posts: int, earlier: int
) -> None:
    (tmp_path / "a.jsonl").write_text(lines(*({"text": f"post {i}"} for i in range(30))))
    found = read_texts(tmp_path, tmp_path, Counts(posts, 1, earlier, 0))
    assert len(found.posts) == min(posts, 30 if not earlier else 20 if posts > 5 else 5)
    assert len(found.earlier_posts) == min(earlier, 10)
    assert not {*found.posts} & {*found.earlier_posts}
