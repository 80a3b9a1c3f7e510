"""The texts in other languages are complete and alike, and the table says what a loop counts."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import encoder
from bench.languages import (
    REFERENCE,
    REMARKS,
    LanguageEvent,
    belonging,
    finding,
    findings,
    read_stories,
)
from tests.worker.fake import Command

STORIES = read_stories()
LANGUAGES = list(STORIES)
SCRIPTS = {
    "Arabic": "[\u0600-\u06ff]",
    "Chinese": "[\u4e00-\u9fff]",
    "Japanese": "[\u3040-\u30ff]",
    "Korean": "[\uac00-\ud7a3]",
    "Russian": "[\u0400-\u04ff]",
    "Thai": "[\u0e00-\u0e7f]",
    "Traditional Chinese": "[\u4e00-\u9fff]",
}


def digits(text: str) -> set[str]:
    return set(re.findall(r"[0-9]+", text))


def names(text: str) -> set[str]:
    """What an English text writes with a capital inside a sentence."""
    return set(re.findall(r"(?<=[a-z,] )[A-Z][a-z]+", text))


def test_the_languages_begin_with_the_reference() -> None:
    assert LANGUAGES[0] == REFERENCE == "English"
    assert len(LANGUAGES) == 17


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_tells_every_event_in_its_own_words(language: str) -> None:
    told = STORIES[language]
    assert [story.event for story in told] == [story.event for story in STORIES[REFERENCE]]
    assert len({story.event for story in told}) == 6
    texts = [text for story in told for text in (story.article, *story.posts, story.other)]
    assert len(texts) == len(set(texts)) == 6 * (1 + 3 + 1)
    others = {t for name in LANGUAGES if name != language for s in STORIES[name] for t in s.posts}
    assert not others & set(texts)
    for text in texts:
        assert text == text.strip()
        script = SCRIPTS.get(language)
        assert script is None or re.search(script, text), text


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_post_shares_numbers_with_both_articles_and_the_last_has_none(
    language: str,
) -> None:
    for story, english in zip(STORIES[language], STORIES[REFERENCE], strict=True):
        first, _, last = story.posts
        assert digits(first) & digits(story.article) & digits(english.article), first
        assert digits(first) == digits(english.posts[0]), first
        assert not digits(last), last


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_post_on_another_event_of_the_kind_shares_no_number_with_it(language: str) -> None:
    for story, english in zip(STORIES[language], STORIES[REFERENCE], strict=True):
        assert digits(story.other) == digits(english.other)
        assert not digits(story.other) & digits(story.article + english.article), story.other
        if language == REFERENCE:
            assert not any(name in story.other for name in names(story.article)), story.other


def test_in_english_the_first_two_posts_share_a_name_and_the_last_has_none() -> None:
    for story in STORIES[REFERENCE]:
        assert len(names(story.article)) > 2
        for shares, post in zip((True, True, False), story.posts, strict=True):
            assert any(name in post for name in names(story.article)) == shares, post


def test_a_text_that_lacks_an_event_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "texts.yaml"
    told = {"article": "a", "posts": ["b"], "other": "c"}
    file.write_text(json.dumps({"English": {"flood": told, "final": told}, "X": {"flood": told}}))
    with pytest.raises(KeyError, match="final"):
        read_stories(file)


def test_the_measures_are_what_a_loop_over_all_pairs_counts() -> None:
    rng = np.random.default_rng(4)
    told = [
        LanguageEvent("a", "", ("x",) * 2, ""),
        LanguageEvent("b", "", ("x",) * 3, ""),
        LanguageEvent("c", "", ("x",), ""),
    ]
    score = rng.integers(0, 6, (6, 3)) / 8  # many draws, some just on a threshold
    cut = np.array([0.25, 0.5, 0.375])
    event = [0, 0, 1, 1, 1, 2]
    own = [(score[i, j], cut[j]) for i in range(6) for j in range(3) if event[i] == j]
    foreign = [(score[i, j], cut[j]) for i in range(6) for j in range(3) if event[i] != j]
    alike = np.array([0.25, 0.5, 0])
    recall = finding(score, belonging(told), alike, cut)
    wins = [(a > b) + (a == b) / 2 for a, _ in own for b, _ in foreign]
    assert recall.auc == pytest.approx(sum(wins) / len(wins))
    hard = [(a > b) + (a == b) / 2 for a, _ in own for b in alike]
    assert recall.alike == pytest.approx(sum(hard) / len(hard))
    label = np.equal.outer(event, range(3))
    assert recall.auc == pytest.approx(roc_auc_score(label.ravel(), score.ravel()))
    assert recall.recall == sum(s >= c for s, c in own) / len(own)
    assert recall.false == sum(s >= c for s, c in foreign) / len(foreign)
    assert any(s == c for s, c in own + foreign)


def test_each_language_is_met_by_english_articles_and_by_its_own() -> None:
    enc = encoder.load(device="cpu")
    english = [
        LanguageEvent("flood", "storm flood river", ("flood city",), "river"),
        LanguageEvent("final", "match", ("a",), "game"),
    ]
    other = [
        LanguageEvent("flood", "cat", ("storm",), "dog"),
        LanguageEvent("final", "game music", ("game", "match"), "cat"),
    ]
    rows = findings(enc, {"English": english, "Other": other})
    assert list(rows) == ["English", "Other"]
    assert rows["English"][0] == rows["English"][1]
    posts, label = enc.posts(["storm", "game", "match"]), [[1, 0], [0, 1], [0, 1]]
    for articles, seen in (
        (["storm flood river", "match"], rows["Other"][0]),
        (["cat", "game music"], rows["Other"][1]),
    ):
        score = posts.similarity(enc.articles(articles))
        assert seen.auc == pytest.approx(roc_auc_score(np.ravel(label), score.ravel()))
        reached = score >= enc.thresholds(enc.articles(articles), rate=0.001)
        assert seen.recall == pytest.approx(reached[np.array(label, bool)].mean())
        assert seen.false == pytest.approx(reached[~np.array(label, bool)].mean())


def test_the_command_prints_a_row_for_each_language(newsift: Command) -> None:
    done = newsift("bench", "languages")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("18 posts of 6 invented events in each language")
    body = lines[4 : -len(REMARKS)]
    assert all(line.startswith(name) for line, name in zip(body, LANGUAGES, strict=True))
    rows = json.loads(newsift("bench", "languages", "--json").out)["languages"]["rows"]
    assert [row["posts in"] for row in rows] == LANGUAGES
    for line, row in zip(body, rows, strict=True):
        told = [float(x) for x in re.findall(r"[\d.]+", line)]
        assert told == pytest.approx(list(row.values())[1:], abs=0.051)
    english = rows[0]
    assert list(english.values())[1:5] == list(english.values())[5:]


def test_an_unknown_model_is_one_line(newsift: Command) -> None:
    done = newsift("bench", "languages", "--model", "nowhere")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert "model 'nowhere': no such directory" in done.err
