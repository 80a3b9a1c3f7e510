import json
from pathlib import Path

import pytest

from tests.worker.fake import Command, FakeEncoder


def test_json_holds_everything(newsift: Command, fake: FakeEncoder) -> None:
    args = ("explain", "-", "--article", "a ferry burns", "--json")
    done = newsift(*args, stdin="ferry – fire".encode())
    assert done.out.isascii()
    assert json.loads(done.out) == {
        "text": "ferry – fire", "model": fake.digest, "match": True,
        "score": pytest.approx(1, abs=1e-3), "threshold": pytest.approx(0.9),
        "words": [["ferry", 1 / 3], ["–", 1 / 3], ["fire", 1 / 3], ["", 0.0]],
    }  # fmt: skip
    assert newsift(*args, stdin=b"\xff").code == 2
    for text, verdict in (("ferry on fire", ": a match\n"), ("good morning", ": no match\n")):
        assert newsift("explain", text, "--article", "a ferry burns").out.endswith(verdict)


def test_an_article_is_text_or_a_file(newsift: Command, fake: FakeEncoder, tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("# Ferry burns\n\nIt burnt.\n", "utf-8")
    for args in ([file], [file, "--title", "Mine"], ["said / done " * 500]):
        newsift("explain", "x", "--article", *args)
    assert [texts[0] for kind, texts in fake.calls if kind == "articles"] == [
        ("Ferry burns", "It burnt."), ("Mine", "It burnt."), ("", "said / done " * 500),
    ]  # fmt: skip


def test_an_article_from_standard_input_and_a_folder(
    newsift: Command, fake: FakeEncoder, tmp_path: Path
) -> None:
    newsift("explain", "x", "--article", "-", stdin=b"# Ferry burns\n\nIt burnt.\n")
    assert [texts[0] for kind, texts in fake.calls if kind == "articles"] == [
        ("Ferry burns", "It burnt.")
    ]
    for text, article, message in (
        ("-", "-", "TEXT and --article"), ("x", str(tmp_path), "is a folder"),
    ):  # fmt: skip
        done = newsift("explain", text, "--article", article, stdin=b"a ferry burns")
        assert done.code == 2
        assert message in done.err
