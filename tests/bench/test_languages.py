import json
import re
from pathlib import Path

import pytest
from sklearn.metrics import roc_auc_score

import encoder
from bench.judged import NAMES, read_judged
from bench.languages import RATE, REMARKS, read_stories
from tests.train.folders import write
from tests.worker.fake import Command
from train.data.corpus import is_training
from train.run import BACKGROUND_POSTS

STORIES = read_stories()
LANGUAGES = list(STORIES)


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
        numbers = [float(x) for x in re.findall(r"[\d.]+", line)]
        assert numbers == pytest.approx(list(row.values())[1:], abs=0.051)
    english = rows[0]
    assert list(english.values())[1:5] == list(english.values())[5:]


THINGS = ("storm", "flood", "river", "music", "match", "police", "city", "fire")
TOPICS = ("weather", "sports")
STREAMS = ("de", "en", "fr", "it", "nl")
POSTS = 8_000


def everyday(code: str, i: int) -> str:
    return f"{THINGS[i % 8]} {THINGS[i // 8 % 8]} everyday {code} {i}"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three languages, one without originals; one more sentence in one of them alone."""
    root = tmp_path_factory.mktemp("judged")
    originals, topics = [], []
    for code in ("en", "it", "th"):
        for i, thing in enumerate(THINGS):
            text = f"{thing} {THINGS[i * 3 % 8]} {'' if code == 'en' else THINGS[(i + 1) % 8]}"
            row = {"id": str(i), "lang": code, "text": f"{text} told {i}"}
            topics.append(row | {"topic": TOPICS[i % 3 % 2]})
            originals += [row] if code != "th" else []
    originals.append({"id": "99", "lang": "en", "text": "an English one alone"})
    write(root / "judged/originals.jsonl.gz", originals)
    write(root / "judged/topics.jsonl.gz", topics)
    for code in STREAMS:
        posts = [everyday(code, i) for i in range(POSTS if code in ("en", "it") else 20)]
        write(root / f"tweets/{code}.jsonl.gz", [{"text": post, "lang": code} for post in posts])
    return root


def test_the_table_is_what_loops_count(newsift: Command, data: Path) -> None:
    done = newsift("bench", "languages", "--data", str(data), "--json")
    assert done.code == 0, done.err
    rows = {row["language"]: row for row in json.loads(done.out)["judged"]["rows"]}
    assert list(rows) == ["English", "Italian", "Thai"]
    enc = encoder.load(device="cpu")
    result = read_judged(data)
    sentences = {code: language.sentences for code, language in result.items()}
    articles = {code: enc.articles(texts) for code, texts in sentences.items()}
    for code, language in result.items():
        row, posts = rows[NAMES[code]], enc.posts(language.sentences)
        for key, other in (("topic, own", code), ("topic, English", "en")):
            score = posts.similarity(articles[other])
            places = [(i, j) for i in range(1, 8, 2) for j in range(0, 8, 2)]
            same = [language.topics[i] == language.topics[j] for i, j in places]
            seen = 100 * roc_auc_score(same, [score[i, j] for i, j in places])
            assert row[key] == pytest.approx(seen)
        best = posts.similarity(articles["en"])
        hits = sum(all(best[i, i] > best[i, j] for j in range(8) if j != i) for i in range(8))
        assert row["same, %"] == pytest.approx(100 * hits / 8)
        assert row["posts"] == len(language.posts)
    assert rows["Thai"]["original, %"] is None
    assert rows["Thai"]["pass, own"] is None
    assert rows["English"]["original, %"] == 100
    italian = result["it"].posts
    seeds = enc.articles([story.article for story in read_stories()["Italian"]])
    cuts = enc.thresholds(seeds, RATE)
    passed = sum(int((enc.posts([p]).similarity(seeds) >= cuts).sum()) for p in italian[:500])
    whole = enc.posts(italian).similarity(seeds) >= cuts
    assert passed == whole[:500].sum()
    assert rows["Italian"]["pass, own"] == pytest.approx(1000 * whole.mean())


def test_posts_that_judge_neither_taught_nor_stand_in_a_background(data: Path) -> None:
    languages = read_judged(data)
    judging = {post for post in (everyday("en", i) for i in range(POSTS)) if not is_training(post)}
    assert set(languages["en"].posts) < judging
    assert len(languages["en"].posts) == len(judging) - BACKGROUND_POSTS // len(STREAMS) > 0
    assert len(languages["en"].originals) == len(languages["it"].originals) == 8
    assert languages["th"].originals == languages["th"].posts == []


def test_a_folder_that_was_not_gathered_is_one_line(newsift: Command, tmp_path: Path) -> None:
    done = newsift("bench", "languages", "--data", str(tmp_path))
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "python -m train.languages.gather writes it" in done.err
