import json
from pathlib import Path

import pytest

from encoder import Embeddings, Encoder
from tests.worker.fake_command import Command

ARTICLE = "storm flood river in the city"


def test_json_holds_everything(
    newsift: Command, enc: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Encoder, "has_star", True)
    text, articles = "a flood – in the storm", enc.articles([ARTICLE])
    (cut,), (skim_cut,) = enc.match_thresholds(articles)
    score, skimmed = (
        float(read([text]).similarity(articles)[0, 0]) for read in (enc.posts, enc.skim)
    )
    args = ("explain", "-", "--article", ARTICLE, "--json")
    done = newsift(*args, stdin=text.encode())
    assert done.out.isascii()
    result = json.loads(done.out)
    assert [tuple(each) for each in result.pop("words")] == [
        (word, pytest.approx(weight, abs=1e-6)) for word, weight in enc.explain(text, articles, 0)
    ]
    assert result == {
        "text": text, "model": enc.digest, "match": score >= cut and skimmed >= skim_cut,
        "score": pytest.approx(score, abs=1e-3), "threshold": pytest.approx(float(cut)),
        "skim_score": pytest.approx(skimmed, abs=1e-3),
        "skim_threshold": pytest.approx(float(skim_cut)),
    }  # fmt: skip
    assert newsift(*args, stdin=b"\xff").code == 2
    for post, verdict in ((ARTICLE, ": a match\n"), ("good morning", ": no match\n")):
        assert newsift("explain", post, "--article", ARTICLE).out.endswith(verdict)


def test_an_article_is_text_or_a_file(
    newsift: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, content = tmp_path / "a.md", "# Ferry burns\n\nIt burnt.\n"
    file.write_text(content, "utf-8")
    articles, read = list[str | tuple[str, str]](), Encoder.articles

    def noted(own: Encoder, some: list[str | tuple[str, str]]) -> Embeddings:
        articles.extend(some)
        return read(own, some)

    monkeypatch.setattr(Encoder, "articles", noted)
    for args in ([file], [file, "--title", "Mine"], ["said / done " * 500], ["-"]):
        newsift("explain", "x", "--article", *args, stdin=content.encode())
    assert articles == [
        ("Ferry burns", "It burnt."), ("Mine", "It burnt."), ("", "said / done " * 500),
        ("Ferry burns", "It burnt."),
    ]  # fmt: skip
