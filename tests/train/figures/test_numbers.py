"""The figures' numbers against scikit-learn, scipy, the entmax package and slow loops."""

from collections import Counter
from math import exp
from pathlib import Path

import entmax as published
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from sklearn.manifold import trustworthiness
from sklearn.metrics import (
    confusion_matrix,
    precision_score,
    recall_score,
)

from encoder.errors import InputError
from tests.train.folders import write
from tests.worker.small import small_encoder
from train.data.readers import Passed, Story
from train.figures import case
from train.figures.softmax import MEAN_EXP, attention_weights, random_logits, simulate
from train.figures.tsne import distances, layout, most_shared


@pytest.mark.parametrize("count", [5, 25])
def test_attention_weights_are_those_of_the_published_functions(count: int) -> None:
    z = random_logits(count)
    weights = attention_weights(z)
    assert (np.diff(z) <= 0).all()
    assert len(z) == count
    assert weights[1.0] == pytest.approx(np.exp(z) / np.exp(z).sum(), abs=1e-6)
    assert weights[1.5] == pytest.approx(published.entmax15(torch.tensor(z)).numpy(), abs=1e-6)
    assert weights[2.0] == pytest.approx(published.sparsemax(torch.tensor(z)).numpy(), abs=1e-6)
    above = [np.count_nonzero(values) for values in weights.values()]
    assert above[0] == count
    assert above == sorted(above, reverse=True)


def test_the_appendix_expects_what_the_integral_says_and_the_simulation_agrees() -> None:
    first, second = (quad(lambda z, k=k: exp(k * z) / 2, -1, 1)[0] for k in (1, 2))
    assert pytest.approx(first) == MEAN_EXP
    assert f"{MEAN_EXP:.4f}" == "1.1752"
    sizes = np.array([3, 40])
    mean, low, high = simulate(sizes, draws=4000)
    error = np.sqrt((second - first**2) * sizes / 4000)
    assert (np.abs(mean - first * sizes) < 4 * error).all()
    # Far from the ends the sum is as good as normal: the middle 95 % is ± 1.96 deviations.
    spread = 1.96 * np.sqrt((second - first**2) * 40)
    assert high[1] - low[1] == pytest.approx(2 * spread, rel=0.05)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 15)), min_size=1, unique=True))
def test_the_most_shared_articles_are_those_a_counter_finds(own: list[tuple[int, int]]) -> None:
    chosen = most_shared(np.array(sorted(own), np.int64), 3)
    shared = Counter(story for _, story in own)
    first = sorted(shared, key=lambda story: (-shared[story], story))[:3]
    assert list(chosen.stories) == first
    expected = {}
    for post, _ in own:
        mine = [place for place, story in enumerate(first) if (post, story) in own]
        if mine:
            expected[post] = mine[0]
    assert dict(zip(chosen.posts.tolist(), chosen.group.tolist(), strict=True)) == expected


def test_posts_are_laid_out_beside_those_the_model_finds_similar() -> None:
    topics = ("storm flood river city", "match game music", "police fire the city")
    texts = [f"{topic} {extra}" for topic in topics for extra in (*"aio.,!'", "the")]
    apart = distances(small_encoder(), texts)
    posts = small_encoder().posts(texts)
    assert apart == pytest.approx(np.maximum(1 - posts.similarity(posts), 0), abs=1e-5)
    assert (np.diag(apart) == 0).all()
    assert (apart == apart.T).all()
    places = layout(apart)
    assert trustworthiness(apart, places, n_neighbors=5, metric="precomputed") > 0.85
    assert (layout(apart) == places).all()


def result(seed: int = 0) -> tuple[case.Result, np.ndarray, np.ndarray, np.ndarray]:
    """Random scores of 60 posts with four articles on three events."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0, 1, (60, 4)).astype(np.float32)
    cuts, owner = rng.uniform(0.7, 0.9, 4).astype(np.float32), np.array([0, 1, 1, 2])
    labels = rng.integers(-1, 3, 60)
    events = ("flood", "fire", "match")
    posts = tuple(
        case.LabelledPost(f'post {i}, "quoted"\nin lines', None if e < 0 else events[e])
        for i, e in enumerate(labels.tolist())
    )
    seeds = tuple((events[e], Story("", "text")) for i, e in enumerate(owner.tolist()))
    found = case.decide(scores, cuts, owner)
    whole = case.Case(events, seeds, posts)
    return case.Result(whole, scores.max(1), labels, found), scores, cuts, owner


def test_a_post_is_found_for_the_best_article_that_it_reaches() -> None:
    made, scores, cuts, owner = result()
    for i, row in enumerate(scores.tolist()):
        reached = [(s, j) for j, s in enumerate(row) if s >= cuts[j]]
        assert made.found[i] == (owner[max(reached)[1]] if reached else -1)
    assert {-1, 0, 1, 2} == set(made.found.tolist())


def test_the_confusion_matrix_is_that_of_scikit_learn() -> None:
    made = result()[0]
    table = case.confusion(made)
    expected = confusion_matrix(made.labelled, made.found, labels=[0, 1, 2, -1])
    assert table.tolist() == expected.tolist()
    precision, recall = case.precision_and_recall(table)
    options = {"labels": [0, 1, 2], "average": "micro"}
    assert precision == pytest.approx(precision_score(made.labelled, made.found, **options))
    assert recall == pytest.approx(recall_score(made.labelled, made.found, **options))
    assert np.isnan(case.precision_and_recall(np.zeros((2, 2), np.int64))).all()


def test_the_posts_at_either_end_are_listed_by_falling_score() -> None:
    made, scores, _, _ = result()
    best = scores.max(1)
    order = sorted(range(60), key=lambda i: (-best[i], i))
    lines = case.listed(made)
    most, least = lines.index("Most similar"), lines.index("Least similar")
    for start, chosen in ((most + 2, order[:10]), (least + 2, order[-10:])):
        for line, i in zip(lines[start : start + 10], chosen, strict=True):
            score, label, _, *words = line.split()
            assert score == f"{best[i]:.4f}"
            assert label == (made.case.posts[i].event or "none")
            assert words[:2] == ["post", f"{i},"]
    assert len(lines) == least + 12


def study(root: Path) -> Path:
    """Two articles on one event and one on another, posts of all kinds."""
    texts = {
        "flood/1": "# Flood\n\nstorm flood river",
        "flood/2": "river city",
        "game": "match game",
    }
    for name, text in texts.items():
        file = root / "seeds" / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    rows = [
        {"text": "storm flood river", "event": "flood"},
        {"text": "match game", "event": "game"},
        {"text": "a cat", "event": None},
        {"text": "storm of music", "event": "flood", "label": "off-topic"},
        {"text": "who", "event": "war"},
        {"text": ""},
    ]
    write(root / "posts.jsonl", rows)
    return root


def test_a_case_study_is_read_from_a_folder(tmp_path: Path) -> None:
    passed = Passed()
    read = case.read_case(study(tmp_path), passed)
    assert sorted(read.events) == ["flood", "game"]
    assert {(event, story.title) for event, story in read.seeds} == {
        ("flood", "Flood"), ("flood", ""), ("game", "")
    }  # fmt: skip
    assert [post.event for post in read.posts] == ["flood", "game", None, None]
    assert passed.count == 2
    assert "posts.jsonl:5: is about 'war', on which there is no article" in passed.told


def test_a_folder_without_articles_or_posts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"needs seeds/EVENT\.md and posts\.jsonl"):
        case.read_case(tmp_path, Passed())
    study(tmp_path)
    write(tmp_path / "posts.jsonl", [{"text": "who", "event": "war"}])
    with pytest.raises(InputError, match="holds no post"):
        case.read_case(tmp_path, Passed())


def test_a_case_is_judged_at_the_automatic_thresholds(tmp_path: Path) -> None:
    enc = small_encoder()
    read = case.read_case(study(tmp_path), Passed())
    made = case.judge(enc, read, 0.01)
    articles = enc.articles([(story.title, story.text) for _, story in read.seeds])
    cuts = enc.thresholds(articles, 0.01)
    for i, post in enumerate(read.posts):
        row = enc.posts([post.text]).similarity(articles)[0]
        assert made.score[i] == pytest.approx(row.max(), abs=1e-6)
        hits = [event for (event, _), s, c in zip(read.seeds, row, cuts, strict=True) if s >= c]
        assert [*read.events, "none"][made.found[i]] in (hits or ["none"])
