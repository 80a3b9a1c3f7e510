import json
from pathlib import Path
from typing import Any

import pytest

import encoder
from encoder import Embeddings, Encoder
from encoder.embeddings import Background
from encoder.readers.choose import open_readers
from tests.encoder.small_model import background
from tests.encoder.small_transformer import model_with_star
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


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"threshold": 0.3},
        {"background_rate": 0.05},
        {"total_rate": 0.05},
        {"background": "own.safetensors", "background_rate": 0.05},
        {"reader": "skim"},
        {"read_factor": 2},
        {"read_factor": "all"},
    ],
)
def test_score_and_thresholds_are_those_of_filter_with_this_article(
    newsift: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    model = model_with_star()
    enc = Encoder(model, open_readers(model, "cpu", 1))
    monkeypatch.setattr(encoder, "load", lambda *_args, **_options: enc)
    monkeypatch.chdir(tmp_path)
    texts = background(200)
    Background(enc.posts(texts), enc.skim(texts)).save(Path("own.safetensors"))
    matching = {"background_rate": 0.02, "links": False, **settings}
    Path("config.yaml").write_text(json.dumps({"matching": matching}), "utf-8")
    Path("posts.txt").write_text(f"{ARTICLE}\n", "utf-8")
    Path("storm.txt").write_text(ARTICLE, "utf-8")
    done = newsift("filter", "posts.txt", "--seeds", "storm.txt", "--force", "--json")
    assert done.code == 0, done.err
    expected = json.loads(done.out)["matches"][0]
    found = json.loads(newsift("explain", ARTICLE, "--article", "storm.txt", "--json").out)
    for key in ("score", "threshold"):
        assert found[key] == pytest.approx(expected[key], abs=1e-6), key
    assert found["match"]
    assert ("skim_score" in found) is (settings.get("reader") != "skim")
    if settings.keys() <= {"read_factor"}:
        factor = settings.get("read_factor", 5)
        _, (skim_cut,) = enc.match_thresholds(enc.articles([ARTICLE]), 0.02, factor)
        assert found["skim_threshold"] == pytest.approx(float(skim_cut))


def test_a_match_must_reach_the_threshold_in_force(
    newsift: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("matching: {threshold: 0.99}", "utf-8")
    post = "a flood – in the storm"
    for options, match in ([], True), (["--config", config], False):
        done = newsift("explain", post, "--article", ARTICLE, "--json", *options)
        assert json.loads(done.out)["match"] is match
    monkeypatch.setenv("NEWSIFT_MATCHING__BACKGROUND", str(tmp_path / "gone"))
    assert newsift("explain", post, "--article", ARTICLE).code == 2
    assert newsift("explain", post).code == 0


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
