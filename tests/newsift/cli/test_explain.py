"""`newsift explain`: words, score and threshold, for people and for programs."""

import json
from pathlib import Path

import pytest

from tests.worker.fake import Command, FakeEncoder


def test_a_score_stands_beside_its_threshold(newsift: Command, fake: FakeEncoder) -> None:
    done = newsift("explain", "ferry on fire", "--article", "a ferry burns")
    assert done.out.endswith("score 1.0000, automatic threshold 0.9000: a match\n")
    done = newsift("explain", "good morning", "--article", "a ferry burns")
    assert done.out.endswith("threshold 0.9000: no match\n")


def test_json_holds_everything(newsift: Command, fake: FakeEncoder) -> None:
    done = newsift("explain", "ferry – fire", "--article", "a ferry burns", "--json")
    result = json.loads(done.out)
    assert result.pop("score") == pytest.approx(1, abs=1e-3)
    assert result.pop("threshold") == pytest.approx(0.9)
    assert result == {
        "text": "ferry – fire",
        "model": fake.digest,
        "match": True,
        "words": [["ferry", 1 / 3], ["–", 1 / 3], ["fire", 1 / 3], ["", 0.0]],
    }
    assert done.out.isascii()


def test_the_text_can_come_from_standard_input(newsift: Command, fake: FakeEncoder) -> None:
    done = newsift("explain", "-", "--json", stdin="één ferry".encode())
    assert json.loads(done.out)["text"] == "één ferry"
    assert newsift("explain", "-", stdin=b"\xff").code == 2


def test_an_article_from_a_file_brings_its_title(
    newsift: Command, fake: FakeEncoder, tmp_path: Path
) -> None:
    file = tmp_path / "a.md"
    file.write_text("# Ferry burns\n\nIt burnt.\n", "utf-8")
    newsift("explain", "x", "--article", file)
    newsift("explain", "x", "--article", file, "--title", "Mine")
    file.write_text("No title here.\nIt burnt.\n", "utf-8")
    newsift("explain", "x", "--article", file)
    newsift("explain", "x", "--article", "said / done " * 500)
    given = [texts[0] for kind, texts in fake.calls if kind == "articles"]
    assert given == [
        ("Ferry burns", "It burnt."),
        ("Mine", "It burnt."),
        ("", "No title here.\nIt burnt."),
        ("", "said / done " * 500),
    ]
