import json
from pathlib import Path

import pytest

from tests.worker.fake_command import Command, FakeEncoder


def test_json_holds_everything(newsift: Command, fake: FakeEncoder) -> None:
    args = ("explain", "-", "--article", "a ferry burns", "--json")
    done = newsift(*args, stdin="ferry – fire".encode())
    assert done.out.isascii()
    assert json.loads(done.out) == {
        "text": "ferry – fire", "model": fake.digest, "match": True,
        "score": pytest.approx(1, abs=1e-3), "threshold": pytest.approx(0.9),
        "skim_score": pytest.approx(1, abs=1e-3), "skim_threshold": pytest.approx(0.9),
        "words": [["ferry", 1 / 3], ["–", 1 / 3], ["fire", 1 / 3], ["", 0.0]],
    }  # fmt: skip
    assert newsift(*args, stdin=b"\xff").code == 2
    for text, verdict in (("ferry on fire", ": a match\n"), ("good morning", ": no match\n")):
        assert newsift("explain", text, "--article", "a ferry burns").out.endswith(verdict)


def test_an_article_is_text_or_a_file(newsift: Command, fake: FakeEncoder, tmp_path: Path) -> None:
    file, content = tmp_path / "a.md", "# Ferry burns\n\nIt burnt.\n"
    file.write_text(content, "utf-8")
    for args in ([file], [file, "--title", "Mine"], ["said / done " * 500], ["-"]):
        newsift("explain", "x", "--article", *args, stdin=content.encode())
    assert [texts[0] for kind, texts in fake.calls if kind == "articles"] == [
        ("Ferry burns", "It burnt."), ("Mine", "It burnt."), ("", "said / done " * 500),
        ("Ferry burns", "It burnt."),
    ]  # fmt: skip
