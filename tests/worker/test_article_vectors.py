import os
from pathlib import Path

import pytest

from encoder.embeddings import Embeddings
from encoder.text.clean import Article
from tests.encoder.small_model import same_rows
from tests.encoder.small_transformer import two_readers
from worker import article_vectors
from worker.article_vectors import ArticleVectors, open_folder

ARTICLES: list[Article] = [("storm", "the river storm flood"), ("", "match game"), ("storm", "")]


class Counting:
    """Counts the articles that are read."""

    read = 0

    def __getattr__(self, name: str) -> object:
        return getattr(two_readers(), name)

    def articles(self, articles: list[Article]) -> Embeddings:
        self.read += len(articles)
        return two_readers().articles(articles)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEWSIFT_CACHE", str(tmp_path / "cache"))
    opened = open_folder()
    assert opened is not None
    return opened


def test_an_article_is_read_once_and_has_the_same_bits_from_its_file(folder: Path) -> None:
    exact = two_readers().articles(ARTICLES)
    for wanted, reads in ((ARTICLES[:2], 2), (ARTICLES, 1), (ARTICLES[::-1], 0)):
        enc = Counting()
        rows = ArticleVectors(enc, folder).embed(wanted)  # type: ignore[arg-type]
        assert enc.read == reads
        order = [ARTICLES.index(article) for article in wanted]
        assert same_rows(rows, exact[order])


def test_another_version_of_the_runtime_reads_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ArticleVectors(two_readers(), folder).embed(ARTICLES)
    monkeypatch.setattr(article_vectors, "version", lambda package: f"{package} of tomorrow")
    enc = Counting()
    ArticleVectors(enc, folder).embed(ARTICLES)  # type: ignore[arg-type]
    assert enc.read == len(ARTICLES)


def test_a_damaged_or_foreign_file_is_made_again(folder: Path) -> None:
    exact = ArticleVectors(two_readers(), folder).embed(ARTICLES)
    first, second, third = sorted(folder.iterdir())
    first.write_bytes(first.read_bytes()[:-5])
    two_readers().skim(["storm flood"]).save(second)
    third.unlink()
    enc = Counting()
    assert same_rows(ArticleVectors(enc, folder).embed(ARTICLES), exact)  # type: ignore[arg-type]
    assert enc.read == 3


def test_the_files_used_longest_ago_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ArticleVectors(two_readers(), folder).embed(ARTICLES)
    monkeypatch.setattr(article_vectors, "MAX_FILES", 2)
    files = sorted(folder.iterdir())
    os.utime(files[1], (0, 0))
    assert open_folder() == folder
    assert sorted(folder.iterdir()) == [files[0], files[2]]
    more: list[Article] = [("more", f"storm flood {word}") for word in ("cat", "game", "city")]
    kept = ArticleVectors(two_readers(), folder)
    kept.embed(more)  # while it runs, too
    assert len(list(folder.iterdir())) == 2


def test_a_folder_that_others_can_write_to_is_not_used(folder: Path) -> None:
    folder.chmod(0o777)
    assert open_folder() is None
    rows = ArticleVectors(two_readers(), None).embed(ARTICLES)
    assert same_rows(rows, two_readers().articles(ARTICLES))
